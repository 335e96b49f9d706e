"""What a container said before it ended, made fit for a status: bounded, readable, safe for a terminal."""

import re
from collections.abc import Sequence

from dtj.api.status import MAX_LAST_LINES, MAX_LINE

_ESCAPE_SEQUENCE = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)|[@-Z\\-_])")
"""CSI, OSC and two-character sequences of ECMA-48: colours, cursor movements, window titles."""
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_SAYS_SOMETHING = re.compile(r"[^\W_]")
_TORCHRUN_RANK = re.compile(r"^\s*rank\s*: (\d+) \(local_rank: \d+\)")
_TORCHRUN_EXIT = re.compile(r"^\s*exitcode\s*: (-?\d+)")
_TORCHRUN_HINT = re.compile(r"^\s*traceback\s*:|^\s*error_file\s*:")


def printable(text: str) -> str:
    """The text without anything that would act on a terminal instead of being shown by it."""
    return _CONTROL.sub("", _ESCAPE_SEQUENCE.sub("", text))


def last_lines(text: str) -> tuple[str, ...] | None:
    """The last lines of a container's output, None if it says nothing; of a progress bar only its last state."""
    shown = (printable(line.rstrip("\r").rpartition("\r")[2]).rstrip() for line in text.split("\n"))
    lines = [line[-MAX_LINE:] for line in shown if line]
    return tuple(lines[-MAX_LAST_LINES:]) or None


def headline(lines: Sequence[str]) -> str:
    """The one line that says most: torchrun's root cause, else the last that is more than decoration."""
    for number, line in reversed(tuple(enumerate(lines))):
        if found := _TORCHRUN_RANK.match(line):
            exits = (_TORCHRUN_EXIT.match(each) for each in lines[number + 1 :])
            code = next((f" with exit code {found_exit[1]}" for found_exit in exits if found_exit), "")
            return f"torchrun: the process of rank {found[1]} ended{code}"
    telling = (line for line in reversed(lines) if _SAYS_SOMETHING.search(line) and not _TORCHRUN_HINT.match(line))
    return next(telling, lines[-1]).strip()
