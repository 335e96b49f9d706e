"""The arithmetic of progress: shares, estimates, and the ledger of what restarts threw away."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtj.api.status import ProgressStatus
from dtj.lifecycle.agent_report import MAX_AGE, Training
from dtj.lifecycle.progress import LONGEST_ETA, duration_in_words, ended, heard, last_told, rate_in_words
from tests.builders import NOW, ago
from tests.unit.lifecycle.reports import report, sighting

INTERVAL = timedelta(seconds=10)


def after(told: ProgressStatus | None = None, attempt: int = 0, **fields: Any) -> ProgressStatus:  # noqa: ANN401
    return heard(told, sighting(attempt, **fields), NOW, INTERVAL)


PERCENT: dict[str, tuple[dict[str, Any], int | None]] = {
    "nothing known": ({"metrics": {"loss": 1.0}}, None),
    "no total": ({"step": 5}, None),
    "none of many": ({"step": 0, "total_steps": 10}, 0),
    "rounded down": ({"step": 999, "total_steps": 1000}, 99),
    "all": ({"step": 1000, "total_steps": 1000}, 100),
    "more steps than there should be": ({"step": 11, "total_steps": 10}, None),
    "a share of an epoch": ({"epoch": 1.5, "total_epochs": 3.0}, 50),
    "the first epoch begins": ({"epoch": 1.0, "total_epochs": 3.0}, 0),
    "the last epoch begins": ({"epoch": 3.0, "total_epochs": 3.0}, 66),
    "the only epoch begins": ({"epoch": 1.0, "total_epochs": 1.0, "source": "keras"}, 0),
    "an epoch with its results": (
        {"epoch": 3.0, "total_epochs": 3.0, "source": "keyvalue", "metrics": {"loss": 0.1}},
        100,
    ),
    "an epoch announced": ({"epoch": 3.0, "total_epochs": 3.0, "source": "keyvalue"}, 66),
    "epochs that are done": ({"epoch": 3.0, "total_epochs": 3.0, "source": "transformers"}, 100),
    "steps are finer than epochs": ({"epoch": 2.0, "total_epochs": 2.0, "step": 1, "total_steps": 4}, 25),
    "said by the source": ({"percent": 42.7}, 42),
    "a total of nothing": ({"step": 1, "total_steps": 0}, None),
}


@pytest.mark.parametrize(("fields", "percent"), PERCENT.values(), ids=PERCENT.keys())
def test_percent(fields: dict[str, Any], percent: int | None) -> None:
    assert after(**fields).percent == percent


COLUMN: dict[str, tuple[dict[str, Any], str | None]] = {
    "a share": ({"step": 1, "total_steps": 4}, "25%"),
    "steps without a total": ({"step": 120}, "step 120"),
    "nothing": ({"metrics": {"loss": 1.0}}, None),
}


@pytest.mark.parametrize(("fields", "shown"), COLUMN.values(), ids=COLUMN.keys())
def test_the_column_progress(fields: dict[str, Any], shown: str | None) -> None:
    assert after(**fields).completed == shown


HALF: dict[str, Any] = {"step": 50, "total_steps": 100, "steps_per_second": 0.5}
ETA: dict[str, tuple[dict[str, Any], int | None]] = {
    "steps left over the rate": (HALF, 100),
    "no rate yet": ({"step": 50, "total_steps": 100}, None),
    "a rate of nothing": (HALF | {"steps_per_second": 0.0}, None),
    "no total": ({"step": 50, "steps_per_second": 1.0}, None),
    "done": (HALF | {"step": 100}, 0),
    "hardly moves": (HALF | {"steps_per_second": 1e-9}, None),
    "said by the source": ({"percent": 10.0, "eta_seconds": 60.0, "report_age": 5.0}, 55),
    "not of a training that has ended": (HALF | {"running": False}, None),
    "not from stale news": (HALF | {"report_age": 31.0}, None),
}


@pytest.mark.parametrize(("fields", "seconds"), ETA.values(), ids=ETA.keys())
def test_eta(fields: dict[str, Any], seconds: int | None) -> None:
    progress = after(**fields)

    assert progress.eta_seconds == seconds
    assert (progress.eta is None) is (seconds is None)
    assert progress.estimated_completion_time == (None if seconds is None else NOW + timedelta(seconds=seconds))


def test_time_that_has_passed_since_the_report_is_not_still_to_come() -> None:
    assert heard(None, sighting(at=ago(8), **HALF), NOW, INTERVAL).eta_seconds == 92


STALE: dict[str, tuple[dict[str, Any], bool | None]] = {
    "fresh": ({"report_age": 5.0}, None),
    "three intervals": ({"report_age": 30.0}, None),
    "longer": ({"report_age": 30.5}, True),
    "slow steps take their time": ({"report_age": 90.0, "seconds_per_step": 20.0}, None),
    "slower than usual": ({"report_age": 101.0, "seconds_per_step": 20.0}, True),
    "not every step is told": ({"report_age": 90.0, "seconds_per_step": 0.1, "seconds_per_change": 20.0}, None),
    "ended": ({"report_age": 500.0, "running": False}, None),
}


@pytest.mark.parametrize(("fields", "stale"), STALE.values(), ids=STALE.keys())
def test_stale(fields: dict[str, Any], stale: bool | None) -> None:
    assert after(step=1, **fields).stale is stale


def test_an_agent_that_was_not_heard_again_is_stale_too() -> None:
    assert heard(None, sighting(at=ago(31), step=1), NOW, INTERVAL).stale is True


def test_a_clock_that_was_set_back_makes_no_news_from_the_future() -> None:
    progress = heard(None, sighting(at=NOW + timedelta(days=1), **HALF), NOW, INTERVAL)

    assert (progress.eta_seconds, progress.stale) == (100, None)


TOLD = ProgressStatus(step=140, total_steps=1000, attempt=0, lost_steps=None)
LEDGER: dict[str, tuple[ProgressStatus | None, dict[str, Any], int | None]] = {
    "the first attempt loses nothing": (None, {"step": 3, "first_step": 1}, None),
    "it goes on from a checkpoint": (TOLD, {"attempt": 1, "step": 101, "first_step": 101}, 40),
    "it starts again": (TOLD, {"attempt": 1, "step": 1, "first_step": 1}, 140),
    "nothing was lost": (TOLD, {"attempt": 1, "step": 141, "first_step": 141}, 0),
    "its steps are told rarely": (TOLD, {"attempt": 1, "step": 150, "first_step": 150}, 0),
    "counted once": (
        ProgressStatus(step=120, attempt=1, lost_steps=40),
        {"attempt": 1, "step": 121, "first_step": 101},
        40,
    ),
    "added to what was lost before": (
        ProgressStatus(step=120, attempt=1, lost_steps=40),
        {"attempt": 2, "step": 101, "first_step": 101},
        60,
    ),
    "an attempt that told nothing is passed over": (TOLD, {"attempt": 3, "step": 101, "first_step": 101}, 40),
    "news of no step": (TOLD, {"attempt": 1, "metrics": {"loss": 1.0}}, None),
}


@pytest.mark.parametrize(("told", "fields", "lost"), LEDGER.values(), ids=LEDGER.keys())
def test_lost_steps(told: ProgressStatus | None, fields: dict[str, Any], lost: int | None) -> None:
    assert after(told, **fields).lost_steps == lost


def test_what_was_lost_is_counted_once_the_first_step_is_told() -> None:
    epoch_only = after(TOLD, attempt=1, epoch=5.0)
    died_before = after(epoch_only, attempt=2, epoch=5.0)

    assert (died_before.lost_steps, died_before.unsettled_step) == (None, 140)
    told = after(died_before, attempt=2, step=101, first_step=101)
    assert (told.lost_steps, told.unsettled_step, told.best_step) == (40, None, 140)
    assert after(told, attempt=2, step=102, first_step=101).lost_steps == 40


def test_the_step_falls_back_with_an_attempt_and_the_estimate_counts_what_must_be_done_again() -> None:
    progress = after(TOLD, attempt=1, step=101, first_step=101, total_steps=1000, steps_per_second=1.0)

    assert (progress.step, progress.percent, progress.eta_seconds, progress.best_step) == (101, 10, 899, 140)


def test_what_is_not_told_again_stays_within_an_attempt_and_not_beyond() -> None:
    told = after(step=5, total_steps=10, epoch=2.0, metrics={"loss": 0.5})

    same = after(told, step=6)
    assert (same.total_steps, same.epoch, [metric.name for metric in same.metrics or ()]) == (10, 2, ["loss"])
    other = after(told, attempt=1, step=1)
    assert (other.total_steps, other.epoch, other.metrics) == (None, None, None)


def test_what_runs_no_more_keeps_its_numbers_and_has_no_time_to_come() -> None:
    progress = ended(after(**HALF))

    assert (progress.step, progress.percent, progress.rate) == (50, 50, "30/min")
    assert (progress.eta_seconds, progress.eta, progress.estimated_completion_time) == (None, None, None)


def test_last_words_are_the_newest_news() -> None:
    progress = last_told(after(**HALF), Training(step=60, first_step=1, metrics={"loss": 0.25}), 0)

    assert (progress.step, progress.percent, progress.eta) == (60, 60, None)


WORDS = {0: "0s", 59: "59s", 60: "1m", 200: "3m20s", 3_600: "1h", 7_500: "2h5m", 273_600: "3d4h", 31_536_000: "365d"}


@pytest.mark.parametrize(("seconds", "words"), WORDS.items())
def test_durations_read_as_kubectls_ages(seconds: int, words: str) -> None:
    assert duration_in_words(seconds) == words


RATES = {0.0: "0/s", 1e-5: "0.036/h", 0.002: "7.2/h", 0.5: "30/min", 1.0: "1/s", 36.123: "36.1/s", 123456.7: "123457/s"}


@pytest.mark.parametrize(("rate", "words"), RATES.items())
def test_rates_have_three_digits_that_count(rate: float, words: str) -> None:
    assert rate_in_words(rate) == words


whole = st.integers(0, 2**53 - 1)
number = st.floats(0, 2.0**53, allow_nan=False)
anything = st.fixed_dictionaries(
    {},
    optional={
        "step": whole,
        "total_steps": whole,
        "first_step": whole,
        "epoch": number,
        "total_epochs": number,
        "percent": number,
        "eta_seconds": number,
        "steps_per_second": number,
        "seconds_per_step": number,
        "report_age": st.floats(0, MAX_AGE),
        "metrics": st.dictionaries(st.text(min_size=1, max_size=64), st.floats(), max_size=16),
        "running": st.booleans(),
    },
)


@given(st.lists(st.tuples(st.integers(0, 3), st.floats(0, 1e6), anything), max_size=8))
def test_whatever_agents_say_the_status_is_sane(reports: list[tuple[int, float, dict[str, Any]]]) -> None:
    told: ProgressStatus | None = None
    for attempt, age, fields in sorted(reports, key=lambda each: each[0]):
        before = told
        told = heard(told, sighting(attempt, at=ago(age), **fields), NOW, INTERVAL)
        assert ProgressStatus.model_validate(told.to_wire()) == told, "the API server takes it"
        assert told.percent is None or 0 <= told.percent <= 100
        assert told.eta_seconds is None or 0 <= told.eta_seconds <= LONGEST_ETA.total_seconds()
        assert (told.lost_steps or 0) >= (before.lost_steps or 0 if before else 0)


@given(st.lists(st.tuples(st.integers(1, 60), st.integers(0, 40)), min_size=1, max_size=5), st.data())
def test_the_ledger_is_exact_whatever_is_heard_of_an_attempt(lives: list[tuple[int, int]], data: st.DataObject) -> None:
    """Each attempt goes on from a checkpoint; of its steps some are heard, the last one at least by its last words."""
    told: ProgressStatus | None = None
    at, lost = 0, 0
    for attempt, (steps, back) in enumerate(lives):
        begins = max(0, at - back) if attempt else 0
        lost += at - begins
        at = begins + steps
        if data.draw(st.booleans()):
            told = heard(told, sighting(attempt, epoch=float(attempt + 1)), NOW, INTERVAL)
        for step in sorted(data.draw(st.sets(st.integers(begins + 1, at), max_size=5))):
            told = heard(told, sighting(attempt, step=step, first_step=begins + 1), NOW, INTERVAL)
        for _ in range(data.draw(st.integers(1, 2))):
            told = last_told(told, report(attempt, step=at, first_step=begins + 1), attempt)
    assert told is not None
    assert (told.lost_steps or 0, told.step) == (lost, at)
