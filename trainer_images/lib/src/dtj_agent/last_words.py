"""The container's termination message: how the training ended, the line that says why, and where it stood."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence

from dtj_agent.messages import say

PATH = "/dev/termination-log"
"""Where the kubelet reads it: ``terminationMessagePath`` at its default."""

VERSION = 1
MOST_BYTES = 4095
"""The kubelet cuts at 4096."""

MOST_LINES = 20

LONGEST_LINE = 512
"""Characters of one of the last lines; of the telling one, twice as many."""

_PREFIX = r"(?:\[[\w:./ -]*\]:? ?)?(?:[ |+-]*\| )?(?:\(\w+ pid=\d+[^)]*\) )?"
"""What torchrun ("[rank1]: "), exception groups and Ray write before each line."""

_NAME = r"(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*"
_EXCEPTION = re.compile(
    rf"^{_PREFIX}({_NAME}(?:Error|Exception|Group|Interrupt|Exit|Warning|Fault|Abort|Timeout)(?:: .*)?)$"
)
_ANY_EXCEPTION = re.compile(rf"^{_PREFIX}({_NAME}(?:: .*)?)$")
_INDENTED = re.compile(rf"^{_PREFIX}(?:  +|\t)\S")
_FRAME = re.compile(rf'^{_PREFIX} +File "[^"]*", line \d+')
_WHAT = re.compile(r"^\s*what\(\):\s*(.+)")
_CRASH = re.compile(
    r"(Fatal Python error: .*|Segmentation fault.*|Bus error.*|Illegal instruction.*|Floating point exception.*"
    r"|terminate called .*|Out of memory.*|oom-kill.*|panic: .*|double free or corruption.*|Assertion .* failed.*)$"
)
_COMPLAINT = re.compile(
    r"^(?:[\w./ -]+: )?(?:fatal |internal )?(?:error|fatal|exception|failed|abort(?:ed)?|killed)\b", re.IGNORECASE
)
_BOX_RANK = re.compile(r"^\s*rank\s*: (\d+) \(local_rank: \d+\)")
_BOX_EXIT = re.compile(r"^\s*exitcode\s*: (-?\d+)")
_BOX_TELLS = re.compile(r"^\s*(?:traceback|error_file|time|host|rank|exitcode)\s*:")
_BOX_EXCEPTION = re.compile(rf"^\s+({_NAME}(?:Error|Exception|Interrupt|Exit)(?:: .*)?)$")
_SAYS_SOMETHING = re.compile(r"[^\W_]")


def message(
    exit_code: int,
    lines: Sequence[str] = (),
    signal: int | None = None,
    rank: int | None = None,
    progress: Mapping[str, object] | None = None,
) -> bytes:
    """The termination message, less than 4 KiB of JSON; of the last lines, the oldest are left out when they are long.

    ``lines`` are printable, and more than the message holds: the telling one may be further up. ``progress`` is JSON
    (finite numbers and short texts).
    """
    telling = telling_line(lines) if exit_code else None
    known = {
        "dtj": VERSION,
        "exitCode": exit_code,
        "signal": signal,
        "rank": rank,
        "line": telling,
        "progress": progress or None,
    }
    told: dict[str, object] = {name: value for name, value in known.items() if value is not None}
    shown = [line[:LONGEST_LINE] for line in lines[-MOST_LINES:]] if exit_code else []
    return _bounded(told, shown)


def _bounded(told: dict[str, object], lines: list[str]) -> bytes:
    while True:
        content = _encoded({**told, "lastLines": lines} if lines else told)
        if len(content) <= MOST_BYTES:
            return content
        if lines:
            del lines[0]
        elif "progress" in told:
            del told["progress"]
        else:
            told["line"] = str(told.get("line", ""))[: LONGEST_LINE // 2]


def _encoded(content: Mapping[str, object]) -> bytes:
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")


def telling_line(lines: Sequence[str]) -> str | None:
    """The one line that says most of why it ended; None when none says anything."""
    cut = [line[: 2 * LONGEST_LINE] for line in lines]
    for find in (_torchrun, _exception, _crash):
        found = find(cut)
        if found:
            return found
    telling = [line.strip() for line in cut if _SAYS_SOMETHING.search(line) and not _BOX_TELLS.match(line)]
    complaints = [line for line in telling if _COMPLAINT.match(line)]
    return next(reversed(complaints or telling), None)


def _torchrun(lines: Sequence[str]) -> str | None:
    """The root cause in the box that torchrun prints last; its exception if it was told, else the one above the box."""
    rank = _last(_BOX_RANK, lines)
    if rank is None:
        return None
    number, name = rank
    inside = _last(_BOX_EXCEPTION, lines[number:])
    if inside is not None:
        return f"rank {name}: {inside[1].strip()}"
    own = [line for line in lines[:number] if line.startswith(f"[rank{name}]:")]
    above = _exception(own) or _exception([line for line in lines[:number] if not _is_of_torchrun(line)])
    if above is not None:
        return f"rank {name}: {above}"
    code = _last(_BOX_EXIT, lines[number:])
    return f"torchrun: the process of rank {name} ended" + (f" with exit code {code[1]}" if code is not None else "")


def _is_of_torchrun(line: str) -> bool:
    """torchrun fails with an exception of its own, too, which says only that a process has failed."""
    return "ChildFailedError" in line


def _exception(lines: Sequence[str]) -> str | None:
    """What Python says last when it ends by an exception: also of several, each raised while handling another."""
    for number in range(len(lines) - 1, -1, -1):
        line = lines[number]
        found = _EXCEPTION.match(line)
        if found is None and number > 0 and (_INDENTED.match(lines[number - 1]) and not _INDENTED.match(line)):
            # An exception whose name does not say that it is one: it stands below the line of its raise.
            found = _ANY_EXCEPTION.match(line) if any(map(_FRAME.match, lines[max(0, number - 3) : number])) else None
        if found is not None:
            return found[1].strip()
    return None


def _crash(lines: Sequence[str]) -> str | None:
    """What the C++ library, the C library or a shell say of a crash."""
    crash, what = _last(_CRASH, lines), _last(_WHAT, lines)
    if what is not None:
        return what[1].strip()
    return None if crash is None else crash[1].strip()


def _last(pattern: re.Pattern[str], lines: Sequence[str]) -> tuple[int, str] | None:
    """Number and first group of the last line that matches."""
    for number in range(len(lines) - 1, -1, -1):
        if found := pattern.search(lines[number]):
            return number, found[1]
    return None


def write(content: bytes, path: str = PATH) -> None:
    """Leave the message where the kubelet finds it; where that cannot be, say so once and go on."""
    try:
        # Not to be created: where the kubelet wants a message, it has made the file.
        file = os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    except OSError as error:
        say(f"the termination message cannot be written to {path}: {error.strerror}")
        return
    try:
        os.write(file, content)
    except OSError as error:
        say(f"the termination message cannot be written to {path}: {error.strerror}")
    finally:
        os.close(file)
