"""Whether what a command prints looks like what a page shows: the same words, other numbers, times and widths."""

import re
from itertools import groupby
from typing import Final

TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT[\d:]+Z")
DURATION: Final = re.compile(r"\b(?:\d+[dhms])+\b")
NUMBER: Final = re.compile(r"\d+(?:\.\d+)?")
ELISION: Final = "..."


def shape(line: str) -> str:
    """A line with its times, durations and numbers replaced, and its columns one space apart."""
    line = NUMBER.sub("N", DURATION.sub("DURATION", TIME.sub("TIME", line)))
    return " ".join(line.split())


def shapes(text: str) -> list[str]:
    return [shape(line) for line in text.splitlines() if line.strip()]


def is_like(printed: str, shown: str) -> bool:
    """Whether all lines have the shape of those shown, in their order; `...` stands for any number of lines."""
    expected, lines = shapes(shown), shapes(printed)
    if ELISION not in expected:
        return lines == expected
    cut = expected.index(ELISION)
    tail = len(expected) - cut - 1
    return (
        len(lines) >= cut + tail and lines[:cut] == expected[:cut] and lines[len(lines) - tail :] == expected[cut + 1 :]
    )


def shows_in_order(printed: str, shown: str) -> bool:
    """Whether a table that is watched goes through the names and phases shown, whatever comes between them.

    The columns after these two depend on the moment, and so does how often a row is printed.
    """
    seen = iter(_names_and_phases(printed))
    return all(expected in seen for expected, _ in groupby(_names_and_phases(shown)))


def _names_and_phases(table: str) -> list[tuple[str, ...]]:
    return [tuple(line.split()[:2]) for line in shapes(table)]
