"""Processes that outlive the command that started them, known by process id and start time."""

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.errors import BedError

POLL_SECONDS = 0.05
KILL_SECONDS = 10.0
LOG_TAIL_LINES = 15


@dataclass(frozen=True)
class Process:
    """One process of a bed. The start time (in clock ticks since boot) tells it from a later one with the same id."""

    name: str
    pid: int
    started: int

    def is_alive(self) -> bool:
        return _start_time(self.pid) == self.started

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to this very process; a process that is gone already is fine."""
        with contextlib.suppress(ProcessLookupError):
            handle = os.pidfd_open(self.pid)  # from here on the id cannot be another process's
            try:
                if self.is_alive():
                    signal.pidfd_send_signal(handle, number)
            finally:
                os.close(handle)


def start(name: str, command: Sequence[str], log: Path) -> Process:
    """Start `command` in a session of its own, its output going to the end of `log`."""
    return identify(name, spawn(command, log), log)


def spawn(command: Sequence[str], log: Path, *, standard_input: int | None = None) -> int:
    """Start `command` likewise and return its process id; it reads the descriptor `standard_input`, else nothing.

    Not by `subprocess`, which complains when its caller forgets a process that still runs.
    """
    append = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    reading = (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)
    actions = [
        reading if standard_input is None else (os.POSIX_SPAWN_DUP2, standard_input, 0),
        (os.POSIX_SPAWN_OPEN, 1, str(log), append, 0o644),
        (os.POSIX_SPAWN_DUP2, 1, 2),
    ]
    return os.posix_spawnp(command[0], list(command), os.environ, file_actions=actions, setsid=True)


def identify(name: str, pid: int, log: Path) -> Process:
    """Return the running process `pid`; raise BedError with the end of its log when it is gone."""
    started = _start_time(pid)
    if started is None:
        raise BedError(f"{name} ended at once\n{tail(log)}")
    return Process(name, pid, started)


def kill(running: Iterable[Process]) -> None:
    """Kill the processes and wait until they are gone; raise BedError if one is not after a few seconds.

    They are never asked first: a bed's state is thrown away with it, and an API server takes its time to say goodbye.
    """
    remaining = list(running)
    for process in remaining:
        process.signal(signal.SIGKILL)
    deadline = time.monotonic() + KILL_SECONDS
    while (remaining := [p for p in remaining if p.is_alive()]) and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
    if remaining:
        raise BedError(f"cannot end {', '.join(f'{p.name} (process {p.pid})' for p in remaining)}")


def wait_until(ready: Callable[[], bool], *, what: str, timeout: float, watched: Mapping[Process, Path]) -> None:
    """Poll `ready`; raise BedError after `timeout` seconds, or at once when one of the `watched` processes ends.

    `watched` gives each process's log, whose end becomes part of the message.
    """
    deadline = time.monotonic() + timeout
    while not ready():
        for process, log in watched.items():
            if not process.is_alive():
                raise BedError(f"{process.name} ended while waiting for {what}\n{tail(log)}")
        if time.monotonic() > deadline:
            tails = "\n".join(tail(log) for log in watched.values())
            raise BedError(f"{what}: not within {timeout:.0f} s\n{tails}")
        time.sleep(POLL_SECONDS)


def tail(log: Path) -> str:
    """Return the last lines of a log with its name."""
    if not log.exists():
        return f"--- {log}: empty"
    lines = log.read_text(errors="replace").splitlines()[-LOG_TAIL_LINES:]
    return "\n".join([f"--- the end of {log}:", *lines])


def _start_time(pid: int) -> int | None:
    try:
        # The name in parentheses may hold anything; the fields after it are fixed (proc(5): state is 3, starttime 22).
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in "ZX" else int(fields[19])
