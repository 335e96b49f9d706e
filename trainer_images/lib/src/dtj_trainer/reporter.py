"""Progress reports from training code: kept in this process, where whoever delivers them reads the latest.

A report is a memory write under a lock held for microseconds, so training neither waits nor fails because of it.
"""

from __future__ import annotations

import logging
import math
import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from dtj_trainer.environment import JOB_NAME

MAX_METRICS = 16
"""As many as the status of a job shows."""

GREATEST = 2**53
"""Whole numbers beyond it change on their way through JSON."""

_log = logging.getLogger("dtj_trainer")


@dataclass(frozen=True)
class Progress:
    """Everything reported so far; None was never reported. ``time`` is Unix time in seconds of the last report."""

    step: int | None = None
    total_steps: int | None = None
    epoch: float | None = None
    total_epochs: float | None = None
    samples: int | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    time: float = 0.0
    phase: str | None = None
    local_seconds: float | None = None


class Change(NamedTuple):
    """What was reported so far, in how many reports, and when the last was, in seconds of the monotonic clock."""

    progress: Progress
    reports: int
    moment: float


class Reporter:
    """Merges reports into one latest state. Safe to use from any thread and from signal handlers.

    ``first_report`` is called with the first report, and again with the first one in a process forked from this one:
    that begins with nothing reported.
    """

    def __init__(self, first_report: Callable[[], None] | None = None) -> None:
        self._first_report = first_report
        self._complained = False
        self.forget()

    def forget(self) -> None:
        """Begin anew, as a forked process does: the lock may have been held by a thread that is not in it."""
        self._in_job = JOB_NAME in os.environ
        self._lock = threading.RLock()  # a signal handler may report while the same thread does
        self._values: dict[str, int | float | str] = {}
        self._metrics: dict[str, float] = {}
        self._measured_by_hand = False
        self._count = 0
        self._moment = 0.0

    @property
    def latest(self) -> Progress | None:
        """What was reported last; None when nothing was, or outside of a job."""
        change = self.change()
        return change.progress if change.reports else None

    def change(self) -> Change:
        """The latest state; empty when nothing was reported."""
        with self._lock:
            values, metrics = dict(self._values), self._metrics
            count, moment = self._count, self._moment
        age = time.monotonic() - moment
        reported_at = time.time() - age if count else 0.0
        return Change(Progress(metrics=metrics, time=reported_at, **values), count, moment)  # type: ignore[arg-type]

    def report(  # noqa: PLR0913 - each is named by the caller
        self,
        *,
        step: int | None = None,
        total_steps: int | None = None,
        epoch: float | None = None,
        total_epochs: float | None = None,
        samples: int | None = None,
        metrics: Mapping[str, float] | None = None,
        phase: str | None = None,
        local_seconds: float | None = None,
    ) -> None:
        """Say how far training is; what is left out stays as last reported.

        ``step`` and ``samples`` count from the beginning of training (not of this attempt), ``epoch`` is the current
        one, counted from 1, or a fraction; ``metrics`` holds at most 16 finite numbers. ``phase`` says in a word what
        is being done; ``local_seconds`` is the time this process took for a step before it waited for the others, by
        which a slow one is found. Never raises and never waits; a report that holds something else than numbers is
        left out, with one warning in the log. Outside of a job it does nothing.
        """
        if not self._in_job:
            return
        try:
            news: dict[str, int | float | str] = {}
            if step is not None:
                news["step"] = _whole(step)
            if total_steps is not None:
                news["total_steps"] = _whole(total_steps)
            if epoch is not None:
                news["epoch"] = _finite(epoch)
            if total_epochs is not None:
                news["total_epochs"] = _finite(total_epochs)
            if samples is not None:
                news["samples"] = _whole(samples)
            if phase is not None:
                news["phase"] = str(phase)
            if local_seconds is not None:
                news["local_seconds"] = _finite(local_seconds)
                self._measured_by_hand = True
            self._keep(news, _finite_metrics(metrics) if metrics else None)
        except Exception as error:  # noqa: BLE001 - whatever a user's number type does, training goes on
            self.complain(error)

    def measure(self, local_seconds: float) -> None:
        """Keep this for the next report, unless training measures and reports its local time itself."""
        if self._in_job and not self._measured_by_hand:
            with self._lock:
                self._values["local_seconds"] = local_seconds

    def _keep(self, news: dict[str, int | float | str], metrics: dict[str, float] | None) -> None:
        with self._lock:
            self._values.update(news)
            if metrics:
                # A new one each time: who reads the old one reads it without the lock.
                merged = {**self._metrics, **metrics}
                self._metrics = merged if len(merged) <= MAX_METRICS else dict(list(merged.items())[:MAX_METRICS])
            self._moment = time.monotonic()
            self._count += 1
            is_first = self._count == 1
        if is_first and self._first_report is not None:
            self._first_report()

    def complain(self, error: Exception) -> None:
        """Warn that a report was left out; once, because a warning per step would drown the user's own log."""
        if not self._complained:
            self._complained = True
            _log.warning("a progress report was left out: %s (said only once)", error)


def _finite(value: float) -> float:
    # float() takes NumPy and framework scalars as well as Python's own numbers.
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"{value!r} is not a finite number")
    return number


def _whole(value: float) -> int:
    number = value if type(value) is int else int(_finite(value))
    if not 0 <= number <= GREATEST:
        raise ValueError(f"{value!r} is not a number of steps or samples")
    return number


def _finite_metrics(metrics: Mapping[str, float]) -> dict[str, float]:
    # A loss that became NaN must not hold back the step number that comes with it.
    numbers = {}
    for name, value in metrics.items():
        number = float(value)
        if math.isfinite(number):
            numbers[str(name)] = number
    return numbers
