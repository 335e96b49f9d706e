"""How fast steps go by, from sightings of (time, step) that come as they please: late, in bursts, or twice.

Pure: the caller says what time it is, in seconds of a clock that only goes forward.
"""

from __future__ import annotations

from math import exp

SHORTEST_INTERVAL_S = 0.2
"""Sightings closer together count as one: a burst, such as a block of buffered lines, says nothing about time."""

IGNORED_INTERVALS = 2
"""The first intervals hold compilation, warm-up of caches, and the jump to where a checkpoint left off."""

MEMORY_S = 30.0
MEMORY_STEPS = 10
"""The weight of an interval falls to 1/e after this time, or after this many steps, whichever is longer."""

TYPICAL_OF = 31
"""Newest intervals whose median is what is usual."""

ODD = 5.0
"""An interval whose time per step is that many times longer or shorter than usual is a pause (validation, a checkpoint
being written) or a jump, not the pace of training..."""

ODD_IN_A_ROW = 2
"""... unless more than these come one after the other: then that is the new pace."""


class Pace:
    """Speed of one counter that goes up: steps or samples."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._last: float | None = None
        self._anchor: tuple[float, float] | None = None
        self._intervals = 0
        self._odd = 0
        self._time = 0.0
        self._count = 0.0
        self._times_per_step: list[float] = []
        self._lengths: list[float] = []

    def saw(self, now: float, count: float) -> None:
        """Take note that the counter stood at ``count`` at the time ``now``; one that fell begins anew."""
        if self._last is not None and count < self._last:
            self._begin()
        self._last = count
        if self._anchor is None:
            self._anchor = (now, count)
            return
        passed, counted = now - self._anchor[0], count - self._anchor[1]
        if counted <= 0 or passed < SHORTEST_INTERVAL_S:
            return
        self._anchor = (now, count)
        self._intervals += 1
        if self._intervals > IGNORED_INTERVALS:
            self._take(passed, counted)

    @property
    def per_second(self) -> float | None:
        """Greater than 0; None as long as too little was seen."""
        return self._count / self._time if self._time > 0 else None

    @property
    def usual_seconds(self) -> float | None:
        """Median time of one count; None as long as too little was seen."""
        return _median(self._times_per_step)

    @property
    def usual_interval(self) -> float | None:
        """Median time between two sightings of a different count: one line may stand for a thousand steps."""
        return _median(self._lengths)

    def _take(self, passed: float, counted: float) -> None:
        usual = self.usual_seconds
        _append(self._times_per_step, passed / counted)
        _append(self._lengths, passed)
        if usual is not None and not usual / ODD <= passed / counted <= usual * ODD:
            self._odd += 1
            if self._odd <= ODD_IN_A_ROW:
                return
        else:
            self._odd = 0
        memory = max(MEMORY_S, MEMORY_STEPS * passed / counted)
        kept = exp(-passed / memory)
        self._time = self._time * kept + passed
        self._count = self._count * kept + counted


def _append(values: list[float], value: float) -> None:
    values.append(value)
    del values[:-TYPICAL_OF]


def _median(values: list[float]) -> float | None:
    return sorted(values)[len(values) // 2] if values else None
