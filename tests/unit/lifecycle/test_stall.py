"""A training that makes no step: when the attempt ends for it, and what is told."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from dtj.api.conditions import ConditionType
from dtj.api.reasons import Reason
from dtj.api.status import FailureClass, Phase
from dtj.lifecycle.agent_report import Sighting
from dtj.lifecycle.decide import decide
from dtj.lifecycle.decision import Decision
from dtj.lifecycle.observe import observe
from tests.builders import NOW, JobBuilder, a_job, a_service, ago
from tests.unit.lifecycle.decided import seen, worker
from tests.unit.lifecycle.reports import behind, sighting, silent

JOB = a_job().replicas(2).spec(progress={"stallTimeoutSeconds": 60}).begun()
LONG_AGO = ago(1000)
RUNNING = seen(JOB, worker(0).running(), worker(1).running(), now=LONG_AGO)


def looked_at(job: JobBuilder, training: Sighting | None, *, attempt: int = 0, now: datetime = NOW) -> Decision:
    built = job.build()
    pods = [worker(index, attempt=attempt).running().build() for index in (0, 1)]
    return decide(built, observe(built, pods, a_service(built), None, None, training), now)


WAITS: dict[str, tuple[JobBuilder, Sighting | None, bool]] = {
    "steps go on": (RUNNING, sighting(step=5, step_age=3.0), False),
    "no step for long": (RUNNING, sighting(step=5, step_age=60.0), True),
    "not quite so long": (RUNNING, sighting(step=5, step_age=59.0), False),
    "long ago, and the agent is not heard since": (RUNNING, sighting(step=5, step_age=3.0, at=ago(600)), False),
    "no first step when it was heard last, and that is long ago": (
        RUNNING,
        sighting(at=LONG_AGO + timedelta(seconds=10)),
        False,
    ),
    "readings are further apart than the limit": (
        RUNNING.spec(progress={"stallTimeoutSeconds": 10, "intervalSeconds": 30}),
        sighting(step=5, step_age=0.5, at=ago(29)),
        False,
    ),
    "no first step in three times the time": (RUNNING, sighting(), True),
    "nobody can be asked": (RUNNING, None, False),
    "the command has ended": (RUNNING, sighting(step=5, step_age=99.0, running=False), False),
    "no limit": (RUNNING.spec(progress={}), sighting(step=5, step_age=9e6), False),
    "what another attempt said": (RUNNING, sighting(attempt=7, step=5, step_age=99.0), False),
}


@pytest.mark.parametrize(("job", "training", "ends"), WAITS.values(), ids=WAITS.keys())
def test_when_an_attempt_counts_as_hung(job: JobBuilder, training: Sighting | None, ends: bool) -> None:
    decision = looked_at(job, training)

    assert (decision.status is not None and decision.status.attempt == 1) is ends


def test_before_the_first_step_it_has_three_times_as_long() -> None:
    just_running = seen(JOB, worker(0).running(), worker(1).running(), now=ago(179))

    assert looked_at(just_running, sighting()).requeue_after == timedelta(seconds=10), "another reading may tell"
    later = NOW + timedelta(seconds=1)
    assert looked_at(just_running, sighting(at=later), now=later).status is not None


def test_what_is_told_of_it() -> None:
    decision = looked_at(RUNNING, sighting(step=5, step_age=61.0, ranks=behind(1, 2)))

    status = decision.status
    assert status is not None
    assert status.last_failure is not None
    assert (status.phase, status.reason) == (Phase.RESTARTING, Reason.STALLED)
    assert (status.last_failure.failure_class, status.last_failure.rank) == (FailureClass.INFRASTRUCTURE, 1)
    assert status.last_failure.message == (
        "no step for 60 s after step 5 (progress.stallTimeoutSeconds); rank 1 is 2 steps behind"
    )
    assert (status.restarts, status.restarts_since_progress) == (1, 1)
    assert status.has(ConditionType.STALLED)
    assert status.progress is not None
    assert (status.progress.step, status.progress.eta) == (5, None)


def test_hangs_before_the_first_step_are_no_progress_however_long_they_took() -> None:
    job = RUNNING.spec(progress={"stallTimeoutSeconds": 300}, failurePolicy={"maxRestarts": 1})
    again = job.status(job.build().status.model_copy(update={"restarts": 1, "restarts_since_progress": 1}))

    decision = looked_at(again, sighting())

    assert decision.status is not None
    assert (decision.status.phase, decision.status.reason) == (Phase.FAILED, Reason.STALLED)


def test_a_rank_that_says_nothing_is_named() -> None:
    decision = looked_at(RUNNING, sighting(step=5, step_age=61.0, ranks=silent(1, 45.0)))

    assert decision.status is not None
    failure = decision.status.last_failure
    assert failure is not None
    assert failure.rank == 1
    assert failure.message.endswith("; rank 1 has not reported for 45 s")


def test_the_condition_goes_when_all_run_again() -> None:
    hung = RUNNING.status(looked_at(RUNNING, sighting(step=5, step_age=61.0)).status or RUNNING.build().status)

    decision = looked_at(hung, None, attempt=1)

    assert decision.status is not None
    stalled = decision.status.condition(ConditionType.STALLED)
    assert stalled is not None
    assert not stalled.holds
    assert decision.status.has(ConditionType.RUNNING)


ADVANCES: dict[str, tuple[dict[str, Any], int]] = {
    "it went beyond all before": ({"step": 501}, 1),
    "it did not get so far again": ({"step": 500}, 2),
}


@pytest.mark.parametrize(("report", "in_a_row"), ADVANCES.values(), ids=ADVANCES.keys())
def test_restarts_count_in_a_row_until_the_training_advances(report: dict[str, Any], in_a_row: int) -> None:
    status = RUNNING.build().status
    before = looked_at(RUNNING, sighting(step=500)).status
    assert before is not None
    second = status.model_copy(update={"attempt": 1, "restarts_since_progress": 1, "progress": before.progress})
    job = RUNNING.status(second)

    decision = looked_at(job, sighting(attempt=1, step_age=61.0, **report), attempt=1)

    assert decision.status is not None
    assert (decision.status.attempt, decision.status.restarts_since_progress) == (2, in_a_row)
