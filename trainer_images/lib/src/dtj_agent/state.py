"""What is known of this pod's training: merged from all that is heard, in order of trust, and told as JSON.

Times are seconds of the monotonic clock, and told as ages: the wall clock of a pod may be wrong by a day.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from dtj_agent import protocol, ranks, values
from dtj_agent.rates import Pace

if TYPE_CHECKING:
    from dtj_agent.patterns import Reading

_TRUST = {protocol.REPORT: 4, protocol.HUGGING_FACE: 3, protocol.PATTERN: 2, protocol.TQDM: 0}
"""The presets stand between what the user wrote down and tqdm's bar, which may also be that of a download."""

_PRESET = 1

FULL = 100.0
END_WITHIN_S = 2.0


class Place(NamedTuple):
    """This pod in its job; None and 1 where its environment says nothing sensible."""

    job_uid: str | None
    attempt: int | None
    node_rank: int | None
    world_size: int

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] = os.environ) -> Place:
        def whole(name: str) -> int | None:
            text = environ.get(name, "")
            return values.count(int(text)) if text.isascii() and text.isdigit() and len(text) < 18 else None

        return cls(
            job_uid=environ.get(protocol.JOB_UID),
            attempt=whole(protocol.ATTEMPT),
            node_rank=whole(protocol.NODE_RANK),
            world_size=(whole(protocol.NODE_COUNT) or 1) * (whole(protocol.PROCESSES_PER_NODE) or 1),
        )


class News(NamedTuple):
    """What one line, report or request says of the training; None is what it does not say."""

    source: str
    step: int | None = None
    total_steps: int | None = None
    epoch: float | None = None
    total_epochs: float | None = None
    percent: float | None = None
    eta_seconds: float | None = None
    samples: int | None = None
    samples_per_second: float | None = None
    metrics: Mapping[str, float] = {}
    age: float = 0.0
    """How many seconds ago training said so: a process tells again from time to time what it last knew."""

    @property
    def position(self) -> tuple[int | None, float | None, float | None]:
        return self.step, self.epoch, self.percent

    @property
    def has_position(self) -> bool:
        return self.position != (None, None, None)


class State:
    """Everything heard so far; safe to use from any thread. Nothing in it grows with time."""

    def __init__(
        self,
        place: Place,
        clock: Callable[[], float] = time.monotonic,
        last_line: Callable[[], str | None] | None = None,
    ) -> None:
        self.place = place
        self._clock = clock
        self._began = clock()
        self._last_line = last_line
        self._lock = threading.Lock()
        self._ranks = ranks.Ranks(place.world_size)
        self._running = True
        self._known: News | None = None
        self._pace, self._samples_pace, self._track = Pace(), Pace(), ranks.Track()
        self._first_step: int | None = None
        self._changed_at: float | None = None
        self._epoch_beside: float | None = None
        """From lines that go along with the leading source, for as long as that one tells none itself."""
        self._reported_at = 0.0

    def end(self) -> None:
        """The command has ended; what is heard after it is what it said before."""
        self._running = False

    def hear_reading(self, reading: Reading) -> None:
        """What a printed line says."""
        self.hear(
            News(
                source=reading.source,
                step=reading.step,
                total_steps=reading.total_steps,
                epoch=reading.epoch,
                total_epochs=reading.total_epochs,
                percent=reading.percent,
                samples_per_second=reading.samples_per_second,
                metrics=reading.metrics,
            )
        )

    def hear(self, news: News) -> None:
        """Take what is new of the training as a whole; numbers that are none are left out."""
        clean = _clean(news)
        with self._lock:
            before = self._known
            if before is not None and _is_ignored(clean, before):
                if before.step is None and _count_the_same(clean, before):
                    self._note_first_step(clean)
                return
            if before is None or _takes_over(clean, before):
                before = self._lead_with(clean)
            now = max(self._began, self._clock() - clean.age)
            self._known = _finished(_merged(before, clean), before, now - self._reported_at)
            self._reported_at = max(self._reported_at, now)
            if clean.source != before.source and clean.epoch is not None:
                self._epoch_beside = clean.epoch
            # Where it began is no step yet: loading and compiling come before the first.
            if before.has_position and self._known.position != before.position:
                self._changed_at = now
            self._measure(clean, now)

    def _lead_with(self, news: News) -> News:
        """The numbers of a source stand in the place of those that others told; what is kept of them."""
        before = self._known
        self._pace, self._samples_pace, self._track = Pace(), Pace(), ranks.Track()
        if before is None or not _count_the_same(news, before):
            self._first_step = None
        self._changed_at = self._epoch_beside = None
        # What told no position counted nothing else: its metrics stay.
        return News(news.source, metrics=before.metrics if before is not None and not before.has_position else {})

    def _measure(self, news: News, now: float) -> None:
        # Of another preset than the one that leads, the step is not taken: it may count something else.
        if self._known is None or news.source != self._known.source:
            return
        if news.step is not None:
            self._note_first_step(news)
            self._pace.saw(now, news.step)
            self._track.saw(now, news.step)
        if news.samples is not None:
            self._samples_pace.saw(now, news.samples)

    def _note_first_step(self, news: News) -> None:
        # A bar begins at 0 before it jumps to where the checkpoint left off; reports say what they mean.
        if self._first_step is None and (news.step or news.source == protocol.REPORT):
            self._first_step = news.step

    def hear_rank(self, heartbeat: ranks.Heartbeat | None) -> None:
        """Take what one rank, of this pod or another, says of itself; None is nothing."""
        if heartbeat is not None:
            with self._lock:
                self._ranks.hear(heartbeat)

    def now(self) -> float:
        return self._clock()

    def heartbeats(self) -> list[dict[str, Any]]:
        """What the ranks of this pod said of themselves, as JSON for node rank 0."""
        with self._lock:
            return self._ranks.messages(self._clock())

    def last_words(self) -> dict[str, Any] | None:
        """Where the training stands, for the termination message; None when nothing was heard."""
        with self._lock:
            known = self._known
            if known is None:
                return None
            told = {
                "source": known.source,
                "step": known.step,
                "totalSteps": known.total_steps,
                "epoch": self._epoch(known),
                "totalEpochs": known.total_epochs,
                "firstStep": self._first_step,
                "percent": known.percent if known.step is None else None,
                "metrics": dict(known.metrics) or None,
            }
        return {name: value for name, value in told.items() if value is not None}

    def progress(self) -> dict[str, Any]:
        """The answer to ``GET /v1/progress``: less than 16 KiB as JSON, without what is not known."""
        line = values.text(self._last_line(), protocol.LONGEST_LINE) if self._last_line is not None else None
        with self._lock:
            told = {
                "jobUid": self.place.job_uid,
                "attempt": self.place.attempt,
                "nodeRank": self.place.node_rank,
                "running": self._running,
                **self._told(self._clock()),
                "lastLine": line,
            }
        return {name: value for name, value in told.items() if value is not None}

    def _epoch(self, known: News) -> float | None:
        return self._epoch_beside if known.epoch is None else known.epoch

    def _told(self, now: float) -> dict[str, Any]:
        pace = self._pace.per_second
        seen_by_all = {"ranks": self._ranks.summary(now, self._track, pace)}
        known = self._known
        if known is None:
            return seen_by_all
        counts_steps = known.step is not None
        return {
            "source": known.source,
            "reportAge": _rounded(max(0.0, now - self._reported_at)),
            "stepAge": None if self._changed_at is None else _rounded(max(0.0, now - self._changed_at)),
            "step": known.step,
            "totalSteps": known.total_steps,
            "epoch": self._epoch(known),
            "totalEpochs": known.total_epochs,
            "firstStep": self._first_step,
            "percent": None if counts_steps else known.percent,
            "etaSeconds": None if counts_steps else known.eta_seconds,
            "stepsPerSecond": _rounded(pace),
            "samplesPerSecond": _rounded(self._samples_pace.per_second or known.samples_per_second),
            "secondsPerStep": _rounded(self._pace.usual_seconds),
            "secondsPerChange": _rounded(self._pace.usual_interval),
            "metrics": dict(known.metrics) or None,
            **seen_by_all,
        }


def _trust(source: str) -> int:
    return _TRUST.get(source, _PRESET)


def _is_ignored(news: News, known: News) -> bool:
    """Whether a source that is trusted more has told where training is."""
    trusted = _trust(known.source)
    leads = known.step is not None or (trusted > _PRESET and known.has_position)
    return leads and _trust(news.source) < trusted


def _count_the_same(one: News, other: News) -> bool:
    """Whether two sources count the same steps, as Hugging Face's callback and its bar, which tells them sooner."""
    return one.total_steps is not None and one.total_steps == other.total_steps


def _takes_over(news: News, known: News) -> bool:
    """Whether the numbers of ``news`` stand in the place of those known, which another source told."""
    if news.source == known.source or not news.has_position:
        return False
    if not known.has_position or _trust(news.source) > max(_PRESET, _trust(known.source)):
        return True
    # Among presets it is the step that counts: lines that tell only an epoch go along with the bar that tells steps.
    return news.step is not None and (known.step is None or _trust(news.source) > _trust(known.source))


def _merged(known: News, news: News) -> News:
    metrics = values.metrics(known.metrics, news.metrics)
    if news.source != known.source:
        # It may count other steps.
        return known._replace(metrics=metrics)
    told = {name: value for name, value in news._asdict().items() if value is not None}
    return known._replace(**{**told, "metrics": metrics})


def _finished(merged: News, before: News, passed: float) -> News:
    """Hugging Face's callback ends with 100 % and no step, up to 5 s after it last told one.

    That is the last step, unless training was stopped early, by far more than the time that has passed since.
    """
    is_end = merged.percent == FULL and before.percent != FULL and merged.step == before.step
    if not is_end or merged.total_steps is None or before.eta_seconds is None:
        return merged
    was_near = before.eta_seconds <= END_WITHIN_S + 2 * passed
    return merged._replace(step=merged.total_steps) if was_near else merged


def _clean(news: News) -> News:
    percent = values.amount(news.percent)
    return News(
        source=news.source,
        step=values.count(news.step),
        total_steps=values.count(news.total_steps) or None,
        epoch=values.amount(news.epoch),
        total_epochs=values.amount(news.total_epochs) or None,
        percent=None if percent is None else min(FULL, percent),
        eta_seconds=values.amount(news.eta_seconds),
        samples=values.count(news.samples),
        samples_per_second=values.amount(news.samples_per_second),
        metrics=values.metrics(news.metrics),
        age=values.amount(news.age) or 0.0,
    )


def _rounded(value: float | None) -> float | None:
    """Six digits that matter, never rounded to 0; no more than the greatest number that may be told."""
    return None if value is None else min(float(f"{value:.6g}"), protocol.GREATEST_NUMBER)
