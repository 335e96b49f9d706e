"""Watches over the started copies of the command until all have ended, and says what the container ends with."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

from dtj_agent import processes, signals
from dtj_agent.messages import say

GRACE_S = 10.0
"""What the other copies get between SIGTERM and SIGKILL when one has failed: they wait for it in vain, so this is only
for a last line or an upload, and short enough for the default grace period of a pod (30 s)."""

POLL_S = 0.1
"""How often it looks for processes that are no children of the agent, and so end without a word to it."""


class Copy:
    """One started copy of the command."""

    def __init__(self, pid: int, name: str) -> None:
        self.pid = pid
        self.name = name
        self.status: int | None = None
        """As ``os.waitpid`` gives it; None while it runs."""
        self.told: set[int] = set()
        """Signals that it was sent."""
        self.left_others = False
        """It ended by a signal that it was sent, and others of its session live on."""

    @property
    def runs(self) -> bool:
        return self.status is None


class Supervisor:
    """Forwards signals to the copies, reaps every process, and ends all copies when one fails."""

    def __init__(self, grace_s: float = GRACE_S) -> None:
        self._grace_s = grace_s
        self._copies: list[Copy] = []
        self._beside: dict[int, Callable[[int], None]] = {}
        self._first_failure: Copy | None = None
        self._asked_to_end = False
        self._kill_at: float | None = None
        self._give_up_at: float | None = None

    def add(self, pid: int, name: str) -> None:
        """Take charge of a copy; ``name`` stands for it in messages."""
        self._copies.append(Copy(pid, name))

    def add_beside(self, pid: int, on_end: Callable[[int], None]) -> None:
        """Take note of a process that is no copy: ``on_end`` gets its status when it ends while copies run."""
        self._beside[pid] = on_end

    def run(self) -> int:
        """Wait until all copies have ended; the exit code: 0, or that of the first copy that failed."""
        while not (self._all_have_ended() or self._gives_up()):
            number = signals.take(self._patience())
            if number is not None and number != signal.SIGCHLD:
                self._forward(number)
            self._reap()
            self._kill_when_due()
        return 0 if self.first_failure is None else processes.exit_code(self.first_failure[1])

    @property
    def first_failure(self) -> tuple[int, int] | None:
        """Index and ``os.waitpid`` status of the copy that failed first; None when none has."""
        failed = self._first_failure
        return None if failed is None or failed.status is None else (self._copies.index(failed), failed.status)

    def end(self) -> None:
        """End all copies: SIGTERM, and SIGKILL for what is still there after the grace period."""
        self._end_copies()
        self.run()

    def kill(self) -> None:
        """SIGKILL for all copies and what they have started in their sessions."""
        for copy in self._copies:
            if copy.runs:
                processes.send(copy.pid, signal.SIGKILL)
            for pid in processes.session_members(copy.pid):
                processes.send(pid, signal.SIGKILL)

    def _all_have_ended(self) -> bool:
        return all(not copy.runs and not self._has_others(copy) for copy in self._copies)

    def _has_others(self, copy: Copy) -> bool:
        return copy.left_others and bool(processes.session_members(copy.pid))

    def _gives_up(self) -> bool:
        # A process that even SIGKILL does not end hangs in the kernel, on a device or a file system.
        return self._give_up_at is not None and time.monotonic() >= self._give_up_at

    def _patience(self) -> float | None:
        waits_for_others = any(copy.left_others for copy in self._copies)
        return POLL_S if waits_for_others or self._kill_at is not None or self._give_up_at is not None else None

    def _forward(self, number: int) -> None:
        # To the copy alone: what it started, it tells itself (a training that saves a checkpoint on SIGTERM needs its
        # data loading workers for it, and torchrun tells its own workers).
        if number in (signal.SIGTERM, signal.SIGINT):
            self._asked_to_end = True
        for copy in self._copies:
            self._tell(copy, number)

    def _tell(self, copy: Copy, number: int) -> None:
        if copy.runs:
            copy.told.add(number)
            processes.send(copy.pid, number)
        elif copy.left_others:
            for pid in processes.session_members(copy.pid):
                processes.send(pid, number)

    def _reap(self) -> None:
        """Take note of all that has ended, also of orphans: the first process of a container inherits them."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                return
            self._note(pid, status)
        if any(copy.runs for copy in self._copies):
            raise RuntimeError("a copy of the command ended without its exit code being told")

    def _note(self, pid: int, status: int) -> None:
        if pid in self._beside:
            self._beside.pop(pid)(status)
            return
        for copy in self._copies:
            if copy.pid == pid and copy.runs:
                copy.status = status
                self._pass_on_last_signal(copy)
                self._judge(copy)

    def _pass_on_last_signal(self, copy: Copy) -> None:
        """A shell without a trap ends at once by the signal that was meant for what it runs; that gets it now.

        Otherwise the end of the container would kill it in the middle of its checkpoint. How long it may take is
        bounded by whoever sent the signal: the kubelet by the pod's grace period, or ``_kill_when_due``.
        """
        if copy.status is None or not os.WIFSIGNALED(copy.status) or os.WTERMSIG(copy.status) not in copy.told:
            return
        copy.left_others = True
        self._tell(copy, os.WTERMSIG(copy.status))

    def _judge(self, copy: Copy) -> None:
        if not copy.status or self._first_failure is not None:
            return
        self._first_failure = copy
        # Those that were asked from outside to end are on their way, and the asker says how long they may take.
        if any(other.runs for other in self._copies) and not self._asked_to_end:
            say(f"{copy.name} {processes.describe_end(copy.status)}; ending the others")
            self._end_copies()

    def _end_copies(self) -> None:
        self._kill_at = time.monotonic() + self._grace_s
        for copy in self._copies:
            self._tell(copy, signal.SIGTERM)

    def _kill_when_due(self) -> None:
        if self._kill_at is not None and time.monotonic() >= self._kill_at:
            self._kill_at, self._give_up_at = None, time.monotonic() + self._grace_s
            self.kill()
