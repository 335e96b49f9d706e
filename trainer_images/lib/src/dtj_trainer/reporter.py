"""Progress reports from training code: kept in this process, where whoever delivers them reads the latest.

A report is a memory write under a lock held for microseconds, so training neither waits nor fails because of it.
"""

from __future__ import annotations

import logging
import math
import os
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from dtj_trainer.environment import JOB_NAME

MAX_METRICS = 16
"""As many as the status of a job shows."""

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

    def updated(self, news: Progress) -> Progress:
        """These numbers with those of ``news`` over them; metrics beyond the first 16 names are left out."""
        metrics = {**self.metrics, **news.metrics}
        return Progress(
            step=self.step if news.step is None else news.step,
            total_steps=self.total_steps if news.total_steps is None else news.total_steps,
            epoch=self.epoch if news.epoch is None else news.epoch,
            total_epochs=self.total_epochs if news.total_epochs is None else news.total_epochs,
            samples=self.samples if news.samples is None else news.samples,
            metrics=dict(list(metrics.items())[:MAX_METRICS]),
            time=news.time,
        )


class Reporter:
    """Merges reports into one latest state. Safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._latest: Progress | None = None
        self._complained = False

    @property
    def latest(self) -> Progress | None:
        """What was reported last; None when nothing was, or outside of a job."""
        return self._latest  # one reference, replaced as a whole: no lock needed to read it

    def report(
        self,
        *,
        step: int | None = None,
        total_steps: int | None = None,
        epoch: float | None = None,
        total_epochs: float | None = None,
        samples: int | None = None,
        metrics: Mapping[str, float] | None = None,
    ) -> None:
        """Say how far training is; what is left out stays as last reported.

        ``step`` and ``samples`` count from the beginning of training (not of this attempt), ``epoch`` may be a
        fraction, ``metrics`` holds at most 16 finite numbers. Never raises and never waits; a report that holds
        something else than numbers is left out, with one warning in the log. Outside of a job it does nothing.
        """
        if JOB_NAME not in os.environ:
            return
        try:
            news = Progress(
                step=_whole(step),
                total_steps=_whole(total_steps),
                epoch=_finite(epoch),
                total_epochs=_finite(total_epochs),
                samples=_whole(samples),
                metrics=_finite_metrics(metrics or {}),
                time=time.time(),
            )
            with self._lock:
                self._latest = (self._latest or Progress()).updated(news)
        except Exception as error:  # noqa: BLE001 - whatever a user's number type does, training goes on
            self._complain(error)

    def _complain(self, error: Exception) -> None:
        # Once: a warning per step would drown the user's own log.
        if not self._complained:
            self._complained = True
            _log.warning("a progress report was left out: %s (said only once)", error)


def _finite(value: float | None) -> float | None:
    # float() takes NumPy and framework scalars as well as Python's own numbers.
    if value is None:
        return None
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"{value!r} is not a finite number")
    return number


def _whole(value: float | None) -> int | None:
    number = _finite(value)
    return None if number is None else int(number)


def _finite_metrics(metrics: Mapping[str, float]) -> dict[str, float]:
    # A loss that became NaN must not hold back the step number that comes with it.
    numbers = {str(name): float(value) for name, value in metrics.items()}
    return {name: number for name, number in numbers.items() if math.isfinite(number)}


_REPORTER = Reporter()
report = _REPORTER.report


def latest() -> Progress | None:
    """What was reported last; None when nothing was, or outside of a job."""
    return _REPORTER.latest
