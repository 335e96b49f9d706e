"""What is known of the other ranks of the training, and which of them holds up the rest.

Pure: times are seconds of this pod's monotonic clock. Other pods tell how long ago something was, never when.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from typing import Any, NamedTuple

from dtj_agent import values
from dtj_agent.protocol import LONGEST_PHASE

PRESENT_S = 30.0
"""A rank that was not heard of for longer is silent; training code that reports does so every 10 s at least."""

FORGOTTEN_S = 3600.0
"""The longest age that another pod may tell; what is older says nothing any more."""

LAG_STEPS = 2
LAG_S = 0.5
"""Ranks that train in step differ by one at most; a report underway for a moment adds what training does in it."""

ALIKE = 1.1
"""Ranks whose own time per step is within 10 % of the median are equally fast."""

TRACK_SIGHTINGS = 256
TRACK_SPACING_S = 0.25


class Heartbeat(NamedTuple):
    """What one rank last said of itself."""

    rank: int
    heard_at: float
    step: int | None = None
    step_at: float | None = None
    """When its step last changed."""
    local_seconds: float | None = None
    """What it needs for its own part of a step, before it waits for the others."""
    phase: str | None = None
    final: bool = False
    """It has ended its training: it is neither silent nor slow."""

    def message(self, now: float) -> dict[str, Any]:
        """Itself as JSON for another pod."""
        known = {
            "rank": self.rank,
            "age": now - self.heard_at,
            "step": self.step,
            "stepAge": None if self.step_at is None else now - self.step_at,
            "localSeconds": self.local_seconds,
            "phase": self.phase,
            "final": self.final or None,
        }
        return {name: value for name, value in known.items() if value is not None}


def heartbeat(message: object, now: float) -> Heartbeat | None:
    """Read what ``Heartbeat.message`` made; None when it is no such thing."""
    if not isinstance(message, Mapping):
        return None
    rank, age = values.count(message.get("rank")), values.amount(message.get("age"))
    if rank is None or age is None or age > FORGOTTEN_S:
        return None
    step_age = values.amount(message.get("stepAge"))
    return Heartbeat(
        rank=rank,
        heard_at=now - age,
        step=values.count(message.get("step")),
        step_at=None if step_age is None else now - step_age,
        local_seconds=values.amount(message.get("localSeconds")),
        phase=values.text(message.get("phase"), LONGEST_PHASE),
        final=message.get("final") is True,
    )


class Track:
    """Which step this pod's training was at, and when, over the last minute or more."""

    def __init__(self) -> None:
        self._times: list[float] = []
        self._steps: list[int] = []

    def saw(self, now: float, step: int) -> None:
        if self._steps and step < self._steps[-1]:
            self._times, self._steps = [], []
        if len(self._times) > 1 and now - self._times[-2] < TRACK_SPACING_S:
            self._times[-1], self._steps[-1] = now, step
            return
        self._times.append(now)
        self._steps.append(step)
        del self._times[:-TRACK_SIGHTINGS], self._steps[:-TRACK_SIGHTINGS]

    def at(self, time: float) -> float | None:
        """The step at ``time``, between two sightings in proportion; None before the first."""
        after = bisect_right(self._times, time)
        if after == 0:
            return None
        if after == len(self._times):
            return float(self._steps[-1])
        begin, end = self._times[after - 1], self._times[after]
        share = (time - begin) / (end - begin)
        return self._steps[after - 1] + share * (self._steps[after] - self._steps[after - 1])


class Ranks:
    """The newest heartbeat of each rank, at most ``world_size``."""

    def __init__(self, world_size: int) -> None:
        self._world_size = world_size
        self._heard: dict[int, Heartbeat] = {}

    def hear(self, news: Heartbeat) -> None:
        known = self._heard.get(news.rank)
        if not 0 <= news.rank < self._world_size or (known is not None and known.heard_at > news.heard_at):
            return
        if news.step is not None and news.step_at is None:
            stands = known is not None and known.step == news.step
            news = news._replace(step_at=known.step_at if known is not None and stands else news.heard_at)
        self._heard[news.rank] = news

    def messages(self, now: float) -> list[dict[str, Any]]:
        """What was heard, for another pod; what is too old for it is left out."""
        return [known.message(now) for known in self._heard.values() if now - known.heard_at <= FORGOTTEN_S]

    def summary(self, now: float, track: Track, steps_per_second: float | None) -> dict[str, Any] | None:
        """How many ranks report, and the slowest unless all are alike; None when none ever did."""
        if not self._heard:
            return None
        training = [known for known in self._heard.values() if not known.final]
        present = [known for known in training if now - known.heard_at <= PRESENT_S]
        silent = _silent(training, now) if present else None
        slowest = silent or _behind(present, track, steps_per_second) or _slow(present)
        return {"reporting": len(present), **({} if slowest is None else {"slowest": slowest})}


def _silent(training: list[Heartbeat], now: float) -> dict[str, Any] | None:
    # A frozen process says nothing, and the others, who wait for it, all stand at the same step.
    longest = min(training, key=lambda known: known.heard_at)
    silence = now - longest.heard_at
    return {"rank": longest.rank, "silentSeconds": round(silence, 1)} if silence > PRESENT_S else None


def _behind(present: list[Heartbeat], track: Track, steps_per_second: float | None) -> dict[str, Any] | None:
    lags = {known.rank: _lag(known, track) for known in present}
    most = max(present, key=lambda known: lags[known.rank], default=None)
    if most is None or lags[most.rank] < max(LAG_STEPS, LAG_S * (steps_per_second or 0.0)):
        return None
    return _described(most, int(lags[most.rank]), _typical(present))


def _lag(known: Heartbeat, track: Track) -> float:
    reference = None if known.step is None else track.at(known.heard_at)
    return 0.0 if reference is None or known.step is None else max(0.0, reference - known.step)


def _slow(present: list[Heartbeat]) -> dict[str, Any] | None:
    typical = _typical(present)
    slowest = max(present, key=lambda known: known.local_seconds or 0.0, default=None)
    if slowest is None or typical is None or (slowest.local_seconds or 0.0) <= typical * ALIKE:
        return None
    return _described(slowest, 0, typical)


def _typical(present: list[Heartbeat]) -> float | None:
    local = sorted(known.local_seconds for known in present if known.local_seconds is not None)
    # The lower one of two in the middle: of two ranks, the slower must not be what the slower is compared with.
    return local[(len(local) - 1) // 2] if local else None


def _described(known: Heartbeat, behind: int, typical: float | None) -> dict[str, Any]:
    facts: dict[str, Any] = {"rank": known.rank, "behindSteps": behind}
    if known.local_seconds is not None and typical is not None:
        facts.update(localSeconds=known.local_seconds, typicalLocalSeconds=typical)
    if known.phase is not None:
        facts["phase"] = known.phase
    return facts
