"""The library that training code may import: its place in the job, and reports that never disturb it."""

import ast
import logging
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from dtj_trainer.environment import from_environment
from dtj_trainer.reporter import MAX_METRICS, Reporter
from trainer_images.build import ROOT

JOB = {
    "DTJ_JOB_NAME": "digits",
    "DTJ_JOB_UID": "0b1c",
    "DTJ_NAMESPACE": "team",
    "DTJ_ROLE": "worker",
    "DTJ_REPLICA_INDEX": "1",
    "DTJ_ATTEMPT": "2",
    "DTJ_NODE_RANK": "1",
    "DTJ_NNODES": "3",
    "DTJ_PROCESSES_PER_REPLICA": "1",
}
SOURCES = sorted((ROOT / "trainer_images/lib/src/dtj_trainer").glob("*.py"))


def without(name: str) -> dict[str, str]:
    return {key: value for key, value in JOB.items() if key != name}


@pytest.mark.parametrize(
    ("environment", "rank", "world_size"),
    [
        pytest.param(JOB, 1, 3, id="one process per pod"),
        pytest.param({**JOB, "DTJ_PROCESSES_PER_REPLICA": "4", "LOCAL_RANK": "3"}, 7, 12, id="the last of four"),
        pytest.param({**JOB, "DTJ_PROCESSES_PER_REPLICA": "4"}, 4, 12, id="what starts the four"),
        pytest.param({**without("DTJ_NODE_RANK"), "DTJ_ROLE": "ps"}, None, 3, id="a role without rank"),
    ],
)
def test_rank_and_world_size(environment: Mapping[str, str], rank: int | None, world_size: int) -> None:
    place = from_environment(environment)
    assert place is not None
    assert (place.rank, place.world_size) == (rank, world_size)


def test_everything_else_is_read() -> None:
    place = from_environment(JOB)
    assert place is not None
    assert (place.job_name, place.job_uid, place.namespace, place.role) == ("digits", "0b1c", "team", "worker")
    assert (place.replica_index, place.attempt, place.node_rank, place.local_rank) == (1, 2, 1, 0)


def test_outside_of_a_job_there_is_no_place() -> None:
    assert from_environment({"RANK": "0"}) is None


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        pytest.param(without("DTJ_ATTEMPT"), "DTJ_ATTEMPT is not set", id="missing"),
        pytest.param({**JOB, "DTJ_ATTEMPT": "two"}, "DTJ_ATTEMPT is 'two'", id="no number"),
        pytest.param({**JOB, "DTJ_NODE_RANK": "-1"}, "DTJ_NODE_RANK is '-1'", id="negative"),
        pytest.param({**JOB, "DTJ_NNODES": "0"}, "DTJ_NNODES is '0': .* at least 1", id="no nodes"),
    ],
)
def test_a_broken_environment_is_named(environment: Mapping[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        from_environment(environment)


@pytest.fixture
def in_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DTJ_JOB_NAME", "digits")


class Scalar:
    """Stands for a framework's own number type."""

    def __float__(self) -> float:
        return 0.5


class Broken:
    def __float__(self) -> float:
        raise RuntimeError("a tensor with more than one element")


def test_outside_of_a_job_a_report_does_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DTJ_JOB_NAME", raising=False)
    reporter = Reporter()
    reporter.report(step=1, metrics={"loss": Broken()})  # type: ignore[dict-item]
    assert reporter.latest is None


@pytest.mark.usefixtures("in_job")
def test_what_is_left_out_stays_as_last_reported() -> None:
    reporter = Reporter()
    reporter.report(step=1, total_steps=10, epoch=0.5, total_epochs=2, metrics={"loss": 2.0})
    reporter.report(step=2, samples=64, metrics={"accuracy": Scalar()})  # type: ignore[dict-item]
    latest = reporter.latest
    assert latest is not None
    assert (latest.step, latest.total_steps, latest.epoch, latest.total_epochs, latest.samples) == (2, 10, 0.5, 2, 64)
    assert latest.metrics == {"loss": 2.0, "accuracy": 0.5}
    assert latest.time > 0


@pytest.mark.usefixtures("in_job")
def test_a_loss_that_is_no_number_does_not_hold_back_the_step() -> None:
    reporter = Reporter()
    reporter.report(step=5, metrics={"loss": float("nan")})
    latest = reporter.latest
    assert latest is not None
    assert (latest.step, latest.metrics) == (5, {})


@pytest.mark.usefixtures("in_job")
@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param({"step": "seven"}, id="text"),
        pytest.param({"step": float("inf")}, id="infinite"),
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


@pytest.mark.usefixtures("in_job")
def test_only_so_many_metrics_are_kept() -> None:
    reporter = Reporter()
    reporter.report(metrics={f"m{i}": i for i in range(MAX_METRICS + 1)})
    assert reporter.latest is not None
    assert list(reporter.latest.metrics) == [f"m{i}" for i in range(MAX_METRICS)]


@pytest.mark.usefixtures("in_job")
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


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.name)
def test_it_needs_nothing_but_python_3_9(source: Path) -> None:
    tree = ast.parse(source.read_text(), feature_version=(3, 9))
    plain = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    named = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    imported = {name.partition(".")[0] for name in plain | named}
    assert imported <= sys.stdlib_module_names | {"dtj_trainer"}
