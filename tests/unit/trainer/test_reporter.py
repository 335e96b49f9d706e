"""Reports are kept as they come, and never disturb who makes them."""

import logging
import signal
import threading
from typing import Any

import pytest

from dtj_trainer.reporter import MAX_METRICS, Reporter

pytestmark = pytest.mark.usefixtures("in_job")


class Scalar:
    """Stands for a framework's own number type."""

    def __float__(self) -> float:
        return 0.5


class Broken:
    def __float__(self) -> float:
        raise RuntimeError("a tensor with more than one element")


def test_outside_of_a_job_a_report_does_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DTJ_JOB_NAME")
    reporter = Reporter(lambda: pytest.fail("there is nobody to deliver to"))
    reporter.report(step=1, metrics={"loss": Broken()})  # type: ignore[dict-item]
    assert reporter.latest is None


def test_what_is_left_out_stays_as_last_reported() -> None:
    reporter = Reporter()
    reporter.report(step=1, total_steps=10, epoch=0.5, total_epochs=2, metrics={"loss": 2.0})
    reporter.report(step=2, samples=64, metrics={"accuracy": Scalar()})  # type: ignore[dict-item]
    latest = reporter.latest
    assert latest is not None
    assert (latest.step, latest.total_steps, latest.epoch, latest.total_epochs, latest.samples) == (2, 10, 0.5, 2, 64)
    assert latest.metrics == {"loss": 2.0, "accuracy": 0.5}
    assert latest.time > 0


def test_a_loss_that_is_no_number_does_not_hold_back_the_step() -> None:
    reporter = Reporter()
    reporter.report(step=5, metrics={"loss": float("nan")})
    latest = reporter.latest
    assert latest is not None
    assert (latest.step, latest.metrics) == (5, {})


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param({"step": "seven"}, id="text"),
        pytest.param({"step": float("inf")}, id="infinite"),
        pytest.param({"step": -1}, id="negative"),
        pytest.param({"samples": 2**60}, id="too great for JSON"),
        pytest.param({"local_seconds": float("nan")}, id="a time that is no number"),
        pytest.param({"metrics": {"loss": Broken()}}, id="a number type that raises"),
        pytest.param({"metrics": [1.0]}, id="metrics without names"),
    ],
)
def test_a_wrong_report_is_left_out_and_said_once(wrong: dict[str, Any], caplog: pytest.LogCaptureFixture) -> None:
    reporter = Reporter()
    reporter.report(step=1)
    with caplog.at_level(logging.WARNING, "dtj_trainer"):
        reporter.report(**wrong)
        reporter.report(**wrong)
    assert reporter.latest is not None
    assert reporter.latest.step == 1
    assert len(caplog.records) == 1
    assert "left out" in caplog.text


def test_only_so_many_metrics_are_kept() -> None:
    reporter = Reporter()
    reporter.report(metrics={f"m{i}": i for i in range(MAX_METRICS + 1)})
    assert reporter.latest is not None
    assert list(reporter.latest.metrics) == [f"m{i}" for i in range(MAX_METRICS)]


def test_threads_do_not_lose_each_others_reports() -> None:
    reporter = Reporter()

    def work(name: str) -> None:
        for value in range(200):
            reporter.report(metrics={name: value})

    threads = [threading.Thread(target=work, args=(f"thread{i}",)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert reporter.latest is not None
    assert reporter.latest.metrics == {f"thread{i}": 199 for i in range(4)}


class Interrupting(str):
    """A metric's name that is compared while a signal arrives: in the middle of the change, under the lock."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __str__(self) -> str:
        return self

    def __eq__(self, other: object) -> bool:
        signal.raise_signal(signal.SIGUSR1)
        return super().__eq__(other)


def test_a_signal_handler_may_report_while_a_report_is_made() -> None:
    reporter = Reporter()
    reporter.report(step=1, metrics={"loss": 1.0})
    before = signal.signal(signal.SIGUSR1, lambda *_: reporter.report(phase="saving"))
    try:
        reporter.report(step=2, metrics={Interrupting("loss"): 0.5})
    finally:
        signal.signal(signal.SIGUSR1, before)
    latest = reporter.latest
    assert latest is not None
    assert (latest.step, latest.phase, latest.metrics) == (2, "saving", {"loss": 0.5})


def test_who_measures_by_hand_is_believed() -> None:
    reporter = Reporter()
    reporter.measure(1.0)
    reporter.report(step=1)
    measured = reporter.latest
    reporter.report(step=2, local_seconds=0.25)
    reporter.measure(2.0)
    by_hand = reporter.latest
    assert measured is not None
    assert by_hand is not None
    assert (measured.local_seconds, by_hand.local_seconds) == (1.0, 0.25)


def test_delivery_begins_with_the_first_report() -> None:
    begun: list[str] = []
    reporter = Reporter(lambda: begun.append("begun"))
    reporter.measure(1.0)
    assert begun == []
    reporter.report(step=1)
    reporter.report(step=2)
    assert begun == ["begun"]
