"""Suspended jobs have no pods; what changes meanwhile holds for the next attempt."""

from datetime import timedelta

import pytest

from dtj.api.conditions import ConditionType
from dtj.api.job import DistributedTrainingJob
from dtj.api.reasons import Reason
from dtj.api.status import JobStatus, Phase
from dtj.lifecycle.decision import NOTHING, Decision, DeletePod
from tests.builders import NOW, JobBuilder, PodBuilder, a_job, a_pod
from tests.unit.lifecycle.decided import decided, in_order, seen, text, worker

NEW = a_job().replicas(2)
RUNNING = seen(seen(NEW), worker(0).running(), worker(1).running())
SUSPEND = RUNNING.generation(2).spec(suspend=True)
SUSPENDED = seen(SUSPEND, worker(0).running(), worker(1).running())
HOUR = timedelta(hours=1)


def status_of(job: JobBuilder) -> JobStatus:
    return job.build().status


def resumed(job: JobBuilder = SUSPENDED) -> JobBuilder:
    return job.generation(3).spec(suspend=False)


def test_a_running_job_is_suspended() -> None:
    _, decision = decided(SUSPEND, worker(0).running(), worker(1).running())

    assert in_order(decision) == [
        "status: Suspended (JobSuspended), attempt 0, ready 0/2",
        "event: Normal JobSuspended: no pods until spec.suspend is false",
        "delete pod digits-worker-0 (uid uid-of-digits-worker-0)",
        "delete pod digits-worker-1 (uid uid-of-digits-worker-1)",
    ]
    graces = [write.grace_seconds for write in decision.writes if isinstance(write, DeletePod)]
    assert graces == [None, None], "the training may use its own grace period to save what it has"
    assert decision.status is not None
    assert decision.status.has(ConditionType.SUSPENDED)
    assert not decision.status.has(ConditionType.RUNNING)
    assert decision.status.replicas == 2, "they are still there"


GOING: dict[str, tuple[PodBuilder, ...]] = {
    "they end": (worker(0).running().being_deleted(), worker(1).failed(143).being_deleted()),
    "one is gone": (worker(1).running().being_deleted(),),
}


@pytest.mark.parametrize("pods", GOING.values(), ids=GOING.keys())
def test_how_the_pods_of_a_suspended_job_end_is_no_failure(pods: tuple[PodBuilder, ...]) -> None:
    status = status_of(seen(SUSPENDED, *pods))

    assert (status.phase, status.restarts, status.disruptions, status.last_failure) == (Phase.SUSPENDED, 0, 0, None)


def test_nothing_is_left_to_do_for_a_suspended_job_without_pods() -> None:
    assert decided(seen(SUSPENDED))[1] == Decision()


def test_pods_that_a_killed_operator_left_over_go() -> None:
    assert text(SUSPENDED, worker(0).running())[1:] == ["delete pod digits-worker-0 (uid uid-of-digits-worker-0)"]


def test_a_resumed_job_begins_another_attempt_that_is_not_counted() -> None:
    later = NOW + HOUR
    _, decision = decided(resumed(), worker(0).failed(143).being_deleted(), now=later)

    assert in_order(decision) == [
        "status: Starting (JobResumed), attempt 1, ready 0/2",
        "event: Normal JobResumed: attempt 1: creating 2 pods",
        "create pod digits-worker-0-r1",
        "create pod digits-worker-1-r1",
    ]
    status = decision.status
    assert status is not None
    assert (status.restarts, status.disruptions, status.suspended_seconds) == (0, 0, 3600)
    suspended = status.condition(ConditionType.SUSPENDED)
    assert suspended is not None
    assert (suspended.holds, suspended.reason, suspended.last_transition_time) == (False, Reason.JOB_RESUMED, later)


def test_suspensions_add_up() -> None:
    job = seen(resumed(), now=NOW + HOUR)
    again = seen(job.spec(suspend=True), now=NOW + 2 * HOUR)

    assert status_of(seen(again.spec(suspend=False), now=NOW + 3 * HOUR)).suspended_seconds == 7200


def test_a_job_that_never_ran_has_no_suspended_time_to_remember() -> None:
    waiting = seen(seen(NEW).spec(suspend=True))

    assert status_of(seen(waiting.spec(suspend=False), now=NOW + HOUR)).suspended_seconds == 0


def test_a_job_that_is_born_suspended_has_not_started() -> None:
    born = seen(NEW.spec(suspend=True))
    status = status_of(born)

    assert (status.phase, status.start_time, status.attempt_time) == (Phase.SUSPENDED, None, None)
    begun = status_of(seen(born.spec(suspend=False), now=NOW + HOUR))
    assert (begun.attempt, begun.start_time, begun.reason) == (0, NOW + HOUR, Reason.PODS_STARTING)


CHANGED: dict[str, JobBuilder] = {
    "replicas": resumed().replicas(3),
    "the template": resumed().container(image="trainer:2"),
    "processes": resumed().spec(processesPerReplica=1).container(command=["torchrun"]),
    "roles": resumed().role("master"),
}


def names_created(decision: Decision) -> list[str]:
    return [line.split()[2] for line in in_order(decision) if line.startswith("create pod")]


@pytest.mark.parametrize("job", CHANGED.values(), ids=CHANGED.keys())
def test_what_was_changed_holds_for_the_next_attempt(job: JobBuilder) -> None:
    _, decision = decided(job)

    assert len(names_created(decision)) == job.build().spec.replicas + len(job.build().spec.roles or ())
    assert decision.status is not None
    assert decision.status.gang_hash != status_of(RUNNING).gang_hash


@pytest.mark.parametrize("job", [CHANGED["replicas"], CHANGED["the template"]], ids=["replicas", "the template"])
def test_a_change_is_noticed_although_the_suspension_was_not(job: JobBuilder) -> None:
    """Suspended, changed and resumed while nobody looked."""
    unseen = job.status(status_of(RUNNING))
    _, decision = decided(unseen, worker(0).running(), worker(1).running())

    assert in_order(decision)[0] == f"status: Starting (SpecChanged), attempt 1, ready 0/{job.build().spec.replicas}"
    assert [line for line in in_order(decision) if line.startswith("delete")] == [
        f"delete pod digits-worker-{index} (uid uid-of-digits-worker-{index})" for index in range(2)
    ]
    assert status_of(unseen.status(decision.status or JobStatus())).restarts == 0


def test_a_suspension_that_changed_nothing_and_was_not_seen_never_happened() -> None:
    job = RUNNING.generation(3)

    assert decided(job, worker(0).running(), worker(1).running())[1].writes == ()


def test_a_job_whose_attempt_is_from_before_its_hash_was_kept_is_left_alone() -> None:
    old = RUNNING.status(status_of(RUNNING).model_copy(update={"gang_hash": None}))

    assert decided(old, worker(0).running(), worker(1).running())[1] == NOTHING


def test_a_job_whose_hash_is_of_another_version_of_the_operator_is_left_alone() -> None:
    other = RUNNING.status(status_of(RUNNING).model_copy(update={"gang_hash": "0:0123456789abcdef"}))

    assert decided(other, worker(0).running(), worker(1).running())[1] == NOTHING


MISTAKE = resumed().spec(processesPerReplica=2, agent={"mode": "Disabled"}).container(command=["python"])


def test_a_job_that_is_resumed_with_a_mistake_stays_without_pods() -> None:
    refused = seen(MISTAKE)
    status = status_of(refused)

    assert (status.phase, status.reason) == (Phase.PENDING, Reason.INVALID_SPEC)
    assert status.has(ConditionType.SUSPENDED)
    assert decided(refused)[1] == NOTHING
    assert status_of(seen(resumed(refused).spec(processesPerReplica=1))).attempt == 1


def test_a_spec_that_was_a_mistake_for_a_while_gets_another_attempt() -> None:
    withdrawn = seen(MISTAKE.status(status_of(RUNNING)), worker(0).running(), worker(1).running())
    status = status_of(withdrawn)
    assert (status.ready, status.replicas, status.roles) == (None, 0, ())
    assert decided(withdrawn)[1] == NOTHING

    mended = status_of(seen(RUNNING.generation(4).status(status), worker(0).running().being_deleted()))
    assert (mended.attempt, mended.disruptions, mended.reason) == (1, 0, Reason.SPEC_CHANGED)


def test_nothing_runs_on_of_a_spec_that_was_changed_into_a_mistake() -> None:
    unseen = MISTAKE.status(status_of(RUNNING))

    assert text(unseen, worker(0).running(), worker(1).running())[2:] == [
        f"delete pod digits-worker-{index} (uid uid-of-digits-worker-{index})" for index in range(2)
    ]


def test_a_job_that_is_done_is_complete_and_not_suspended() -> None:
    assert text(SUSPEND, worker(0).succeeded(), worker(1).succeeded())[0].startswith("status: Succeeded")


def test_a_finished_job_cannot_be_suspended() -> None:
    done = seen(RUNNING, worker(0).succeeded(), worker(1).succeeded())

    assert decided(done.spec(suspend=True), worker(0).succeeded(), worker(1).succeeded())[1] == NOTHING


def test_a_success_of_before_the_suspension_counts_for_nothing_after_it() -> None:
    one_done = seen(SUSPEND, worker(0).succeeded(), worker(1).running())
    job = seen(resumed(one_done))
    pods = [a_pod(job.build(), index) for index in range(2)]

    assert text(job, pods[0].running(), pods[1].succeeded())[0].startswith("status: Running")


def test_there_is_an_end_to_attempts() -> None:
    last = SUSPENDED.status(status_of(SUSPENDED).model_copy(update={"attempt": 9_999}))

    assert text(resumed(last))[0] == "status: Failed (TooManyAttempts), attempt 9999, ready 0/2"


def phase_of(job: DistributedTrainingJob) -> Phase | None:
    return job.status.phase


def test_after_a_suspension_the_phase_tells_of_the_attempt_not_of_the_suspension() -> None:
    job = seen(resumed())
    pods = [a_pod(job.build(), index) for index in range(2)]
    starting = seen(job, *pods)
    running = seen(starting, *(pod.running() for pod in pods))

    assert (phase_of(starting.build()), phase_of(running.build())) == (Phase.STARTING, Phase.RUNNING)
