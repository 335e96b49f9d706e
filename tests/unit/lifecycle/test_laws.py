"""Laws of ``decide`` that need no long history. Those of a job's whole life stand in ``test_job_life``."""

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtj.api.names import MAX_ATTEMPT
from dtj.api.reasons import Reason
from dtj.api.status import Phase
from dtj.lifecycle.children import NodeCondition, Pod
from dtj.lifecycle.decide import decide
from dtj.lifecycle.decision import Decision
from dtj.lifecycle.node_loss import LostNodes
from dtj.lifecycle.observe import observe
from dtj.lifecycle.obstacles import Obstacle
from tests.builders import NODE, NOW, JobBuilder, PodBuilder, a_job, a_pod, a_service
from tests.unit.lifecycle.cluster_model import Cluster
from tests.unit.lifecycle.laws import law_finished_is_final, law_status_can_be_written, law_status_says_one_thing
from tests.unit.lifecycle.operator_model import KilledError, Operator
from tests.unit.lifecycle.pods import any_pod, texts

ROUNDS_TO_QUIET = 3
"""A transition, the counts that follow from it, and nothing."""

jobs = st.builds(
    lambda replicas, policy, restarts, isolation: (
        a_job()
        .replicas(replicas)
        .spec(cleanupPolicy=policy, failurePolicy={"maxRestarts": restarts}, networkIsolation=isolation)
    ),
    st.integers(1, 3),
    st.sampled_from(["Running", "All", "None"]),
    st.integers(0, 1),
    st.sampled_from(["None", "Job"]),
)


def run_to_quiet(cluster: Cluster) -> None:
    operator = Operator(cluster)
    for _ in range(ROUNDS_TO_QUIET):
        operator.catch_up()
        operator.look()


def look_and_die(cluster: Cluster, calls: int) -> None:
    try:
        Operator(cluster).look(calls)
    except KilledError:
        return


def end_of(cluster: Cluster) -> tuple[object, ...]:
    """Everything that should not depend on whether somebody died on the way."""
    pods = {name: (pod["metadata"]["labels"], pod["spec"], pod["status"]) for name, pod in cluster.pods.items()}
    return cluster.status, pods, cluster.service is None, cluster.network_policy is None


@given(jobs, st.integers(0, 6))
def test_a_crash_between_any_two_calls_heals(job: JobBuilder, calls: int) -> None:
    """Whatever was left undone is done by the next look, and the job ends as if nothing had happened."""
    crashed, smooth = Cluster.with_job(job), Cluster.with_job(job)
    look_and_die(crashed, calls)
    for cluster in (crashed, smooth):
        run_to_quiet(cluster)
        cluster.kubelets_catch_up()
        run_to_quiet(cluster)
        for name in list(cluster.pods):
            cluster.end(name, 0)
        run_to_quiet(cluster)

    assert end_of(crashed) == end_of(smooth)
    assert crashed.status.phase is Phase.SUCCEEDED


@given(jobs, st.integers(0, 8), st.booleans())
def test_a_crash_in_the_middle_of_a_failure_heals(job: JobBuilder, calls: int, all_ran: bool) -> None:
    """The failure is counted once and the gang is whole, whichever calls had been made."""
    crashed, smooth = Cluster.with_job(job), Cluster.with_job(job)
    for cluster in (crashed, smooth):
        run_to_quiet(cluster)
        first, *others = cluster.pods
        for name in [first, *others] if all_ran else others:
            cluster.run(name)
        run_to_quiet(cluster)
        cluster.end(first, 3)
        if cluster is crashed:
            look_and_die(cluster, calls)
        run_to_quiet(cluster)

    assert end_of(crashed) == end_of(smooth)
    restarts = crashed.read_job().spec.failure_policy.max_restarts
    assert (crashed.status.restarts, crashed.status.attempt) == (restarts, restarts)
    assert (crashed.status.phase is Phase.FAILED) is (restarts == 0)


@pytest.mark.parametrize("restarts", [0, 1])
def test_the_settling_of_a_failure_ends(restarts: int) -> None:
    cluster = Cluster.with_job(a_job().replicas(2).spec(failurePolicy={"maxRestarts": restarts}))
    run_to_quiet(cluster)
    cluster.kubelets_catch_up()
    run_to_quiet(cluster)
    cluster.end("digits-worker-0", 1, "Connection reset by peer")

    waiting = Operator(cluster).look()
    assert waiting.status is None
    assert waiting.requeue_after is not None
    cluster.pass_time(waiting.requeue_after.total_seconds())

    assert Operator(cluster).look().status is not None


def seen_all_run(job: JobBuilder) -> JobBuilder:
    cluster = Cluster.with_job(job)
    run_to_quiet(cluster)
    cluster.kubelets_catch_up()
    run_to_quiet(cluster)
    return job.status(cluster.status)


RUNNING = seen_all_run(a_job().replicas(2))
IN_ANY_STATE = (
    a_job().replicas(2),
    a_job().replicas(2).begun(),
    a_job().replicas(2).begun(attempt=MAX_ATTEMPT).spec(startupDeadlineSeconds=5),
    a_job().replicas(2).begun().spec(startupDeadlineSeconds=5),
    RUNNING,
    RUNNING.spec(failurePolicy={"maxRestarts": 0}),
    RUNNING.spec(suspend=True),
)
SOME_NODES_LOST: tuple[LostNodes, ...] = ({}, {NODE: NodeCondition("Ready", "Unknown", last_transition_time=NOW)})


@given(st.sampled_from(IN_ANY_STATE), st.sampled_from(SOME_NODES_LOST), st.data())
def test_whatever_pods_say_the_status_can_be_written(builder: JobBuilder, lost: LostNodes, data: st.DataObject) -> None:
    job = builder.build()
    pods = data.draw(st.lists(any_pod(job), max_size=4, unique_by=lambda pod: pod.name))
    obstacle = data.draw(st.none() | texts.map(lambda text: Obstacle(Reason.QUOTA_EXCEEDED, text, 1)))
    decision = decide(job, observe(job, pods, None, obstacle, lost), NOW)

    if decision.status is not None:
        law_status_can_be_written(decision.status)
        law_status_says_one_thing(decision.status)
        told = builder.status(decision.status).build()
        again = decide(told, observe(told, pods, None, obstacle, lost), NOW)
        law_finished_is_final(decision.status, again)


@given(st.lists(any_pod(RUNNING.build()), max_size=4, unique_by=lambda pod: pod.name))
def test_nothing_is_done_for_jobs_of_others(pods: list[Pod]) -> None:
    for builder in (RUNNING.spec(managedBy="example.com/other"), RUNNING.being_deleted()):
        job = builder.build()
        assert decide(job, observe(job, pods, a_service(job), None), NOW) == Decision()


WORKER = a_pod(RUNNING.build())
HEALTHY = (WORKER, WORKER.unschedulable(), WORKER.waiting("ErrImagePull", "no"), WORKER.running(), WORKER.succeeded())


@given(st.sampled_from(HEALTHY), st.sampled_from(HEALTHY[:-1]), st.integers(1, 10**6))
def test_time_alone_changes_nothing(first: PodBuilder, second: PodBuilder, seconds: int) -> None:
    """No write in any quiet time: what a look decided stays decided however much later the next look comes."""
    builder = a_job().replicas(2).begun()
    job = builder.build()
    pods = [first.build(), replace(second, metadata=a_pod(job, 1).metadata).build()]
    observed = observe(job, pods, a_service(job), None)
    decided = decide(job, observed, NOW)
    assert decided.status is not None

    assert decide(builder.status(decided.status).build(), observed, NOW + timedelta(seconds=seconds)) == Decision()
