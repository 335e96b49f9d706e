"""What the operator does in each situation, as it would be printed."""

from dataclasses import replace

import pytest

from dtj.api.reasons import Reason
from dtj.api.status import Phase, RoleStatus
from dtj.lifecycle.decide import decide
from dtj.lifecycle.decision import NOTHING, CreateNetworkPolicy, DeletePod
from dtj.lifecycle.failure import SETTLING
from dtj.lifecycle.observe import observe
from dtj.lifecycle.obstacles import Obstacle
from dtj.plan.network_policy import network_policy
from tests.builders import NOW, JobBuilder, PodBuilder, a_job, a_pod, ago
from tests.unit.lifecycle.decided import BEGUN, COMPLETE, FAILED, NEW, RUNNING, decided, in_order, seen, text, worker

LOST_PEER = "RuntimeError: Connection closed by peer"
NOT_FOUND = 'failed to pull image "nope:1": not found'
REFUSED = Obstacle(Reason.INVALID_TEMPLATE, "spec.containers[0].image: Required value", 1, until_spec_changes=True)
CREATE = ("create service digits-workers", "create pod digits-worker-0", "create pod digits-worker-1")

IGNORED: dict[str, JobBuilder] = {
    "managed by another controller": NEW.spec(managedBy="kueue.x-k8s.io/multikueue"),
    "being deleted": NEW.being_deleted(),
    "being deleted while it runs": RUNNING.being_deleted(),
    "of a later framework, but managed by another": NEW.framework("MPI").spec(managedBy="example.com/other"),
}


@pytest.mark.parametrize("job", IGNORED.values(), ids=IGNORED.keys())
def test_left_alone(job: JobBuilder) -> None:
    assert decided(job, worker(0).failed(), service=False)[1] is NOTHING


def test_a_new_job_begins() -> None:
    assert text(NEW, service=False) == [
        "status: Starting (PodsStarting), attempt 0, ready 0/2",
        "event: Normal PodsStarting: attempt 0: creating 2 pods",
        *CREATE,
    ]


def test_one_pod_is_no_pods() -> None:
    assert text(a_job(), service=False)[1] == "event: Normal PodsStarting: attempt 0: creating 1 pod"


def test_mistakes_are_told_and_nothing_is_created() -> None:
    job = NEW.container(env=[{"name": "RANK", "value": "0"}, {"name": "DTJ_X", "value": "0"}])
    told = (
        "spec.template.spec.containers[trainer].env: RANK is set by the operator; remove it; "
        "spec.template.spec.containers[trainer].env: DTJ_X is set by the operator; remove it"
    )

    assert text(job, service=False) == [
        "status: Pending (InvalidSpec), attempt 0, ready None",
        f"event: Warning InvalidSpec: {told}",
    ]


def test_a_job_that_was_refused_is_told_once() -> None:
    job = NEW.framework("MPI")
    _, first = decided(job)
    assert first.status is not None

    assert decided(job.status(first.status))[1] == NOTHING


def test_a_mistake_mended_lets_the_job_begin() -> None:
    _, first = decided(NEW.framework("MPI"))
    assert first.status is not None

    assert text(NEW.status(first.status), service=False)[2:] == list(CREATE)


CREATED: dict[str, tuple[tuple[PodBuilder, ...], bool, tuple[str, ...]]] = {
    "nothing is there": ((), False, CREATE),
    "the service is missing": ((worker(0), worker(1)), False, CREATE[:1]),
    "a pod is missing": ((worker(0),), True, CREATE[2:]),
    "all is there": ((worker(0), worker(1)), True, ()),
}


@pytest.mark.parametrize(("pods", "service", "created"), CREATED.values(), ids=CREATED.keys())
def test_only_what_is_missing_is_created(pods: tuple[PodBuilder, ...], service: bool, created: tuple[str, ...]) -> None:
    assert [line for line in text(BEGUN, *pods, service=service) if line.startswith("create")] == list(created)


ISOLATE = "create network policy digits-workers"
ISOLATED: dict[str, tuple[JobBuilder, tuple[PodBuilder, ...], list[str]]] = {
    "a new job": (NEW, (), [ISOLATE, *CREATE[1:]]),
    "a committed attempt without pods": (BEGUN, (), [ISOLATE, *CREATE[1:]]),
    "a pod is missing": (BEGUN, (worker(0),), [ISOLATE, *CREATE[2:]]),
    "all pods are there": (BEGUN, (worker(0), worker(1)), []),
    "all pods run": (RUNNING, (worker(0).running(), worker(1).running()), []),
    "an attempt that begins again": (
        RUNNING.spec(failurePolicy={"maxRestarts": 1}),
        (worker(0).failed(), worker(1).running()),
        [ISOLATE, "create pod digits-worker-0-r1", "create pod digits-worker-1-r1"],
    ),
    "the end": (COMPLETE, (worker(0).succeeded(), worker(1).succeeded()), []),
}


@pytest.mark.parametrize(("job", "pods", "created"), ISOLATED.values(), ids=ISOLATED.keys())
def test_the_isolation_comes_with_pods_and_before_them(
    job: JobBuilder, pods: tuple[PodBuilder, ...], created: list[str]
) -> None:
    isolated, bare = (
        [line for line in text(job.spec(networkIsolation=wish), *pods) if line.startswith("create")]
        for wish in ("Job", "None")
    )

    assert isolated == created
    assert bare == [line for line in created if line != ISOLATE]


def test_the_operator_is_let_in_where_it_runs() -> None:
    job = BEGUN.spec(networkIsolation="Job").build()
    observed = replace(observe(job, [], None, None), operator_namespace="dtj-system")

    (policy,) = (write for write in decide(job, observed, NOW).writes if isinstance(write, CreateNetworkPolicy))

    assert policy.manifest == network_policy(job, "dtj-system")


Told = tuple[Phase, Reason, str]
STARTS: dict[str, tuple[tuple[PodBuilder, ...], Told]] = {
    "no pod yet": ((), (Phase.STARTING, Reason.PODS_STARTING, "0 of 2 pods running")),
    "containers are created": (
        (worker(0), worker(1)),
        (Phase.STARTING, Reason.CONTAINER_CREATING, "0 of 2 pods running"),
    ),
    "one runs": (
        (worker(0).running(), worker(1)),
        (Phase.STARTING, Reason.CONTAINER_CREATING, "1 of 2 pods running"),
    ),
    "no node for one": (
        (worker(0).running(), worker(1).unschedulable("0/2 nodes are available")),
        (Phase.PENDING, Reason.UNSCHEDULABLE, "1 of 2 pods: 0/2 nodes are available"),
    ),
    "a gate": (
        (worker(0).scheduling_gated(), worker(1).scheduling_gated()),
        (Phase.STARTING, Reason.SCHEDULING_GATED, "0 of 2 pods running"),
    ),
    "a bad image": (
        (worker(0).waiting("ErrImagePull", NOT_FOUND), worker(1).waiting("ImagePullBackOff", NOT_FOUND)),
        (Phase.PENDING, Reason.IMAGE_PULL_BACK_OFF, f"2 of 2 pods: container trainer: {NOT_FOUND}"),
    ),
    "all run": (
        (worker(0).running(), worker(1).running()),
        (Phase.RUNNING, Reason.ALL_PODS_RUNNING, "2 pods running"),
    ),
    "one was quick": (
        (worker(0).running(), worker(1).succeeded()),
        (Phase.RUNNING, Reason.SOME_PODS_FINISHED, "1 of 2 pods running, 1 succeeded"),
    ),
}


@pytest.mark.parametrize(("pods", "told"), STARTS.values(), ids=STARTS.keys())
def test_how_far_the_start_is(pods: tuple[PodBuilder, ...], told: Told) -> None:
    _, decision = decided(BEGUN, *pods)

    assert decision.status is not None
    assert (decision.status.phase, decision.status.reason, decision.status.conditions[0].message) == told


def test_a_refused_template_is_told_and_not_tried_again() -> None:
    assert text(BEGUN, service=True, obstacle=REFUSED) == [
        "status: Pending (InvalidTemplate), attempt 0, ready 0/2",
        f"event: Warning InvalidTemplate: {REFUSED.message}",
    ]


def test_a_new_spec_is_tried() -> None:
    assert text(BEGUN.generation(2), obstacle=REFUSED)[2:] == list(CREATE[1:])


def test_an_obstacle_that_may_go_away_is_told_and_tried_again() -> None:
    quota = Obstacle(Reason.QUOTA_EXCEEDED, "exceeded quota: gpus", 1)

    assert text(BEGUN, obstacle=quota) == [
        "status: Pending (QuotaExceeded), attempt 0, ready 0/2",
        "event: Warning QuotaExceeded: exceeded quota: gpus",
        *CREATE[1:],
    ]


def test_an_old_obstacle_does_not_hide_that_all_run() -> None:
    assert text(BEGUN, worker(0).running(), worker(1).running(), obstacle=REFUSED)[0].startswith("status: Running")


def test_all_running_is_news_once() -> None:
    pods = (worker(0).running(), worker(1).running())
    _, first = decided(BEGUN, *pods)
    assert first.status is not None
    assert [event.reason for event in first.events] == [Reason.ALL_PODS_RUNNING]

    assert decided(BEGUN.status(first.status), *pods)[1] == NOTHING
    assert decided(BEGUN.status(first.status), pods[0], worker(1).succeeded())[1].events == ()


def test_the_same_trouble_is_news_once() -> None:
    pods = (worker(0).unschedulable("0/2 nodes"), worker(1))
    _, first = decided(BEGUN, *pods)
    assert first.status is not None
    worse = (worker(0).unschedulable("0/1 nodes"), worker(1).unschedulable("0/1 nodes"))
    _, second = decided(BEGUN.status(first.status), *worse)

    assert [event.reason for event in first.events] == [Reason.UNSCHEDULABLE]
    assert second.status is not None
    assert second.events == ()


def test_all_succeeded() -> None:
    assert text(RUNNING, worker(0).succeeded(), worker(1).succeeded()) == [
        "status: Succeeded (Succeeded), attempt 0, ready 0/2",
        "event: Normal Succeeded: 2 pods succeeded",
    ]


def test_a_sidecar_that_still_runs_does_not_hold_the_job_up_and_is_stopped() -> None:
    lingering = worker(1).running(container="proxy").ended(0)

    assert text(RUNNING, worker(0).succeeded(), lingering) == [
        "status: Succeeded (Succeeded), attempt 0, ready 0/2",
        "event: Normal Succeeded: 2 pods succeeded",
        "delete pod digits-worker-1 (uid uid-of-digits-worker-1)",
    ]


def test_roles_beside_the_workers_do_not_hold_the_job_up() -> None:
    job = a_job().framework("Custom").role("server").begun()

    assert text(job, worker(0).succeeded(), a_pod(role="server").running()) == [
        "status: Succeeded (Succeeded), attempt 0, ready 0/2",
        "event: Normal Succeeded: 1 pod succeeded",
        "delete pod digits-server-0 (uid uid-of-digits-server-0)",
    ]


def test_a_worker_that_fails_fails_the_job_and_the_others_are_stopped() -> None:
    job, decision = decided(RUNNING, worker(0).running(), worker(1).failed(3, lines="ValueError: x", at=ago(1)))

    assert in_order(decision) == [
        "status: Failed (NonZeroExit), attempt 0, ready 0/2",
        (
            "event: Warning NonZeroExit: digits-worker-1 (rank 1) on node-1: "
            "container trainer ended with exit code 3: ValueError: x"
        ),
        "delete pod digits-worker-0 (uid uid-of-digits-worker-0)",
    ]
    assert decision.writes == (DeletePod("digits-worker-0", "uid-of-digits-worker-0", 10),)
    assert decision.status is not None
    failure = decision.status.last_failure
    assert failure is not None
    assert (failure.exit_code, failure.rank, failure.last_lines, failure.time) == (3, 1, ("ValueError: x",), ago(1))
    assert decision.status.running_time == job.status.running_time


def test_a_failure_is_told_even_where_all_others_succeeded() -> None:
    assert text(RUNNING, worker(0).succeeded(), worker(1).failed())[0].startswith("status: Failed")


def test_a_lost_peer_waits_for_its_cause() -> None:
    assert text(RUNNING, worker(0).running(), worker(1).failed(lines=LOST_PEER)) == [
        f"look again after {SETTLING.total_seconds():g} s"
    ]


@pytest.mark.parametrize("other", [worker(0).failed(3, at=ago(1)), worker(0).succeeded()], ids=["its cause", "none"])
def test_nobody_waits_where_nothing_more_can_come(other: PodBuilder) -> None:
    assert text(RUNNING, other, worker(1).failed(lines=LOST_PEER))[0].startswith("status: Failed")


def test_a_failure_before_all_ran_fails_the_job_too() -> None:
    status, _, *writes = text(BEGUN, worker(0), worker(1).failed())

    assert status == "status: Failed (NonZeroExit), attempt 0, ready 0/2"
    assert writes == ["delete pod digits-worker-0 (uid uid-of-digits-worker-0)"]


def test_a_pod_that_goes_missing_before_all_ran_is_simply_created_again() -> None:
    assert "create pod digits-worker-1" in text(BEGUN, worker(0).running())


def test_a_success_counts_even_after_its_pod_was_removed() -> None:
    both = (worker(0).running(), worker(1).running())
    one_done = seen(seen(BEGUN, *both), worker(0).succeeded(), both[1])

    assert decided(one_done, both[1])[1].writes == ()
    assert seen(one_done, both[1]).build().status.conditions == one_done.build().status.conditions


def test_a_removed_success_counts_when_the_next_pod_succeeds() -> None:
    both = (worker(0).running(), worker(1).running())
    one_done = seen(seen(BEGUN, *both), worker(0).succeeded(), both[1])
    removed = seen(one_done, both[1])

    assert text(removed, worker(1).succeeded())[:2] == [
        "status: Succeeded (Succeeded), attempt 0, ready 0/2",
        "event: Normal Succeeded: 2 pods succeeded",
    ]


def test_all_that_succeeded_may_be_removed_at_once() -> None:
    one_done = seen(BEGUN, worker(0).succeeded(), worker(1).running())
    both_done = one_done.status(
        one_done.build().status.model_copy(update={"roles": (RoleStatus(name="worker", replicas=2, succeeded=2),)})
    )

    assert text(both_done)[0] == "status: Succeeded (Succeeded), attempt 0, ready 0/2"


def test_a_removed_success_does_not_excuse_another_pod_that_is_gone() -> None:
    both = (worker(0).running(), worker(1).running())
    one_done = seen(seen(BEGUN, *both), worker(0).succeeded(), both[1])

    assert text(one_done)[0] == "status: Restarting (PodDeleted), attempt 1, ready 0/2"


def test_pods_that_succeed_and_are_removed_one_by_one_complete_the_job() -> None:
    job = a_job().replicas(3).begun()
    pods = [worker(0), worker(1), worker(2)]
    job = seen(job, *(pod.running() for pod in pods))
    for done in pods[:-1]:
        left = pods[pods.index(done) + 1 :]
        job = seen(job, done.succeeded(), *(pod.running() for pod in left))
        job = seen(job, *(pod.running() for pod in left))
        assert job.build().status.phase is Phase.RUNNING

    assert text(job, pods[-1].succeeded())[1] == "event: Normal Succeeded: 3 pods succeeded"


def test_a_success_of_another_role_counts_even_after_its_pod_was_removed() -> None:
    job = a_job().framework("Custom").role("server").begun()
    running = worker(0).running()
    server_done = seen(seen(job, running, a_pod(role="server").running()), running, a_pod(role="server").succeeded())

    assert decided(server_done, running)[1].writes == ()


def test_a_success_of_any_role_counts_however_often_the_operator_starts_anew() -> None:
    """Its pod was removed after the status had told of it; the next success is seen by another process."""
    job = a_job().framework("Custom").role("actor", 2).spec(successPolicy={"roles": ["actor"]}).begun()
    running = worker(0).running()
    actors = [a_pod(job.build(), index, role="actor") for index in range(2)]
    job = seen(job, running, *(actor.running() for actor in actors))
    job = seen(job, running, actors[0].succeeded(), actors[1].running())
    job = seen(job, running, actors[1].running())

    assert text(job, running, actors[1].succeeded())[0].startswith("status: Succeeded")


def test_what_is_filled_is_found_out_once_for_all_slots() -> None:
    """Else a look at a gang of thousands takes seconds, in which no other job is looked at."""
    built = a_job().replicas(2).begun().build()
    observed = observe(built, [worker(0).build()], None, None)

    assert observed.filled is observed.filled
    assert observed.current is observed.current


CLEANUP: dict[str, tuple[JobBuilder, str, list[str]]] = {
    "complete": (COMPLETE, "Running", ["delete pod digits-worker-0"]),
    "failed": (FAILED, "Running", ["delete pod digits-worker-0"]),
    "nothing is kept": (
        COMPLETE,
        "All",
        ["delete pod digits-worker-0", "delete pod digits-worker-1", "delete service digits-workers"],
    ),
    "all is kept": (COMPLETE, "None", []),
}


@pytest.mark.parametrize(("job", "policy", "deleted"), CLEANUP.values(), ids=CLEANUP.keys())
def test_a_finished_job_is_only_cleaned_up(job: JobBuilder, policy: str, deleted: list[str]) -> None:
    pods = (worker(0).running(), worker(1).succeeded(), a_pod(BEGUN.build(), 2).running().being_deleted())
    lines = text(job.spec(cleanupPolicy=policy), *pods)

    assert [line.split(" (uid")[0] for line in lines] == (deleted or ["nothing to do"])


AFTERWARDS: dict[str, tuple[PodBuilder, ...]] = {
    "its pods are deleted": (),
    "a pod fails": (worker(0).failed(), worker(1).succeeded()),
    "a pod is deleted": (worker(0).succeeded(), worker(1).succeeded().being_deleted()),
}


@pytest.mark.parametrize("pods", AFTERWARDS.values(), ids=AFTERWARDS.keys())
@pytest.mark.parametrize("job", [COMPLETE, FAILED], ids=["complete", "failed"])
def test_a_finished_job_stays_finished_when(job: JobBuilder, pods: tuple[PodBuilder, ...]) -> None:
    assert decided(job, *pods, service=False)[1] == NOTHING


def test_a_finished_job_stops_survivors_of_older_attempts() -> None:
    later = COMPLETE.status(COMPLETE.build().status.model_copy(update={"attempt": 1}))

    assert text(later, worker(0).running()) == ["delete pod digits-worker-0 (uid uid-of-digits-worker-0)"]
