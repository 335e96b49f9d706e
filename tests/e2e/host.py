"""What happens to a pod from outside of Kubernetes: its processes are this machine's, so the machine can end them."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.kubectl import Object


def kill(pod: Object, container: str) -> float:
    """End all processes of a running container by SIGKILL; the time of it in seconds since 1970."""
    processes = processes_of(pod, container)
    moment = time.time()
    for process in processes:
        with contextlib.suppress(ProcessLookupError):  # the kernel ends the others with the container's first
            os.kill(process, signal.SIGKILL)
    return moment


@contextmanager
def paused(pod: Object, container: str) -> Iterator[None]:
    """Let a container do nothing for the block, and notice nothing."""
    _signal(pod, container, signal.SIGSTOP)
    try:
        yield
    finally:
        _signal(pod, container, signal.SIGCONT)


@contextmanager
def cut_off(pod: Object, container: str, address: str) -> Iterator[None]:
    """Let nothing that a pod sends to an address leave it for the block."""
    with Path(f"/proc/{processes_of(pod, container)[0]}/ns/net").open() as held:  # the process may end meanwhile
        enter = ["nsenter", f"--net=/proc/self/fd/{held.fileno()}", "ip", "route"]
        _run([*enter, "add", "blackhole", address], held.fileno())
        try:
            yield
        finally:
            _run([*enter, "del", "blackhole", address], held.fileno())


def _run(command: list[str], descriptor: int) -> None:
    done = subprocess.run(command, text=True, capture_output=True, timeout=10, check=False, pass_fds=[descriptor])
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"


def _signal(pod: Object, container: str, number: signal.Signals) -> None:
    for process in processes_of(pod, container):
        os.kill(process, number)


def processes_of(pod: Object, container: str) -> list[int]:
    """Ids of a container's processes, found by the cgroup that is named after the container."""
    name = pod["metadata"]["name"]
    known = {status["name"]: status.get("containerID", "") for status in pod["status"].get("containerStatuses", [])}
    identity = known.get(container, "").rpartition("/")[2]
    assert identity, f"container {container} of pod {name} has not started"
    found = [int(path.parent.name) for path in Path("/proc").glob("[0-9]*/cgroup") if identity in _text(path)]
    assert found, f"no process of container {container} of pod {name} runs on this machine"
    return found


def _text(path: Path) -> str:
    """Processes end while one looks at them."""
    try:
        return path.read_text()
    except OSError:
        return ""
