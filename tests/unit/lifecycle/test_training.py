"""Who is believed about a training: its agent while it runs, its last words when it has ended."""

import json
from typing import Any

import pytest

from dtj.api.status import JobStatus, ProgressStatus
from dtj.lifecycle.agent_report import Sighting
from dtj.lifecycle.decide import decide
from dtj.lifecycle.observe import observe
from dtj.lifecycle.status import is_transition
from dtj.lifecycle.training import has_advanced, reporting_pod
from tests.builders import JobBuilder, PodBuilder, a_job, a_service, ago
from tests.unit.lifecycle.decided import seen, worker
from tests.unit.lifecycle.reports import sighting

JOB = a_job().replicas(2).container(command=["python", "train.py"]).begun()
BOTH = (worker(0).running(), worker(1).running())
RUNNING = seen(JOB, *BOTH)


def words(**progress: Any) -> str:  # noqa: ANN401 - JSON
    return json.dumps({"dtj": 1, "exitCode": 0, "progress": progress})


def after(job: JobBuilder, *pods: PodBuilder, training: Sighting | None = None) -> JobStatus:
    built = job.build()
    observed = observe(built, [pod.build() for pod in pods], a_service(built), None, None, training)
    return decide(built, observed, ago(0)).status or built.status


def steps(status: JobStatus) -> tuple[int | None, int | None]:
    progress = status.progress or ProgressStatus()
    return progress.attempt, progress.step


def test_a_running_training_is_what_its_agent_says() -> None:
    assert steps(after(RUNNING, *BOTH, training=sighting(step=5))) == (0, 5)


def test_an_agent_that_heard_nothing_yet_tells_nothing() -> None:
    assert after(RUNNING, *BOTH, training=sighting(source=None)).progress is None


def test_the_same_news_again_changes_nothing() -> None:
    told = RUNNING.status(after(RUNNING, *BOTH, training=sighting(step=5, total_steps=9, steps_per_second=0.01)))
    later = sighting(step=5, total_steps=9, steps_per_second=0.01, report_age=9.0)

    assert after(told, *BOTH, training=later) == told.build().status


FIRST = JobStatus(attempt=1, progress=ProgressStatus(step=1, attempt=1))
MILESTONES: dict[str, tuple[ProgressStatus, bool]] = {
    "further steps": (ProgressStatus(step=2, attempt=1), False),
    "the first estimate": (ProgressStatus(step=2, attempt=1, eta="5m"), True),
    "the first of another attempt": (ProgressStatus(step=2, attempt=2), True),
}


@pytest.mark.parametrize(("progress", "at_once"), MILESTONES.values(), ids=MILESTONES.keys())
def test_the_first_news_of_an_attempt_is_told_at_once(progress: ProgressStatus, at_once: bool) -> None:
    assert is_transition(FIRST, FIRST.model_copy(update={"progress": progress})) is at_once


def test_the_last_words_of_rank_zero_count_more_than_what_was_heard() -> None:
    first = worker(0).succeeded()
    first = first.ended(0, lines=words(step=9, firstStep=1))

    assert steps(after(RUNNING, first, BOTH[1], training=sighting(step=5))) == (0, 9)


def test_the_last_words_of_another_rank_do_not() -> None:
    other = worker(1).ended(0, lines=words(step=9))

    assert steps(after(RUNNING, BOTH[0], other, training=sighting(step=5))) == (0, 5)


def test_what_ends_an_attempt_tells_its_last_step() -> None:
    failed = worker(0).failed(1, lines=words(step=9, firstStep=1))
    job = RUNNING.status(after(RUNNING, *BOTH, training=sighting(step=5, total_steps=9, steps_per_second=1.0)))

    status = after(job, failed, BOTH[1])

    assert status.attempt == 1
    assert steps(status) == (0, 9)
    assert status.progress is not None
    assert status.progress.eta is None


def test_last_words_that_come_late_still_count_until_the_next_attempt_is_heard() -> None:
    job = RUNNING.status(after(RUNNING, *BOTH, training=sighting(step=5)))
    restarted = job.status(after(job, BOTH[0], worker(1).failed(1)))
    late = worker(0).failed(143, lines=words(step=7, firstStep=1))

    status = after(
        restarted, late, worker(0, attempt=1).running(), worker(1, attempt=1).running(), training=sighting(attempt=1)
    )
    assert steps(status) == (0, 7)
    heard = after(restarted.status(status), training=sighting(attempt=1, step=4, first_step=4))
    assert steps(heard) == (1, 4)
    assert heard.progress is not None
    assert (heard.progress.lost_steps, heard.progress.best_step) == (4, 7)


ADVANCED: dict[str, tuple[ProgressStatus | None, bool | None]] = {
    "nothing told": (None, None),
    "no steps": (ProgressStatus(attempt=1, percent=40), None),
    "told by an attempt before": (ProgressStatus(attempt=0, step=5), False),
    "told by attempts before, and not yet by this one": (ProgressStatus(attempt=1, epoch=2, best_step=5), False),
    "the first that tells steps": (ProgressStatus(attempt=1, step=5), True),
    "no step done": (ProgressStatus(attempt=1, step=0), False),
    "not as far as before": (ProgressStatus(attempt=1, step=5, best_step=5), False),
    "further": (ProgressStatus(attempt=1, step=6, best_step=5), True),
}


@pytest.mark.parametrize(("progress", "advanced"), ADVANCED.values(), ids=ADVANCED.keys())
def test_whether_an_attempt_advanced(progress: ProgressStatus | None, advanced: bool | None) -> None:
    assert has_advanced(JobStatus(attempt=1, progress=progress)) is advanced


def running_at(address: str, index: int = 0) -> PodBuilder:
    return worker(index).running().at(address)


ASKED: dict[str, tuple[JobBuilder, tuple[PodBuilder, ...], bool]] = {
    "rank 0 runs": (JOB, (running_at("10.0.0.1"), running_at("10.0.0.2", 1)), True),
    "it has no address yet": (JOB, (worker(0).running(),), False),
    "it has ended": (JOB, (worker(0).at("10.0.0.1").succeeded(), running_at("10.0.0.2", 1)), False),
    "no agent": (JOB.spec(agent={"mode": "Disabled"}), (running_at("10.0.0.1"),), False),
    "no command for an agent": (a_job().replicas(2).begun(), (running_at("10.0.0.1"),), False),
}


@pytest.mark.parametrize(("job", "pods", "asked"), ASKED.values(), ids=ASKED.keys())
def test_whom_to_ask(job: JobBuilder, pods: tuple[PodBuilder, ...], asked: bool) -> None:
    built = job.build()
    found = reporting_pod(built, observe(built, [pod.build() for pod in pods], None, None))

    assert (found is not None) is asked
