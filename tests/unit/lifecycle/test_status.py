"""What the status says of a situation."""

from datetime import timedelta

import pytest

from dtj.api.conditions import ConditionType
from dtj.api.reasons import Reason
from dtj.api.spec import CleanupPolicy, ConditionStatus
from dtj.api.status import MAX_MESSAGE, Condition, JobStatus, Phase, RoleStatus
from dtj.lifecycle.look import Look
from dtj.lifecycle.observe import Observed, observe
from dtj.lifecycle.status import (
    Situation,
    has_begun,
    is_finished,
    is_transition,
    status_in,
    with_situation,
)
from dtj.plan.topology import topology_of
from tests.builders import JOB_UID, NOW, JobBuilder, PodBuilder, a_job, a_pod

LATER = NOW + timedelta(minutes=5)
STARTING = Situation(Phase.STARTING, Reason.PODS_STARTING, "0 of 3 pods running")
RUNNING = Situation(Phase.RUNNING, Reason.ALL_PODS_RUNNING, "3 pods running")
SUCCEEDED = Situation(Phase.SUCCEEDED, Reason.SUCCEEDED, "3 pods succeeded")
FAILED = Situation(Phase.FAILED, Reason.NON_ZERO_EXIT, "digits-worker-1: exit code 3")


def job_with(status: JobStatus | None = None, policy: CleanupPolicy = CleanupPolicy.RUNNING) -> JobBuilder:
    job = a_job().replicas(3).generation(7).spec(cleanupPolicy=policy)
    return job.status(status) if status else job


def status_for(
    situation: Situation, job: JobBuilder | None = None, *pods: PodBuilder, later: bool = False
) -> JobStatus:
    built = (job or job_with()).build()
    observed: Observed = observe(built, [pod.build() for pod in pods], None, None)
    return status_in(situation, Look(built, topology_of(built.spec), observed, LATER if later else NOW))


def condition(status: JobStatus, kind: ConditionType) -> Condition:
    (found,) = [each for each in status.conditions if each.type == kind]
    return found


HOLD: dict[str, tuple[Situation, set[ConditionType]]] = {
    "starting": (STARTING, set()),
    "running": (RUNNING, {ConditionType.RUNNING}),
    "succeeded": (SUCCEEDED, {ConditionType.COMPLETE}),
    "failed": (FAILED, {ConditionType.FAILED}),
}


@pytest.mark.parametrize(("situation", "kinds"), HOLD.values(), ids=HOLD.keys())
def test_conditions_that_hold(situation: Situation, kinds: set[ConditionType]) -> None:
    status = status_for(situation)

    assert {kind for kind in ConditionType if status.has(kind)} == kinds
    assert is_finished(status) is bool(kinds & {ConditionType.COMPLETE, ConditionType.FAILED})


def test_the_running_condition_is_there_from_the_beginning() -> None:
    found = condition(status_for(STARTING), ConditionType.RUNNING)

    assert found == Condition(
        type=ConditionType.RUNNING,
        status=ConditionStatus.FALSE,
        reason=Reason.PODS_STARTING,
        message="0 of 3 pods running",
        last_transition_time=NOW,
        observed_generation=7,
    )


def test_a_condition_keeps_its_time_while_only_its_reason_changes() -> None:
    first = status_for(RUNNING)
    some_done = Situation(Phase.RUNNING, Reason.SOME_PODS_FINISHED, "2 of 3 pods running, 1 succeeded")
    second = status_for(some_done, job_with(first), later=True)

    found = condition(second, ConditionType.RUNNING)
    assert (found.reason, found.last_transition_time) == (Reason.SOME_PODS_FINISHED, NOW)


def test_a_condition_that_changes_gets_the_time_of_its_change() -> None:
    first = status_for(RUNNING)
    second = status_for(SUCCEEDED, job_with(first), later=True)

    assert condition(second, ConditionType.RUNNING).last_transition_time == LATER
    assert condition(second, ConditionType.COMPLETE).last_transition_time == LATER


def test_a_condition_of_another_version_is_kept() -> None:
    foreign = Condition(type="SolarFlare", status=ConditionStatus.TRUE, reason="Sun", last_transition_time=NOW)

    assert foreign in status_for(RUNNING, job_with(JobStatus(conditions=(foreign,)))).conditions


def test_each_condition_stands_there_once() -> None:
    status = status_for(SUCCEEDED, job_with(status_for(RUNNING)))

    assert [each.type for each in status.conditions] == [ConditionType.RUNNING, ConditionType.COMPLETE]


def test_a_long_message_is_cut() -> None:
    status = status_for(Situation(Phase.PENDING, Reason.UNSCHEDULABLE, "ß" * 10_000))

    assert condition(status, ConditionType.RUNNING).message == "ß" * MAX_MESSAGE
    assert JobStatus.model_validate(status.to_wire()) == status


def test_times_are_those_of_the_first_moment() -> None:
    started = status_for(STARTING)
    running = status_for(RUNNING, job_with(started), later=True)
    done = status_for(SUCCEEDED, job_with(running))

    assert (started.start_time, started.running_time, started.completion_time) == (NOW, None, None)
    assert (running.start_time, running.running_time, running.completion_time) == (NOW, LATER, None)
    assert (done.start_time, done.running_time, done.completion_time) == (NOW, LATER, NOW)


JOB = job_with().build()
PODS = (a_pod(JOB, 0).running(), a_pod(JOB, 1).succeeded(), a_pod(JOB, 2).failed())


def test_counts() -> None:
    status = status_for(RUNNING, None, *PODS, a_pod(JOB, 0, attempt=1).running())

    assert status.roles == (RoleStatus(name="worker", replicas=3, running=1, succeeded=1, failed=1),)
    assert (status.replicas, status.ready_replicas, status.ready) == (3, 1, "1/3")
    assert status.selector == f"dtj.dev/job-uid={JOB_UID},dtj.dev/role=worker"


def test_counts_of_each_role() -> None:
    job = a_job().framework("Custom").replicas(2).role("actor", 2)
    status = status_for(STARTING, job, a_pod(JOB, 0).running(), a_pod(JOB, 1, role="actor"))

    assert [(role.name, role.replicas, role.pending, role.running) for role in status.roles] == [
        ("actor", 2, 1, 0),
        ("worker", 2, 0, 1),
    ]
    assert (status.replicas, status.ready_replicas, status.ready) == (1, 1, "1/4")


GONE: dict[str, tuple[CleanupPolicy, tuple[int, str, int]]] = {
    "what runs is deleted by the same decision": (CleanupPolicy.RUNNING, (0, "0/3", 0)),
    "all is deleted by the same decision": (CleanupPolicy.ALL, (0, "0/3", 0)),
    "nothing is touched": (CleanupPolicy.NONE, (3, "1/3", 1)),
}


@pytest.mark.parametrize(("policy", "counts"), GONE.values(), ids=GONE.keys())
def test_counts_at_the_end(policy: CleanupPolicy, counts: tuple[int, str, int]) -> None:
    status = status_for(FAILED, job_with(policy=policy), *PODS)

    assert (status.replicas, status.ready, status.roles[0].running) == counts
    assert (status.roles[0].succeeded, status.roles[0].failed) == (1, 1)


def test_a_refused_job_has_not_begun() -> None:
    status = with_situation(JOB, Situation(Phase.PENDING, Reason.INVALID_SPEC, "spec.framework: no"), NOW)

    assert not has_begun(status)
    assert (status.phase, status.reason, status.observed_generation) == (Phase.PENDING, Reason.INVALID_SPEC, 7)
    assert condition(status, ConditionType.RUNNING).message == "spec.framework: no"


def test_what_is_not_reported_here_stays() -> None:
    before = JobStatus(restarts=2, disruptions=1, attempt=3, restarts_since_progress=1)
    status = status_for(RUNNING, job_with(before))

    assert (status.restarts, status.disruptions, status.attempt, status.restarts_since_progress) == (2, 1, 3, 1)


BASE = status_for(STARTING)
TRANSITIONS: dict[str, tuple[JobStatus, bool]] = {
    "nothing": (BASE, False),
    "a count": (BASE.model_copy(update={"replicas": 3, "ready": "2/3"}), False),
    "a reason": (BASE.model_copy(update={"reason": Reason.CONTAINER_CREATING}), False),
    "a message": (status_for(Situation(Phase.STARTING, Reason.PODS_STARTING, "1 of 3")), False),
    "the phase": (BASE.model_copy(update={"phase": Phase.PENDING}), True),
    "the attempt": (BASE.model_copy(update={"attempt": 1}), True),
    "a condition": (status_for(RUNNING).model_copy(update={"phase": Phase.STARTING}), True),
}


@pytest.mark.parametrize(("new", "is_one"), TRANSITIONS.values(), ids=TRANSITIONS.keys())
def test_transition(new: JobStatus, is_one: bool) -> None:
    assert is_transition(BASE, new) is is_one


def test_the_first_status_is_a_transition() -> None:
    assert is_transition(JobStatus(), BASE)
