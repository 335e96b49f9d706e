"""Limits of time, and what happens when they are over."""

from datetime import timedelta

import pytest

from dtj.api.conditions import ConditionType
from dtj.api.reasons import Reason
from dtj.api.spec import RuleAction
from dtj.api.status import FailureClass, JobStatus, Phase
from dtj.lifecycle.decision import Decision, DeleteJob
from tests.builders import JOB_UID, NOW, JobBuilder, PodBuilder, a_job, ago
from tests.unit.lifecycle.decided import COMPLETE, FAILED, decided, in_order, seen, text, worker

BEGUN = seen(a_job().replicas(2))
RUNNING = seen(BEGUN, worker(0).running(), worker(1).running())
BOTH = (worker(0).running(), worker(1).running())


def after(seconds: float) -> timedelta:
    return timedelta(seconds=seconds)


def status_of(decision: Decision) -> JobStatus:
    assert decision.status is not None
    return decision.status


def test_the_active_deadline() -> None:
    job = RUNNING.spec(activeDeadlineSeconds=100)

    assert decided(job, *BOTH, now=NOW + after(40))[1].requeue_after == after(60)
    assert text(job, *BOTH, now=NOW + after(100)) == [
        "status: Failed (DeadlineExceeded), attempt 0, ready 0/2",
        "event: Warning DeadlineExceeded: the job ran for 100 s (activeDeadlineSeconds)",
        "delete pod digits-worker-0 (uid uid-of-digits-worker-0)",
        "delete pod digits-worker-1 (uid uid-of-digits-worker-1)",
    ]


def test_time_before_all_ran_does_not_count() -> None:
    job = BEGUN.spec(activeDeadlineSeconds=1)

    assert not status_of(decided(job, worker(0).running(), worker(1), now=NOW + after(9_000))[1]).has(
        ConditionType.FAILED
    )


def test_time_suspended_does_not_count() -> None:
    suspended = RUNNING.status(RUNNING.build().status.model_copy(update={"suspended_seconds": 3600}))
    job = suspended.spec(activeDeadlineSeconds=100)

    assert decided(job, *BOTH, now=NOW + after(3650))[1].requeue_after == after(50)


def test_a_job_that_is_done_when_its_deadline_is_seen_is_complete() -> None:
    job = RUNNING.spec(activeDeadlineSeconds=100)

    assert text(job, worker(0).succeeded(), worker(1).succeeded(), now=NOW + after(101))[0].startswith(
        "status: Succeeded"
    )


STARTING = seen(a_job().replicas(2), now=ago(60)).spec(startupDeadlineSeconds=60)
UNSCHEDULABLE = worker(1).unschedulable("0/2 nodes are available").created(ago(60))
NO_IMAGE = worker(1).waiting("ImagePullBackOff", "not found").created(ago(60))


def test_a_gang_that_is_half_placed_is_given_back() -> None:
    ready = worker(0).running().created(ago(60))
    _, decision = decided(STARTING, ready, UNSCHEDULABLE)
    status = status_of(decision)

    assert (status.attempt, status.restarts, status.restarts_since_progress) == (1, 1, 0)
    assert (status.phase, status.reason) == (Phase.RESTARTING, Reason.STARTUP_DEADLINE_EXCEEDED)
    assert 10 <= status.backoff_seconds <= 15
    assert in_order(decision)[1:] == [
        (
            "event: Warning StartupDeadlineExceeded: digits-worker-1 (rank 1): not all pods ran within 60 s "
            "(startupDeadlineSeconds): Unschedulable: 0/2 nodes are available; "
            f"restarting as attempt 1 in {status.backoff_seconds} s"
        ),
        "delete pod digits-worker-0 (uid uid-of-digits-worker-0)",
        "delete pod digits-worker-1 (uid uid-of-digits-worker-1)",
        f"look again after {status.backoff_seconds} s",
    ]
    failure = status.last_failure
    assert failure is not None
    assert (failure.failure_class, failure.pod, failure.action) == (
        FailureClass.STARTUP,
        "digits-worker-1",
        RuleAction.RESTART_JOB_AND_IGNORE,
    )


def test_a_start_that_only_lacks_time_is_looked_at_again() -> None:
    assert decided(STARTING, worker(0), UNSCHEDULABLE.created(ago(59)))[1].requeue_after == after(1)


def test_what_is_wrong_with_the_job_itself_counts_against_the_limit() -> None:
    status = status_of(decided(STARTING, NO_IMAGE, worker(0).running())[1])
    assert (status.restarts, status.restarts_since_progress) == (1, 1)

    tired = STARTING.status(STARTING.build().status.model_copy(update={"restarts_since_progress": 3}))
    assert text(tired, NO_IMAGE, worker(0).running())[0].startswith("status: Failed (StartupDeadlineExceeded)")


def test_starts_that_are_given_back_wait_longer_each_time() -> None:
    status = STARTING.build().status.model_copy(update={"attempt_time": ago(160), "backoff_seconds": 100})

    assert 200 <= status_of(decided(STARTING.status(status), UNSCHEDULABLE)[1]).backoff_seconds <= 300


NO_DEADLINE: dict[str, tuple[JobBuilder, tuple[PodBuilder, ...]]] = {
    "without a limit": (BEGUN, (worker(0), worker(1).created(ago(9_000)))),
    "without a pod": (STARTING, ()),
    "all run, and nobody has told it yet": (STARTING, tuple(pod.created(ago(9_000)) for pod in BOTH)),
    "by the clock that stamps pods it is an hour earlier": (
        BEGUN.spec(startupDeadlineSeconds=60),
        (worker(0).created(ago(3600)), worker(1).created(ago(3600))),
    ),
    "once all ran": (
        RUNNING.spec(startupDeadlineSeconds=1),
        tuple(pod.created(ago(9_000)) for pod in BOTH),
    ),
}


@pytest.mark.parametrize(("job", "pods"), NO_DEADLINE.values(), ids=NO_DEADLINE.keys())
def test_nothing_is_given_back(job: JobBuilder, pods: tuple[PodBuilder, ...]) -> None:
    _, decision = decided(job, *pods)

    assert decision.status is None or decision.status.attempt == 0


def test_a_failure_during_the_start_is_told_before_its_deadline() -> None:
    assert text(STARTING, worker(0).failed(3), NO_IMAGE)[0] == "status: Restarting (NonZeroExit), attempt 1, ready 0/2"


LASTING = {
    "no image name": worker(1).waiting("InvalidImageName", "couldn't parse"),
    "a key that is missing": worker(1).waiting("CreateContainerConfigError", "couldn't find key a in ConfigMap b"),
    "an image that is never pulled": worker(1).waiting("ErrImageNeverPull", "not present"),
}


@pytest.mark.parametrize("pod", LASTING.values(), ids=LASTING.keys())
def test_what_does_not_heal_by_itself_stands_in_the_last_failure(pod: PodBuilder) -> None:
    told = seen(BEGUN, worker(0).running(), pod)
    failure = told.build().status.last_failure

    assert failure is not None
    assert (failure.failure_class, failure.pod, failure.action) == (
        FailureClass.CONFIGURATION,
        "digits-worker-1",
        None,
    )
    assert told.build().status.phase is Phase.PENDING
    assert decided(told, worker(0).running(), pod, now=NOW + after(60))[1].status is None
    assert seen(told, *BOTH).build().status.last_failure is None, "it was mended"


def test_an_image_that_may_come_is_no_failure_yet() -> None:
    assert seen(BEGUN, worker(0).running(), NO_IMAGE).build().status.last_failure is None


def ended(job: JobBuilder, ttl: int) -> JobBuilder:
    status = job.build().status.model_copy(update={"completion_time": ago(100)})
    return job.status(status).spec(ttlSecondsAfterFinished=ttl)


@pytest.mark.parametrize("job", [COMPLETE, FAILED], ids=["complete", "failed"])
def test_a_finished_job_is_deleted_in_time(job: JobBuilder) -> None:
    assert decided(ended(job, 101))[1] == Decision(requeue_after=after(1))
    assert decided(ended(job, 100))[1] == Decision(writes=(DeleteJob("digits", JOB_UID, "1"),))


def test_the_end_itself_says_when_to_look_again() -> None:
    done = (worker(0).succeeded(), worker(1).succeeded())

    assert decided(RUNNING.spec(ttlSecondsAfterFinished=60), *done)[1].requeue_after == after(60)


def test_a_job_without_that_wish_stays() -> None:
    assert decided(COMPLETE)[1] == Decision()
