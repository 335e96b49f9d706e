"""Copies what the training prints to the agent's own output, byte for byte and at once, and keeps its last lines.

Making the pipes takes almost nothing; all else is loaded when the training runs.
"""

# Imports are where they are used: the training's start does not wait for them.
# ruff: noqa: PLC0415

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable

from dtj_agent.messages import say

STDOUT, STDERR = 1, 2

KEPT_LINES = 100
"""Of each copy: torchrun alone prints some fifty lines below the exception that was the cause."""

OWED_S = 10.0
"""The longest that what was printed before the end of the training may take to be written, when nobody reads fast."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dtj_agent.own_pattern import OwnPattern
    from dtj_agent.patterns import Reading
    from dtj_agent.streams import Stream, Watcher


def can_be_copied() -> bool:
    """Not to a terminal: a training that prints to one is to know it."""
    return not (os.isatty(STDOUT) or os.isatty(STDERR))


class Pump:
    """The output of all copies of the command. Of the first one, what its lines say of progress is told.

    Use: ``pipes()`` before each copy is started, ``begin()`` when all are, ``finish()`` when they have ended.
    """

    def __init__(self, on_reading: Callable[[Reading], None], own_pattern: str | None = None) -> None:
        """``on_reading`` gets what the first copy's lines say, from threads of the pump."""
        self._on_reading = on_reading
        self._own_pattern = own_pattern
        self._sources: list[tuple[int, int, int]] = []
        """Where to read, which copy's, and where to write."""
        self._given: list[int] = []
        self._last: list[deque[bytes]] = []
        self._streams: list[Stream] = []
        self._watcher: Watcher | None = None

    def pipes(self) -> tuple[int, int]:
        """What becomes stdout and stderr of the next copy; the file descriptors stay the pump's.

        They are the same one where the agent's own stdout and stderr are: then what is printed stays in order.
        """
        copy = len(self._last)
        self._last.append(deque(maxlen=KEPT_LINES))
        stdout = self._pipe(copy, STDOUT)
        return stdout, stdout if _are_the_same() else self._pipe(copy, STDERR)

    def begin(self) -> None:
        """Start copying, from now on in the background."""
        for given in self._given:  # the copies have theirs
            os.close(given)
        self._given.clear()
        from dtj_agent.streams import Stream, Watch, Watcher

        watcher = self._watcher = Watcher(self._on_reading, self._start_own_pattern())
        for target in (STDOUT, STDERR):
            sources = {
                source: Watch(self._last[copy], watcher if copy == 0 else None)
                for source, copy, its_target in self._sources
                if its_target == target
            }
            if sources:
                self._streams.append(Stream(target, sources))
        for stream in self._streams:
            stream.start()

    def finish(self, timeout_s: float) -> None:
        """Copy what is left, and stop: at the end of all output, or after ``timeout_s`` seconds.

        The end does not come as long as a process that was left behind holds the output. What had been printed when
        this was called is copied in any case, if it can be within 10 s.
        """
        import time

        for stream in self._streams:
            stream.end(timeout_s)
        latest = time.monotonic() + max(timeout_s, OWED_S) + 1
        for stream in self._streams:
            stream.join(latest - time.monotonic())
        if self._watcher is not None:
            self._watcher.finish()

    def last_lines(self, copy: int = 0) -> tuple[str, ...]:
        """The last lines of a copy, stdout and stderr in the order seen: printable, without empty ones."""
        if copy >= len(self._last):
            return ()
        from dtj_agent.patterns import printable

        shown = (printable(line.decode(errors="replace")).rstrip() for line in self._last[copy].copy())
        return tuple(line for line in shown if line.strip())

    def last_line(self) -> str | None:
        """The last line of the first copy that is more than decoration."""
        lines = self.last_lines()
        return next((line for line in reversed(lines) if any(map(str.isalnum, line))), None)

    def _pipe(self, copy: int, target: int) -> int:
        source, given = os.pipe()
        self._sources.append((source, copy, target))
        self._given.append(given)
        return given

    def _start_own_pattern(self) -> OwnPattern | None:
        if not self._own_pattern:
            return None
        from dtj_agent.own_pattern import OwnPattern

        try:
            return OwnPattern.start(self._own_pattern)
        except Exception as error:  # noqa: BLE001 - whatever it is, the output is copied
            say(f"progress.logPattern is not used: {error!r}")
            return None


def _are_the_same() -> bool:
    stdout, stderr = os.fstat(STDOUT), os.fstat(STDERR)
    return (stdout.st_dev, stdout.st_ino) == (stderr.st_dev, stderr.st_ino)
