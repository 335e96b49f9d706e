"""What of a container's output reaches the status."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtj.api.status import MAX_LAST_LINES, MAX_LINE
from dtj.lifecycle.last_words import headline, last_lines, printable

LINES: dict[str, tuple[str, tuple[str, ...] | None]] = {
    "nothing": ("", None),
    "blank lines only": (" \n\n\t\n", None),
    "one": ("a\n", ("a",)),
    "spaces after it": ("a  \r\n", ("a",)),
    "indentation stays": ("a\n  b", ("a", "  b")),
    "blank lines do not count": ("a\n\nb", ("a", "b")),
    "too many": ("\n".join(str(n) for n in range(30)), tuple(str(n) for n in range(10, 30))),
    "too long: its end": ("x" * 2_000 + "end", ("x" * (MAX_LINE - 3) + "end",)),
    "colours and control characters": ("\x1b[31mred\x1b[0m \x01\x00x \x1b]0;title\x07\tend", ("red x \tend",)),
    "a progress bar: its last state": ("1/3\r2/3\r3/3\nValueError", ("3/3", "ValueError")),
    "not ASCII": ("größe: \U0001f600", ("größe: \U0001f600",)),
}


@pytest.mark.parametrize(("text", "lines"), LINES.values(), ids=LINES.keys())
def test_last_lines(text: str, lines: tuple[str, ...] | None) -> None:
    assert last_lines(text) == lines


@given(st.text(max_size=4_000))
def test_lines_are_bounded_and_safe_for_a_terminal(text: str) -> None:
    lines = last_lines(text) or ()

    assert len(lines) <= MAX_LAST_LINES
    assert all(0 < len(line) <= MAX_LINE for line in lines)
    assert not any(ord(character) < 32 and character != "\t" for line in lines for character in line)


@given(st.text())
def test_what_is_printable_stays_so(text: str) -> None:
    assert printable(printable(text)) == printable(text)


TORCHRUN = (
    "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:",
    "============================================================",
    "Root Cause (first observed failure):",
    "[0]:",
    "  time      : 2030-01-02_12:00:00",
    "  rank      : 3 (local_rank: 1)",
    "  exitcode  : 1 (pid: 25)",
    "  error_file: <N/A>",
    "  traceback : To enable traceback see: https://example.com",
    "============================================================",
)

HEADLINES: dict[str, tuple[tuple[str, ...], str]] = {
    "the last line": (("Traceback", "ValueError: no"), "ValueError: no"),
    "decoration is passed over": (("ValueError: no", "======", "  "), "ValueError: no"),
    "nothing but decoration": (("---", "==="), "==="),
    "torchrun's root cause": (TORCHRUN, "torchrun: the process of rank 3 ended with exit code 1"),
    "torchrun, cut short": (TORCHRUN[:6], "torchrun: the process of rank 3 ended"),
    "not ASCII": (("größe", "…"), "größe"),
}


@pytest.mark.parametrize(("lines", "said"), HEADLINES.values(), ids=HEADLINES.keys())
def test_headline(lines: tuple[str, ...], said: str) -> None:
    assert headline(lines) == said
