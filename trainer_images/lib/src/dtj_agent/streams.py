"""The threads that copy output, and the reading of it, which comes after."""

from __future__ import annotations

import array
import fcntl
import os
import select
import termios
import threading
import time
from collections import deque
from collections.abc import Callable

from dtj_agent.lines import Lines
from dtj_agent.messages import say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dtj_agent.own_pattern import OwnPattern
    from dtj_agent.patterns import Reader, Reading

READ_BYTES = 64 * 1024

LINES_PER_S = 300
"""Lines of one stream that are read for progress in a second; beyond, only the newest."""

NEWEST = 20
"""How many lines of a flood are read in the second after it."""

ODD_LINES = 20
"""Lines that may make the reading fail before it is given up."""

LAST_MATCHES_S = 0.5

HELD_BYTES = 4096
"""More of a line that has no end yet is not kept back; pipes write no more at once (PIPE_BUF) without mixing either."""

IDLE_S = 0.25
"""After that much silence the state of a bar is taken to be complete."""


class Watcher:
    """Reads lines of the first copy, stdout's and stderr's, and tells what they say. A bug here ends only itself."""

    def __init__(self, on_reading: Callable[[Reading], None], own_pattern: OwnPattern | None) -> None:
        self.own_pattern = own_pattern
        self._on_reading = on_reading
        self._reader: Reader | None = None
        self._lock = threading.Lock()
        self._is_off = False
        self._errors = 0

    def read(self, lines: list[bytes]) -> None:
        with self._lock:
            if self._is_off:
                return
            for line in lines:
                try:
                    self._read(line.decode(errors="replace"))
                except Exception as error:  # noqa: BLE001 - the output must be copied whatever happens here
                    self._note(error)
        self.take_matches()

    def take_matches(self) -> None:
        """Tell what the user's own pattern has found."""
        self._tell_matches(lambda own: own.take())

    def finish(self) -> None:
        """Wait shortly for what the user's own pattern finds in the last lines."""
        self._tell_matches(lambda own: own.finish(LAST_MATCHES_S))

    def _tell_matches(self, take: Callable[[OwnPattern], list[Reading]]) -> None:
        with self._lock:
            if self.own_pattern is None or self.own_pattern.is_off:
                return
            try:
                for reading in take(self.own_pattern):
                    self._on_reading(reading)
            except Exception as error:  # noqa: BLE001 - as above
                self._switch_off(error)

    def _read(self, line: str) -> None:
        if self._reader is None:
            # Loaded with the first line, which has been copied by then: this takes some 20 ms.
            from dtj_agent.patterns import Reader  # noqa: PLC0415

            self._reader = Reader()
        if self.own_pattern is not None and not self.own_pattern.is_off:
            self.own_pattern.submit(line)
        reading = self._reader.read(line)
        if reading is not None:
            self._on_reading(reading)

    def _note(self, error: Exception) -> None:
        """One odd line is passed over; many are a bug, which must not cost the training its time."""
        self._errors += 1
        if self._errors > ODD_LINES:
            self._switch_off(error)

    def _switch_off(self, error: Exception) -> None:
        self._is_off = True
        say(f"the output is not read for progress any more. Please report this: {error!r}")


class Watch:
    """One stream of one copy: its last lines, and those that are read."""

    def __init__(self, last: deque[bytes], watcher: Watcher | None) -> None:
        self.watcher = watcher
        self._last = last
        self._most = last.maxlen or 0
        self._lines = Lines()
        self._second = 0
        self._left = LINES_PER_S
        self._unread: deque[bytes] = deque(maxlen=NEWEST)
        self._is_blind = False

    def see(self, data: bytes) -> None:
        """Take note of what has been printed."""
        self._try(lambda: self._see(data))

    def rest(self) -> None:
        """Nothing has been printed for a while."""
        self._try(self._rest)

    def end(self) -> None:
        """Nothing more will be printed."""
        self._try(self._end)

    def _try(self, look: Callable[[], None]) -> None:
        if self._is_blind:
            return
        try:
            look()
        except Exception as error:  # noqa: BLE001 - the output must be copied whatever happens here
            self._is_blind = True
            say(f"the training's output is not looked at any more. Please report this: {error!r}")

    def _see(self, data: bytes) -> None:
        second = int(time.monotonic())
        if second != self._second:
            self._second, self._left = second, LINES_PER_S
            self._read_unread()
        lines = self._lines.feed(data, max(self._left, self._most))
        self._last.extend(line for line in lines[-self._most :] if line.strip())
        if self.watcher is None:
            return
        state = self._lines.unfinished()
        if state is not None:
            lines.append(state)
        if self._left > 0:
            self._left -= len(lines)
            self.watcher.read(lines)
        else:
            self._unread.extend(lines[-NEWEST:])

    def _rest(self) -> None:
        if self.watcher is None:
            return
        self._read_unread()
        state = self._lines.unfinished(also_open=True)
        if state is not None:
            self.watcher.read([state])

    def _end(self) -> None:
        line = self._lines.end()
        if line is not None:
            self._last.append(line)
            self._unread.append(line)
        self._read_unread()

    def _read_unread(self) -> None:
        if self.watcher is not None and self._unread:
            unread = list(self._unread)
            self._unread.clear()
            self.watcher.read(unread)


class WholeLines:
    """Keeps the lines of several copies apart: each is written whole, unless its end does not come for a while."""

    def __init__(self, write: Callable[[bytes], None]) -> None:
        self._write = write
        self._held: dict[int, tuple[bytes, float]] = {}

    def take(self, source: int, data: bytes) -> None:
        before, since = self._held.pop(source, (b"", time.monotonic()))
        text = before + data
        end = max(text.rfind(b"\n"), text.rfind(b"\r")) + 1
        if end:
            since = time.monotonic()
        if len(text) - end > HELD_BYTES:
            end = len(text)
        self._write(text[:end])
        if end < len(text):
            self._held[source] = text[end:], since
        self.give_late()

    def give_late(self, than_s: float = IDLE_S) -> None:
        """Write what has waited for the end of its line for so long."""
        now = time.monotonic()
        for source in [source for source, (_, since) in self._held.items() if now - since >= than_s]:
            self._write(self._held.pop(source)[0])


class Stream:
    """Copies from some pipes to one file descriptor, in a thread of its own.

    One for stdout and one for stderr, so that one of them goes on when nobody reads the other.
    """

    def __init__(self, target: int, sources: dict[int, Watch]) -> None:
        self._target = target
        self._sources = sources
        self._wake_me, self._wake = os.pipe()
        self._poll = select.poll()
        for source in (*sources, self._wake_me):
            self._poll.register(source, select.POLLIN)
        self._is_broken = False
        self._whole_lines = WholeLines(self._write) if len(sources) > 1 else None
        self._until: float | None = None
        self._owed: dict[int, int] | None = None
        """Bytes that were in each pipe when the end was to come: they are copied, however long it takes."""
        self._is_quiet = True
        self._thread = threading.Thread(target=self._run, name=f"output-{target}", daemon=True)
        self._own = next((watch.watcher.own_pattern for watch in sources.values() if watch.watcher is not None), None)
        # One of the two streams takes what the user's pattern has found.
        if self._own is not None and target == 1:
            self._poll.register(self._own.answers, select.POLLIN)

    def start(self) -> None:
        self._thread.start()

    def end(self, timeout_s: float) -> None:
        """Let it end within ``timeout_s`` seconds, but copy what is in the pipes now."""
        self._until = time.monotonic() + timeout_s
        os.write(self._wake, b"!")

    def join(self, timeout_s: float) -> None:
        self._thread.join(max(0.0, timeout_s))

    def _run(self) -> None:
        while self._sources and not self._is_over():
            events = self._poll.poll(self._patience_ms())
            if not events and self._whole_lines is not None:
                self._whole_lines.give_late()
            if not events and self._until is None:
                self._is_quiet = True
                for watch in self._sources.values():
                    watch.rest()
            for ready, _ in events:
                self._serve(ready)
        if self._whole_lines is not None:
            self._whole_lines.give_late(0.0)
        for watch in self._sources.values():
            watch.end()

    def _serve(self, ready: int) -> None:
        if ready == self._wake_me:
            os.read(self._wake_me, 1)
        elif ready in self._sources:
            self._copy(ready)
        elif self._own is not None:
            self._take_matches(self._own)

    def _copy(self, source: int) -> None:
        watch = self._sources[source]
        data = os.read(source, READ_BYTES)
        if not data:
            self._poll.unregister(source)
            os.close(source)
            del self._sources[source]
            watch.end()
            return
        if self._whole_lines is None:
            self._write(data)
        else:
            self._whole_lines.take(source, data)
        if self._owed is not None:
            self._owed[source] -= len(data)
        self._is_quiet = False
        watch.see(data)

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            try:
                view = view[os.write(self._target, view) :]
            except BlockingIOError:  # someone has made it so; wait as if it blocked
                poll = select.poll()
                poll.register(self._target, select.POLLOUT)
                poll.poll()
            except OSError as error:
                # Go on reading: a training does not end because nobody sees what it prints.
                if not self._is_broken:
                    self._is_broken = True
                    name = "stdout" if self._target == 1 else "stderr"
                    say(f"the training's {name} is lost: it cannot be written: {error.strerror}")
                return

    def _take_matches(self, own: OwnPattern) -> None:
        for watch in self._sources.values():
            if watch.watcher is not None:
                watch.watcher.take_matches()
        if own.is_off:
            self._poll.unregister(own.answers)
            own.close()

    def _patience_ms(self) -> float | None:
        if self._until is not None:
            return max(0.0, self._until - time.monotonic()) * 1000
        return None if self._is_quiet else IDLE_S * 1000

    def _is_over(self) -> bool:
        if self._until is None:
            return False
        if self._owed is None:
            self._owed = {source: _waiting_bytes(source) for source in self._sources}
        return time.monotonic() >= self._until and all(self._owed[source] <= 0 for source in self._sources)


def _waiting_bytes(source: int) -> int:
    """Bytes in a pipe that have not been read."""
    count = array.array("i", [0])
    try:
        fcntl.ioctl(source, termios.FIONREAD, count)
    except OSError:
        return 0
    return count[0]
