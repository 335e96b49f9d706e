"""The user's own pattern, matched by a process of its own.

A regular expression can take years for one line, and while Python matches, no other thread of the process runs: in the
agent itself it would stop the training's output and signals. This process the kernel ends when a match takes too long.
"""

from __future__ import annotations

import json
import os
import re
import select
import signal
import sys
import time
from collections.abc import Mapping

from dtj_agent.copies import LOCATION
from dtj_agent.messages import say
from dtj_agent.patterns import Reading, number

LONGEST_LINE = 1024
"""Characters of a line that are matched."""

MATCH_CPU_S = 0.1
"""Processor time for one line, and ..."""
SECOND_CPU_S = 0.05
"""... in one second."""

STEP, TOTAL_STEPS, EPOCH, TOTAL_EPOCHS = "step", "total_steps", "epoch", "total_epochs"
SPEED = "samples_per_second"

_OFF = "progress.logPattern is not used any more: "
_READ_BYTES = 64 * 1024
_START = "import sys; sys.path.insert(0, sys.argv[1]); from dtj_agent.own_pattern import serve; serve(sys.argv[2])"


class OwnPattern:
    """The agent's side. Nothing here waits: what the other process does not take in time, it does not get."""

    def __init__(self, lines: int, answers: int) -> None:
        self.answers = answers
        """A file descriptor that can be read when there is something to ``take``."""
        self._lines = lines
        self._rest = b""
        self.is_off = False

    @classmethod
    def start(cls, pattern: str) -> OwnPattern | None:
        """Start the process; None, and a message, where the pattern or the machine does not allow it.

        Whoever reaps the agent's children reaps it too; it ends when the agent does.
        """
        try:
            re.compile(pattern)
        except (re.error, OverflowError, RecursionError) as error:
            say(f"progress.logPattern is not used: it is no regular expression of Python: {error}")
            return None
        lines_in, lines = os.pipe()
        answers, answers_out = os.pipe()
        files = [(os.POSIX_SPAWN_DUP2, lines_in, 0), (os.POSIX_SPAWN_DUP2, answers_out, 1)]
        command = [sys.executable, "-I", "-S", "-c", _START, LOCATION, pattern]
        try:
            os.posix_spawn(sys.executable, command, dict(os.environ), file_actions=files, setsigmask=[])
        except (OSError, ValueError) as error:  # ValueError: a zero byte
            say(f"{_OFF}no process could be started for it: {error}")
            os.close(lines)
            os.close(answers)
            return None
        finally:
            os.close(lines_in)
            os.close(answers_out)
        os.set_blocking(lines, False)
        os.set_blocking(answers, False)
        return cls(lines, answers)

    def submit(self, line: str) -> None:
        """Have a line matched; the answer, if it says something, comes with ``take``."""
        try:
            # Less than PIPE_BUF: it is written as a whole, or not at all.
            os.write(self._lines, line[:LONGEST_LINE].encode(errors="replace")[:4000].replace(b"\n", b" ") + b"\n")
        except OSError:  # full, or the process has ended: then ``take`` says why
            return

    def take(self) -> list[Reading]:
        """What has been found; switches itself off, with one message, when the process has ended."""
        try:
            data = os.read(self.answers, _READ_BYTES)
        except BlockingIOError:
            return []
        except OSError:
            data = b""
        if not data:
            self._switch_off(f"it took more than {MATCH_CPU_S} s of processor time for one line")
            return []
        return self._take(data)

    def finish(self, timeout_s: float) -> list[Reading]:
        """What is found in the lines that have been submitted; then the process ends."""
        if self.is_off:
            return []
        self.is_off = True
        os.close(self._lines)
        poll = select.poll()
        poll.register(self.answers, select.POLLIN)
        until = time.monotonic() + timeout_s
        readings: list[Reading] = []
        while poll.poll(max(0.0, until - time.monotonic()) * 1000):
            data = os.read(self.answers, _READ_BYTES)
            if not data:
                break
            readings += self._take(data)
        os.close(self.answers)
        return readings

    def close(self) -> None:
        """Forget the process, which has ended."""
        os.close(self._lines)
        os.close(self.answers)

    def _take(self, data: bytes) -> list[Reading]:
        *answers, self._rest = (self._rest + data).split(b"\n")
        readings = [self._read(answer) for answer in answers]
        return [reading for reading in readings if reading is not None]

    def _read(self, answer: bytes) -> Reading | None:
        try:
            found = json.loads(answer)
        except ValueError:
            return None
        if isinstance(found, str):
            self._switch_off(found)
            return None
        return reading(found)

    def _switch_off(self, reason: str) -> None:
        if not self.is_off:
            self.is_off = True
            say(f"{_OFF}{reason}")


def reading(groups: Mapping[str, str | None]) -> Reading | None:
    """What the named groups of a match say; None when none of them is a number."""
    found = {name: number(text) for name, text in groups.items() if text is not None}
    told = {name: value for name, value in found.items() if value is not None}
    if not told:
        return None
    step, total_steps = told.pop(STEP, None), told.pop(TOTAL_STEPS, None)
    epoch, total_epochs, speed = told.pop(EPOCH, None), told.pop(TOTAL_EPOCHS, None), told.pop(SPEED, None)
    return Reading(
        "pattern",
        None if step is None else int(step),
        None if total_steps is None else int(total_steps),
        epoch,
        total_epochs,
        metrics=told,
        samples_per_second=speed,
    )


def serve(pattern: str) -> None:
    """The other process: match the lines of stdin, and answer with the groups of those that match."""
    compiled = re.compile(pattern)
    spent = _Spent()
    for line in sys.stdin.buffer:
        groups = _match(compiled, line.decode(errors="replace").rstrip("\n"))
        if groups:
            os.write(1, json.dumps(groups).encode() + b"\n")
        if spent.too_much():
            reason = f"it took more than {SECOND_CPU_S} s of processor time in a second"
            os.write(1, json.dumps(reason).encode() + b"\n")
            return


def _match(compiled: re.Pattern[str], line: str) -> dict[str, str | None]:
    signal.setitimer(signal.ITIMER_PROF, MATCH_CPU_S)  # SIGPROF, which ends the process
    found = compiled.search(line)
    signal.setitimer(signal.ITIMER_PROF, 0)
    return {} if found is None else found.groupdict()


class _Spent:
    """Processor time of this process in the current second."""

    def __init__(self) -> None:
        self._from, self._before = time.monotonic(), time.process_time()

    def too_much(self) -> bool:
        now, spent = time.monotonic(), time.process_time()
        if now - self._from >= 1:
            self._from, self._before = now, spent
        return spent - self._before > SECOND_CPU_S
