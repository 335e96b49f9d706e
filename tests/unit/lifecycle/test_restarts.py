"""What ends an attempt, and how the next one begins."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from dtj.api.conditions import ConditionType
from dtj.api.reasons import Reason
from dtj.api.spec import RuleAction
from dtj.api.status import FailureClass, JobStatus, LastFailure, Phase
from dtj.lifecycle.children import NodeCondition
from dtj.lifecycle.decide import STALE_VIEW_DELAY
from dtj.lifecycle.decision import Decision
from dtj.lifecycle.failure import SETTLING
from dtj.lifecycle.obstacles import Obstacle
from tests.builders import NODE, NOW, JobBuilder, PodBuilder, a_job, a_pod, ago
from tests.unit.lifecycle.decided import decided, in_order, seen, text, worker

JOB = a_job().replicas(2).begun()
RUNNING = seen(JOB, worker(0).running(), worker(1).running())
LOST = {NODE: NodeCondition("Ready", "Unknown", "Kubelet stopped posting node status.", None, ago(5))}
QUOTA = Obstacle(Reason.QUOTA_EXCEEDED, "exceeded quota: gpus", 1, alone=True, lasts=True)
DELETE = tuple(f"delete pod digits-worker-{index} (uid uid-of-digits-worker-{index})" for index in range(2))
CREATE = ("create pod digits-worker-0-r1", "create pod digits-worker-1-r1")


def status_of(decision: Decision) -> JobStatus:
    assert decision.status is not None
    return decision.status


def failure_of(decision: Decision) -> LastFailure:
    failure = status_of(decision).last_failure
    assert failure is not None
    return failure


def counts(status: JobStatus) -> tuple[int, int, int, int]:
    return status.attempt, status.restarts, status.restarts_since_progress, status.disruptions


def with_status(job: JobBuilder, **fields: object) -> JobBuilder:
    return job.status(job.build().status.model_copy(update=fields))


def test_the_whole_gang_starts_again_under_names_of_its_own() -> None:
    _, decision = decided(RUNNING, worker(0).running(), worker(1).failed(3, lines="ValueError: x"))

    assert in_order(decision) == [
        "status: Restarting (NonZeroExit), attempt 1, ready 0/2",
        (
            "event: Warning NonZeroExit: digits-worker-1 (rank 1) on node-1: container trainer ended with exit code 3: "
            "ValueError: x; restarting as attempt 1"
        ),
        DELETE[0],
        *CREATE,
    ]
    status = status_of(decision)
    assert counts(status) == (1, 1, 1, 0)
    assert (status.attempt_time, status.backoff_seconds) == (NOW, 0)
    assert not status.has(ConditionType.RUNNING)
    assert [(role.pending, role.running, role.succeeded, role.failed) for role in status.roles] == [(0, 0, 0, 0)]
    assert failure_of(decision).action is RuleAction.RESTART_JOB


Hurt = tuple[tuple[PodBuilder, ...], Reason]
DISRUPTIONS: dict[str, Hurt] = {
    "deleted by somebody": ((worker(0).running(), worker(1).running().being_deleted()), Reason.POD_DELETED),
    "gone": ((worker(0).running(),), Reason.POD_DELETED),
    "evicted": ((worker(0).running(), worker(1).pod_failed("Evicted", "disk pressure")), Reason.EVICTED),
    "drained": (
        (
            worker(0).running(),
            worker(1).running().being_deleted().condition("DisruptionTarget", "True", "EvictionByEvictionAPI"),
        ),
        Reason.EVICTED,
    ),
    "preempted": (
        (
            worker(0).running(),
            worker(1).running().being_deleted().condition("DisruptionTarget", "True", "PreemptionByScheduler"),
        ),
        Reason.PREEMPTED,
    ),
}


@pytest.mark.parametrize(("pods", "reason"), DISRUPTIONS.values(), ids=DISRUPTIONS.keys())
def test_a_disruption_is_counted_apart(pods: tuple[PodBuilder, ...], reason: Reason) -> None:
    _, decision = decided(RUNNING, *pods)

    assert counts(status_of(decision)) == (1, 0, 0, 1)
    failure = failure_of(decision)
    assert (failure.reason, failure.failure_class, failure.action) == (
        reason,
        FailureClass.DISRUPTION,
        RuleAction.RESTART_JOB_AND_IGNORE,
    )
    assert [line for line in in_order(decision) if line.startswith("create")] == list(CREATE)


def test_absence_is_to_be_confirmed() -> None:
    assert decided(RUNNING, worker(0).running())[1].rests_on_absence
    assert not decided(RUNNING, worker(0).running(), worker(1).failed())[1].rests_on_absence
    assert not decided(JOB, worker(0).running())[1].rests_on_absence


def test_a_lost_node_takes_the_attempt_with_it_at_once() -> None:
    tolerant = worker(1).on("node-2").running()
    _, decision = decided(RUNNING, worker(0).running().tolerates_node_loss(30), tolerant, lost_nodes=LOST)

    assert in_order(decision)[:2] == [
        "status: Restarting (NodeLost), attempt 1, ready 0/2",
        (
            "event: Warning NodeLost: digits-worker-0 (rank 0) on node-1: node node-1 is lost: "
            "Kubelet stopped posting node status; restarting as attempt 1"
        ),
    ]
    assert in_order(decision)[2:] == [*DELETE, *CREATE]
    assert counts(status_of(decision)) == (1, 0, 0, 1)
    assert failure_of(decision).time == ago(5)


PATIENCE: dict[str, tuple[PodBuilder, bool]] = {
    "as the operator asks for": (worker(0).running().tolerates_node_loss(30), True),
    "less than that": (worker(0).running().tolerates_node_loss(0), True),
    "no toleration at all": (worker(0).running(), True),
    "longer than that": (worker(0).running().tolerates_node_loss(600), False),
    "for ever": (worker(0).running().tolerates_node_loss(None), False),
    "both: the shorter counts": (worker(0).running().tolerates_node_loss(600).tolerates_node_loss(10), True),
    "on another node": (worker(0).on("node-2").running(), False),
    "has succeeded": (worker(0).succeeded(), False),
    "still pending there": (worker(0), True),
    "being deleted there": (worker(0).running().being_deleted(), True),
}


@pytest.mark.parametrize(("pod", "lost"), PATIENCE.values(), ids=PATIENCE.keys())
def test_whose_node_is_lost(pod: PodBuilder, lost: bool) -> None:
    _, decision = decided(RUNNING, pod, worker(1).on("node-2").running(), lost_nodes=LOST)
    reason = decision.status.reason if decision.status else None

    assert (reason == Reason.NODE_LOST) is lost


def test_after_the_next_attempt_is_committed_the_old_one_is_cleared_away() -> None:
    """The operator was killed between the status and the first deletion."""
    pods = (worker(0).running(), worker(1).failed(3))
    committed = seen(RUNNING, *pods)

    assert text(committed, *pods)[1:] == [DELETE[0], *CREATE]


def test_pods_ahead_of_the_job_tell_of_a_stale_view() -> None:
    assert decided(RUNNING, worker(0, attempt=1).running(), worker(1).failed())[1] == Decision(
        requeue_after=STALE_VIEW_DELAY
    )


def failing_again_and_again(job: JobBuilder, times: int, at: datetime = NOW) -> list[JobStatus]:
    """Statuses after each failure, all pods running a moment before it; no time passes beyond the backoffs."""
    statuses = []
    for _ in range(times):
        attempt = job.build().status.attempt
        job = seen(job, worker(0, attempt=attempt).running(), worker(1, attempt=attempt).running(), now=at)
        failed = worker(1, attempt=attempt).failed(3, at=at)
        job = seen(job, worker(0, attempt=attempt).running(), failed, now=at)
        statuses.append(job.build().status)
        at += timedelta(seconds=statuses[-1].backoff_seconds)
    return statuses


def test_failures_without_progress_back_off_until_the_job_fails() -> None:
    statuses = failing_again_and_again(JOB.spec(failurePolicy={"maxRestarts": 3}), 4)

    assert [status.backoff_seconds for status in statuses[:3]] == [0, 10, 20]
    assert [counts(status) for status in statuses] == [(1, 1, 1, 0), (2, 2, 2, 0), (3, 3, 3, 0), (3, 3, 3, 0)]
    assert [status.phase for status in statuses] == [Phase.RESTARTING] * 3 + [Phase.FAILED]
    failed = statuses[-1].condition(ConditionType.FAILED)
    assert failed is not None
    assert failed.message.endswith("; after 3 restarts without progress between (failurePolicy.maxRestarts)")
    assert statuses[-1].last_failure is not None
    assert statuses[-1].last_failure.action is RuleAction.FAIL_JOB


def test_the_backoff_ends_at_ten_minutes() -> None:
    statuses = failing_again_and_again(JOB.spec(failurePolicy={"maxRestarts": 100}), 12)

    assert [status.backoff_seconds for status in statuses] == [0, 10, 20, 40, 80, 160, 320, *[600] * 5]


def test_ten_minutes_with_all_pods_running_are_progress() -> None:
    tired = with_status(RUNNING, restarts=7, restarts_since_progress=3, attempt=7)
    pods = [worker(index, attempt=7).running() for index in range(2)]
    short, long = (timedelta(minutes=10, seconds=seconds) for seconds in (-1, 0))

    before = seen(tired, pods[0], worker(1, attempt=7).failed(at=NOW + short), now=NOW + short)
    assert before.build().status.phase is Phase.FAILED

    after = seen(tired, pods[0], worker(1, attempt=7).failed(at=NOW + long), now=NOW + long).build().status
    assert (after.phase, after.restarts, after.restarts_since_progress) == (Phase.RESTARTING, 8, 1)
    assert after.backoff_seconds == 0


def test_the_time_between_a_failure_and_the_look_at_it_is_no_progress() -> None:
    tired = with_status(RUNNING, restarts_since_progress=3)
    late = NOW + timedelta(hours=1)

    assert seen(tired, worker(0).running(), worker(1).failed(at=NOW), now=late).build().status.phase is Phase.FAILED


def test_during_the_backoff_nothing_is_created_and_the_reason_stays() -> None:
    job = with_status(seen(RUNNING, worker(0).running(), worker(1).failed()), backoff_seconds=20)

    _, waiting = decided(job, worker(0).running(), now=NOW + timedelta(seconds=5))
    assert in_order(waiting) == [DELETE[0], "look again after 15 s"]
    assert text(job, now=NOW + timedelta(seconds=20))[1:] == list(CREATE)


def test_a_clock_that_was_set_back_does_not_prolong_a_backoff() -> None:
    job = with_status(seen(RUNNING, worker(0).running(), worker(1).failed()), backoff_seconds=20)

    assert text(job, now=NOW - timedelta(hours=1))[1:] == list(CREATE)


AGAIN: dict[str, tuple[int, int, int, int]] = {
    "the first one": (0, 0, 5, 0),
    "long after the one before": (1, 0, 60, 0),
    "soon after the one before": (1, 0, 59, 10),
    "soon after one that had waited": (4, 40, 99, 80),
    "soon, for the hundredth time": (100, 600, 610, 600),
}


@pytest.mark.parametrize(("attempt", "backoff", "age", "seconds"), AGAIN.values(), ids=AGAIN.keys())
def test_disruptions_in_a_row_back_off(attempt: int, backoff: int, age: int, seconds: int) -> None:
    job = with_status(RUNNING, attempt=attempt, backoff_seconds=backoff, attempt_time=ago(age))
    pods = (worker(0, attempt=attempt).running(), worker(1, attempt=attempt).running().being_deleted())

    assert status_of(decided(job, *pods)[1]).backoff_seconds == seconds


RULES: dict[str, tuple[dict[str, object], PodBuilder, RuleAction]] = {
    "an exit code": ({"onExitCodes": {"operator": "In", "values": [3]}}, worker(1).failed(3), RuleAction.FAIL_JOB),
    "another exit code": (
        {"onExitCodes": {"operator": "In", "values": [3]}},
        worker(1).failed(4),
        RuleAction.RESTART_JOB,
    ),
    "any exit code but one": (
        {"onExitCodes": {"operator": "NotIn", "values": [3]}},
        worker(1).failed(4),
        RuleAction.FAIL_JOB,
    ),
    "that one": ({"onExitCodes": {"operator": "NotIn", "values": [3]}}, worker(1).failed(3), RuleAction.RESTART_JOB),
    "no exit code is known": (
        {"onExitCodes": {"operator": "NotIn", "values": [3]}},
        worker(1).running().being_deleted(),
        RuleAction.RESTART_JOB_AND_IGNORE,
    ),
    "a disrupted pod's exit code": (
        {"onExitCodes": {"operator": "In", "values": [143]}},
        worker(1).failed(143).condition("DisruptionTarget", "True", "EvictionByEvictionAPI"),
        RuleAction.RESTART_JOB_AND_IGNORE,
    ),
    "an init container's exit code": (
        {"onExitCodes": {"operator": "In", "values": [3]}},
        worker(1).pod_failed().init_ended(3),
        RuleAction.RESTART_JOB,
    ),
    "a reason": (
        {"onReasons": ["Evicted", "OOMKilled"]},
        worker(1).failed(137, reason="OOMKilled"),
        RuleAction.FAIL_JOB,
    ),
    "another reason": ({"onReasons": ["OOMKilled"]}, worker(1).failed(137), RuleAction.RESTART_JOB),
    "a disruption's reason": (
        {"onReasons": ["PodDeleted"]},
        worker(1).running().being_deleted(),
        RuleAction.FAIL_JOB,
    ),
    "a pod condition": (
        {"onPodConditions": [{"type": "ConfigIssue"}]},
        worker(1).failed().condition("ConfigIssue", "True"),
        RuleAction.FAIL_JOB,
    ),
    "a pod condition of another status": (
        {"onPodConditions": [{"type": "ConfigIssue", "status": "False"}]},
        worker(1).failed().condition("ConfigIssue", "True"),
        RuleAction.RESTART_JOB,
    ),
    "one of several pod conditions": (
        {"onPodConditions": [{"type": "A"}, {"type": "B", "status": "Unknown"}]},
        worker(1).failed().condition("B", "Unknown"),
        RuleAction.FAIL_JOB,
    ),
}


@pytest.mark.parametrize(("criterion", "pod", "action"), RULES.values(), ids=RULES.keys())
def test_a_rule_looks_for(criterion: dict[str, object], pod: PodBuilder, action: RuleAction) -> None:
    job = RUNNING.spec(failurePolicy={"rules": [{"action": "FailJob", **criterion}]})
    _, decision = decided(job, worker(0).running(), pod)

    assert failure_of(decision).action is action
    if action is RuleAction.FAIL_JOB:
        assert decision.events[0].message.endswith("; failurePolicy.rules[0] says FailJob")


ACTIONS: dict[str, tuple[str, PodBuilder, tuple[int, int, int, int]]] = {
    "a failure is counted": ("RestartJob", worker(1).failed(), (1, 1, 1, 0)),
    "a failure is not counted": ("RestartJobAndIgnore", worker(1).failed(), (1, 1, 0, 0)),
    "a disruption is counted as a failure": ("RestartJob", worker(1).running().being_deleted(), (1, 1, 1, 0)),
    "a disruption stays one": ("RestartJobAndIgnore", worker(1).running().being_deleted(), (1, 0, 0, 1)),
    "the job fails": ("FailJob", worker(1).failed(), (0, 0, 0, 0)),
}


@pytest.mark.parametrize(("action", "pod", "after"), ACTIONS.values(), ids=ACTIONS.keys())
def test_what_an_action_counts(action: str, pod: PodBuilder, after: tuple[int, int, int, int]) -> None:
    rule = {"action": action, "onReasons": ["NonZeroExit", "PodDeleted"]}
    _, decision = decided(RUNNING.spec(failurePolicy={"rules": [rule]}), worker(0).running(), pod)

    assert counts(status_of(decision)) == after


def test_the_first_rule_that_matches_decides() -> None:
    rules = [
        {"action": "RestartJobAndIgnore", "onExitCodes": {"operator": "In", "values": [3]}},
        {"action": "FailJob", "onReasons": ["NonZeroExit"]},
    ]
    job = RUNNING.spec(failurePolicy={"maxRestarts": 0, "rules": rules})

    assert failure_of(decided(job, worker(0).failed(3))[1]).action is RuleAction.RESTART_JOB_AND_IGNORE
    assert failure_of(decided(job, worker(0).failed(4))[1]).action is RuleAction.FAIL_JOB


def test_a_rule_that_restarts_still_counts_against_the_limit() -> None:
    rule = {"action": "RestartJob", "onReasons": ["PodDeleted"]}
    job = RUNNING.spec(failurePolicy={"maxRestarts": 0, "rules": [rule]})

    assert failure_of(decided(job, worker(0).running().being_deleted())[1]).action is RuleAction.FAIL_JOB


def test_the_last_attempt_that_names_have_room_for_is_the_last() -> None:
    job = with_status(RUNNING, attempt=9_999)
    pods = (worker(0, attempt=9_999).running(), worker(1, attempt=9_999).running().being_deleted())

    assert text(job, *pods)[0] == "status: Failed (PodDeleted), attempt 9999, ready 0/2"


def test_half_a_gang_in_the_last_attempt_is_not_given_back_for_another_one() -> None:
    job = with_status(JOB, attempt=9_999)

    assert text(job, worker(0, attempt=9_999), obstacle=QUOTA)[0] == (
        "status: Failed (TooManyAttempts), attempt 9999, ready 0/2"
    )


def test_failed_pods_are_kept_for_their_logs_one_of_an_attempt_and_three_at_most() -> None:
    failure = LastFailure(
        attempt=4,
        time=NOW,
        failure_class=FailureClass.APPLICATION,
        reason=Reason.NON_ZERO_EXIT,
        pod="digits-worker-1-r4",
        action=RuleAction.RESTART_JOB,
    )
    job = with_status(JOB, attempt=5, last_failure=failure)
    pods = [
        worker(0, attempt=1).failed(),
        worker(0, attempt=2).failed(),
        worker(1, attempt=2).failed(),
        worker(0, attempt=3).failed(),
        worker(0, attempt=4).failed(),
        worker(1, attempt=4).failed(),
        worker(0, attempt=5).running(),
        worker(1, attempt=5).running(),
    ]
    deleted = [line.split()[2] for line in text(job, *pods) if line.startswith("delete")]

    assert deleted == ["digits-worker-0-r1", "digits-worker-0-r4", "digits-worker-1-r2"]


def test_a_failed_pod_whose_sidecar_holds_the_node_is_not_kept() -> None:
    pod = worker(1).running(container="proxy").ended(3)

    assert DELETE[1] in text(RUNNING, worker(0).running(), pod)


def test_pods_that_are_going_anyway_are_not_deleted_again() -> None:
    assert text(RUNNING, worker(0).running(), worker(1).running().being_deleted())[2:] == [DELETE[0], *CREATE]


def test_the_rest_that_failed_with_its_peer_goes() -> None:
    both = (worker(0).failed(3, at=ago(5)), worker(1).failed(1, lines="Connection reset by peer", at=ago(4)))

    assert text(RUNNING, *both)[2:] == [DELETE[1], *CREATE]


def test_half_a_gang_over_quota_is_given_back() -> None:
    _, decision = decided(JOB, worker(0).running(), obstacle=QUOTA)
    status = status_of(decision)

    assert (status.phase, status.reason, counts(status)) == (Phase.PENDING, Reason.QUOTA_EXCEEDED, (1, 0, 0, 0))
    assert 10 <= status.backoff_seconds <= 15
    assert in_order(decision)[1:] == [
        f"event: Warning QuotaExceeded: exceeded quota: gpus; restarting as attempt 1 in {status.backoff_seconds} s",
        DELETE[0],
        f"look again after {status.backoff_seconds} s",
    ]


def test_nothing_is_given_back_at_the_first_refusal() -> None:
    """What held the quota may have been going already."""
    _, decision = decided(JOB, worker(0), obstacle=replace(QUOTA, lasts=False))

    assert status_of(decision).attempt == 0
    assert in_order(decision)[-1] == "create pod digits-worker-1"


def test_a_whole_gang_is_never_given_back() -> None:
    assert status_of(decided(JOB, worker(0), worker(1), obstacle=QUOTA)[1]).attempt == 0


def test_gangs_that_were_given_back_do_not_meet_again() -> None:
    waits = {
        status_of(decided(JOB.uid(f"uid-{number}"), worker(0), obstacle=QUOTA)[1]).backoff_seconds
        for number in range(20)
    }

    assert len(waits) > 3


def test_a_whole_gang_of_which_somebody_was_removed_is_never_given_back() -> None:
    """The Service was deleted, and a quota refuses another one."""
    three = seen(a_job().replicas(3))
    three = seen(three, *(worker(index).running() for index in range(3)))
    three = seen(three, worker(0).succeeded(), worker(1).running(), worker(2).running())
    _, decision = decided(three, worker(1).running(), worker(2).running(), service=False, obstacle=QUOTA)

    assert decision.status is None or decision.status.attempt == 0


def test_a_node_that_came_back_does_not_make_its_pods_end_the_programs_fault() -> None:
    rule = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [137]}}
    job = RUNNING.spec(failurePolicy={"rules": [rule]})
    unknown = worker(1).failed(137, reason="ContainerStatusUnknown", at=None)
    failure = failure_of(decided(job, worker(0).running(), unknown)[1])

    assert (failure.failure_class, failure.reason) == (FailureClass.INFRASTRUCTURE, Reason.POD_FAILED)
    assert failure.action is RuleAction.RESTART_JOB


def test_a_lost_node_comes_before_those_who_missed_it() -> None:
    """It was silent for a while before that was told."""
    told = {NODE: NodeCondition("Ready", "Unknown", "", ago(60), ago(5))}
    missed = worker(1).on("node-2").failed(1, lines="ValueError: no words of a lost peer", at=ago(50))

    assert failure_of(decided(RUNNING, worker(0).running(), missed, lost_nodes=told)[1]).reason == Reason.NODE_LOST


MASTER = a_job().replicas(2).role("master").spec(successPolicy={"roles": ["master"]}).begun()
WITH_MASTER = (a_pod(MASTER.build(), role="master"), a_pod(MASTER.build(), 0), a_pod(MASTER.build(), 1))


def test_a_failure_that_may_follow_from_a_success_waits_for_it() -> None:
    """The master is done and ends the workers' connections; a worker's end is reported first."""
    master, *workers = WITH_MASTER
    running = seen(MASTER, *(pod.running() for pod in WITH_MASTER))
    failed = workers[0].failed(1, lines="whatever")

    assert text(running, master.running(), failed, workers[1].running()) == [
        f"look again after {SETTLING.total_seconds():g} s"
    ]
    assert text(running, master.succeeded(), failed, workers[1].running())[0].startswith("status: Succeeded")
    later = NOW + SETTLING
    assert text(running, master.running(), failed, workers[1].running(), now=later)[0].startswith("status: Restarting")


def test_nobody_waits_for_what_has_no_time() -> None:
    master, *workers = WITH_MASTER
    running = seen(MASTER, *(pod.running() for pod in WITH_MASTER))
    silent = workers[0].failed(1, lines="Connection reset by peer", at=None)
    evicted = workers[0].pod_failed("NodeShutdown")

    for failed in (silent, evicted):
        assert text(running, master.running(), failed, workers[1].running())[0].startswith("status: Restarting")


def test_who_disrupted_comes_before_those_who_missed_their_peer() -> None:
    """All of it is seen at once, because the operator was away."""
    drained = (
        worker(1)
        .running()
        .being_deleted(at=ago(31), grace=30)
        .condition("DisruptionTarget", "True", "EvictionByEvictionAPI", "drained")
    )
    missed = worker(0).failed(1, lines="ValueError: not what the words of a lost peer are", at=ago(28))

    assert failure_of(decided(RUNNING, drained, missed)[1]).reason == Reason.EVICTED


def test_a_pod_that_is_gone_comes_before_those_who_missed_it() -> None:
    missed = worker(0).failed(1, lines="Connection reset by peer", at=ago(60))

    assert failure_of(decided(RUNNING, missed)[1]).reason == Reason.POD_DELETED


def test_what_says_why_it_failed_comes_before_a_pod_that_is_gone() -> None:
    told = worker(0).failed(3, lines="ValueError: x", at=ago(60))

    assert failure_of(decided(RUNNING, told)[1]).exit_code == 3
