"""Cuts what a process prints into lines, in bounded memory whatever it prints."""

from __future__ import annotations

LONGEST_BYTES = 4096
"""Of a longer line only its begin is kept."""

_BLANK = b" \t\r\x1b[A\b"
"""What a bar is wiped out with: spaces, and cursor movements."""

_STATES = 16
"""Carriage returns in one piece of output that are looked at, from its end."""


class Lines:
    """One stream. Of a line that is drawn anew by carriage returns, the last state is the line."""

    def __init__(self) -> None:
        self._state = b""
        self._open = b""
        self._is_new = False

    def feed(self, data: bytes, most: int) -> list[bytes]:
        """The lines that ``data`` completes, the last ``most`` of them if there are more."""
        done, newline, rest = data.rpartition(b"\n")
        if not newline:
            self._append(data)
            return []
        if done.count(b"\n") < most:
            first, *others = done.split(b"\n")
            self._append(first)
            lines = [self._line(), *map(_last_state, others)]
        else:
            lines = [_last_state(piece) for piece in done.rsplit(b"\n", most)[1:]]
        self._state, self._open, self._is_new = b"", b"", False
        self._append(rest)
        return lines

    def unfinished(self, *, also_open: bool = False) -> bytes | None:
        """The newest state of a bar, whose line has no end yet, once.

        A state ends where the next begins; with ``also_open`` also the one that has not ended is given, which then may
        be half a state.
        """
        if also_open and self._state_of_open():
            self._is_new = False
            return self._open
        if not self._is_new:
            return None
        self._is_new = False
        return self._state

    def end(self) -> bytes | None:
        """What was printed after the last line's end."""
        line = self._line()
        self._state, self._open, self._is_new = b"", b"", False
        return line or None

    def _state_of_open(self) -> bool:
        return bool(self._state or self._is_new) and not _is_blank(self._open)

    def _line(self) -> bytes:
        return self._state if _is_blank(self._open) else self._open

    def _append(self, data: bytes) -> None:
        text = self._open + data
        if b"\r" in data:
            *states, text = text.rsplit(b"\r", _STATES)
            for state in states[::-1]:
                if not _is_blank(state):
                    self._state, self._is_new = state[:LONGEST_BYTES], True
                    break
        self._open = text[:LONGEST_BYTES]


def _last_state(piece: bytes) -> bytes:
    if b"\r" not in piece:
        return piece[:LONGEST_BYTES]
    states = piece.rsplit(b"\r", _STATES)
    return next((state[:LONGEST_BYTES] for state in states[::-1] if not _is_blank(state)), b"")


def _is_blank(state: bytes) -> bool:
    return not state.strip(_BLANK)
