"""The arithmetic of ``status.progress``: how much is done, how long it will take, and what restarts threw away.

``percent`` is within 0 and 100; there is an ETA only where rate and total are known and the news is fresh; within an
attempt nothing is invented, and from one attempt to the next a step that falls back is work that was lost.
"""

from datetime import datetime, timedelta
from math import floor, isfinite
from typing import Final

from dtj.api.model import EXACT_MAX
from dtj.api.status import Metric, ProgressStatus, SlowestRank
from dtj.lifecycle.agent_report import AgentReport, Sighting, Training
from dtj.lifecycle.last_words import printable

STALE_INTERVALS: Final = 3
STALE_STEPS: Final = 5
"""News is stale after so many intervals of reading, or usual times of a step or between two reports, whichever is
longer."""

TELL_EPOCHS_DONE: Final = frozenset({"transformers", "horovod"})
"""Sources whose epoch 2.0 is the end of the second; the others', its course."""

LONGEST_ETA: Final = timedelta(days=365)
"""Beyond it an estimate says nothing but that the training hardly moves."""


def heard(told: ProgressStatus | None, sighting: Sighting, now: datetime, interval: timedelta) -> ProgressStatus:
    """The progress after an agent's report. ``interval``: between two readings."""
    report = sighting.report
    since = max(now - sighting.time, timedelta(0))
    silent = since + timedelta(seconds=report.report_age or 0)
    stale = report.running and silent > _patience(report, interval)
    progress = _with_training(told, report, report.attempt)
    eta = None if stale or not report.running else _eta_seconds(progress, report, since)
    return progress.model_copy(
        update={
            "report_time": (now - silent).replace(microsecond=0) if report.report_age is not None else None,
            "stale": True if stale else None,
            "eta_seconds": eta,
            "estimated_completion_time": (
                None if eta is None else (now + timedelta(seconds=eta)).replace(microsecond=0)
            ),
            "eta": None if eta is None else duration_in_words(eta),
            "slowest_rank": _slowest(report),
        }
    )


def last_told(told: ProgressStatus | None, training: Training, attempt: int) -> ProgressStatus:
    """The progress after what an attempt's first rank said at its end."""
    return ended(_with_training(told, training, attempt))


def ended(progress: ProgressStatus) -> ProgressStatus:
    """The progress of an attempt that runs no more: nothing is estimated."""
    nothing = ("stale", "eta_seconds", "estimated_completion_time", "eta", "slowest_rank")
    return progress.model_copy(update=dict.fromkeys(nothing))


def _with_training(told: ProgressStatus | None, training: Training, attempt: int) -> ProgressStatus:
    same = told is not None and told.attempt == attempt
    before = told if told is not None and same else ProgressStatus()
    step = training.step if training.step is not None else before.step
    total = training.total_steps or before.total_steps
    if step is not None and total is not None and step > total:
        total = None  # a total that the training itself has passed was none
    epoch, total_epochs = training.epoch, training.total_epochs
    percent = _percent(step, total, _epochs_done(training), total_epochs, training.percent)
    metrics = {printable(name)[:64]: value for name, value in training.metrics.items() if isfinite(value)}
    rate, unsettled = training.steps_per_second, _unsettled_step(told, attempt)
    return ProgressStatus(
        step=step,
        total_steps=total,
        epoch=_whole(epoch) if epoch is not None else before.epoch,
        total_epochs=_whole(total_epochs) if total_epochs else before.total_epochs,
        percent=percent if percent is not None else before.percent,
        steps_per_second=rate,
        samples_per_second=training.samples_per_second,
        metrics=tuple(Metric(name=name, value=value) for name, value in sorted(metrics.items()) if name)
        or before.metrics,
        attempt=attempt,
        source=training.source or before.source,
        best_step=_best_step(told, attempt),
        unsettled_step=unsettled if training.first_step is None else None,
        lost_steps=_lost_steps(told, unsettled, training.first_step),
        completed=_completed(step, total, percent if percent is not None else before.percent),
        rate=None if rate is None else rate_in_words(rate),
        report_time=before.report_time,
    )


def _epochs_done(training: Training) -> float | None:
    """A whole number is that of the current epoch, counted from 1, but for sources that tell what is done."""
    epoch, source = training.epoch, training.source
    with_results = source == "keyvalue" and bool(training.metrics)  # lines with a loss are printed when it is over
    if epoch is None or source in TELL_EPOCHS_DONE or with_results or not epoch.is_integer():
        return epoch
    return max(0.0, epoch - 1)


def _unsettled_step(told: ProgressStatus | None, attempt: int) -> int | None:
    """How far the attempts before had come, as long as nobody knows where this one goes on."""
    if told is None:
        return None
    if told.attempt == attempt or told.step is None:
        return told.unsettled_step
    return told.step


def _lost_steps(told: ProgressStatus | None, unsettled: int | None, first_step: int | None) -> int | None:
    """The ledger: counted in the write that takes in the first step of an attempt, and so exactly once."""
    lost = told.lost_steps if told is not None else None
    if unsettled is None or first_step is None:
        return lost
    return min((lost or 0) + max(0, unsettled - first_step + 1), EXACT_MAX)


def _best_step(told: ProgressStatus | None, attempt: int) -> int | None:
    if told is None or told.attempt is None or told.attempt >= attempt:
        return told.best_step if told is not None else None
    known = [step for step in (told.best_step, told.step) if step is not None]
    return max(known, default=None)


def _patience(report: AgentReport, interval: timedelta) -> timedelta:
    usual = min(max(report.seconds_per_step or 0, report.seconds_per_change or 0), 1e6)
    return max(STALE_INTERVALS * interval, STALE_STEPS * timedelta(seconds=usual))


def _percent(
    step: int | None, total: int | None, epochs: float | None, total_epochs: float | None, said: float | None
) -> int | None:
    """From the finest that is known, all of it done. Rounded down: 100 is only what is done."""
    if step is not None and total:
        share = step / total
    elif epochs is not None and total_epochs:
        share = epochs / total_epochs
    elif said is not None:
        share = said / 100
    else:
        return None
    return max(0, min(100, floor(share * 100 + 1e-9)))


def _eta_seconds(progress: ProgressStatus, report: AgentReport, since: timedelta) -> int | None:
    if progress.step is not None and progress.total_steps is not None and progress.steps_per_second:
        left = (progress.total_steps - progress.step) / progress.steps_per_second
        left -= since.total_seconds()
    elif report.eta_seconds is not None:
        left = report.eta_seconds - (report.report_age or 0) - since.total_seconds()
    else:
        return None
    return round(max(left, 0.0)) if left <= LONGEST_ETA.total_seconds() else None


def _slowest(report: AgentReport) -> SlowestRank | None:
    slowest = report.ranks.slowest
    if slowest is None:
        return None
    return SlowestRank(
        rank=slowest.rank,
        behind_steps=slowest.behind_steps,
        silent_seconds=slowest.silent_seconds,
        local_seconds=slowest.local_seconds,
        typical_local_seconds=slowest.typical_local_seconds,
    )


def _whole(number: float) -> int:
    return min(floor(number), EXACT_MAX)


def _completed(step: int | None, total: int | None, percent: int | None) -> str | None:
    """The column PROGRESS: a share where it is known, else the bare step."""
    if percent is not None:
        return f"{percent}%"
    return None if step is None or total is not None else f"step {step}"


def duration_in_words(seconds: int) -> str:
    """The two largest units, as kubectl writes ages: ``45s``, ``3m20s``, ``2h5m``, ``3d4h``."""
    for size, unit, smaller, small_unit in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "m"), (60, "m", 1, "s")):
        if seconds >= size:
            rest = seconds % size // smaller
            return f"{seconds // size}{unit}" + (f"{rest}{small_unit}" if rest else "")
    return f"{seconds}s"


def rate_in_words(steps_per_second: float) -> str:
    """Three digits that count, per second or, where that is less than one, per minute or hour."""
    for factor, unit in ((1, "s"), (60, "min"), (3_600, "h")):
        if steps_per_second * factor >= 1:
            return f"{steps_per_second * factor:.3g}/{unit}" if steps_per_second < 1000 else f"{steps_per_second:.0f}/s"
    return f"{steps_per_second * 3600:.2g}/h" if steps_per_second else "0/s"
