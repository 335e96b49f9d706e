"""The operator as users start it: a process of its own, with its log and its health port."""

import http.client
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.api.operator.polling import eventually

COMMAND = Path(sys.executable).parent / "dtj"
END_SECONDS = 30.0


class Operator:
    """``dtj operator run`` with one log over all its starts."""

    def __init__(self, kubeconfig: Path, log: Path, *options: str) -> None:
        self._options = options
        self.kubeconfig = kubeconfig
        self.is_usual = True
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None
        self._reserved = _reserved_port()
        log.touch()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self.kill()
        self._reserved.close()

    def start(self, kubeconfig: Path | None = None) -> None:
        """Start the process, which is not ready yet, with ``kubeconfig`` or else its usual one."""
        assert not self.is_alive, "it runs already"
        self.is_usual = kubeconfig is None
        chosen = str(kubeconfig or self.kubeconfig)
        port = str(self.health_port)
        command = [str(COMMAND), "operator", "run", "--kubeconfig", chosen, "--health-port", port, *self._options]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)

    def wait_until_ready(self) -> None:
        self._wait_until("is ready", lambda code: code == http.client.OK)

    def wait_until_it_answers(self) -> None:
        """Its health is told from then on; it need not be ready."""
        self._wait_until("answers", lambda code: code is not None)

    def pause(self) -> None:
        """Let it do nothing, and notice nothing, until it is resumed."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def wait_until_ended(self, within: float = END_SECONDS) -> int:
        """Wait until it has ended by itself; return its exit code."""
        assert self._process is not None
        return self._process.wait(within)

    def kill(self) -> None:
        """End it without a chance to say anything."""
        self._end(signal.SIGKILL)

    def terminate(self) -> int:
        """Ask it to end, as the kubelet does; return its exit code."""
        return self._end(signal.SIGTERM)

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def log(self) -> str:
        return self._log.read_text(encoding="utf-8")

    def health(self, path: str) -> int | None:
        """Return the code with which ``/healthz`` or ``/readyz`` is answered, None without an answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.health_port, timeout=5)
        try:
            connection.request("GET", path)
            return connection.getresponse().status
        except OSError:
            return None
        finally:
            connection.close()

    def describe(self) -> dict[str, object]:
        return {"alive": self.is_alive, "readyz": self.health("/readyz"), "log": self.log.splitlines()[-10:]}

    @property
    def health_port(self) -> int:
        return int(self._reserved.getsockname()[1])

    def _wait_until(self, what: str, holds: Callable[[object], bool]) -> None:
        eventually(f"the operator {what}", self.describe, lambda now: holds(now["readyz"]) or not now["alive"])
        assert self.is_alive, f"the operator ended:\n{self.log}"

    def _end(self, number: signal.Signals) -> int:
        assert self._process is not None
        self._process.send_signal(number)
        return self._process.wait(END_SECONDS)


def _reserved_port() -> socket.socket:
    """Hold a free port, of which nobody else gets hold before the operator listens on it.

    The kernel gives a bound port to nobody who lets it choose, but to one who asks for it by number, as long as neither
    of the two listens already.
    """
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind(("", 0))
    return holder
