"""Waiting for a condition: poll, with a deadline and the last state in the message."""

import json
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

POLL_SECONDS = 0.05
DEADLINE_SECONDS = 30.0
"""For whatever should happen at once: generous, because the machine may be busy."""
GARBAGE_COLLECTION_SECONDS = 60.0
"""For the children of a deleted job: the garbage collector looks for new kinds of owners every 30 seconds."""


def eventually(
    what: str, probe: Callable[[], T], holds: Callable[[T], object], *, within: float = DEADLINE_SECONDS
) -> T:
    """Return the first value of ``probe`` for which ``holds`` is true.

    Fails after ``within`` seconds, saying what was waited for and the last value seen.
    """
    deadline = time.monotonic() + within
    while not holds(value := probe()):
        last = json.dumps(value, indent=2, default=str)
        assert time.monotonic() < deadline, f"not within {within:g} s: {what}; last seen:\n{last}"
        time.sleep(POLL_SECONDS)
    return value


def stays(what: str, probe: Callable[[], T], *, seconds: float) -> T:
    """Return the value of ``probe``, which must not change for that long."""
    before = probe()
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        now = probe()
        assert now == before, f"{what} changed from\n{before}\nto\n{now}"
        time.sleep(POLL_SECONDS)
    return before
