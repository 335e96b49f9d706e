"""The laws of ``decide``, under anything that may happen to a job's pods and to the operator itself."""

from collections import Counter
from dataclasses import replace
from datetime import timedelta

import jsonschema
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from dtj.api import crd, names
from dtj.api.conditions import FINAL, ConditionType
from dtj.api.reasons import Reason
from dtj.api.status import JobStatus, Phase
from dtj.lifecycle import status as status_of
from dtj.lifecycle.children import Pod
from dtj.lifecycle.decide import decide
from dtj.lifecycle.decision import CreatePod, CreateService, Decision, DeletePod, DeleteService
from dtj.lifecycle.observe import Bucket, observe
from dtj.lifecycle.obstacles import Obstacle
from dtj.plan.topology import topology_of
from tests.builders import NOW, JobBuilder, PodBuilder, a_job, a_pod, a_service
from tests.unit.lifecycle.cluster_model import Cluster
from tests.unit.lifecycle.pods import any_pod, texts

SCHEMA = jsonschema.Draft202012Validator(crd.structural_schema(JobStatus, defaults=False))
ROUNDS_TO_QUIET = 3
"""A transition, the counts that follow from it, and nothing."""

PHASE_OF = {
    ConditionType.RUNNING: Phase.RUNNING,
    ConditionType.COMPLETE: Phase.SUCCEEDED,
    ConditionType.FAILED: Phase.FAILED,
}

jobs = st.builds(
    lambda replicas, policy: a_job().replicas(replicas).spec(cleanupPolicy=policy),
    st.integers(1, 3),
    st.sampled_from(["Running", "All", "None"]),
)


def check_status(status: JobStatus) -> None:
    """It can be written, reads back as it was, and says one thing."""
    wire = status.to_wire()
    SCHEMA.validate(wire)
    assert JobStatus.model_validate(wire) == status
    holding = [kind for kind in PHASE_OF if status_of.has_condition(status, kind)]
    assert [PHASE_OF[kind] for kind in holding] == ([status.phase] if status.phase in PHASE_OF.values() else [])
    assert (status.completion_time is not None) == status_of.is_finished(status)
    assert (status.last_failure is not None) == (status.phase is Phase.FAILED)


def check_writes(cluster: Cluster, decision: Decision) -> None:
    """At most one pod per slot, only where there is none; deletions name what is there and is not on its way out."""
    created = [write.manifest["metadata"]["name"] for write in decision.writes if isinstance(write, CreatePod)]
    deleted = [write.name for write in decision.writes if isinstance(write, DeletePod)]
    job = cluster.read_job()
    known = {
        names.pod_name(job.metadata.name, slot.role, slot.index, job.status.attempt)
        for slot in topology_of(job.spec).slots
    }
    assert not [name for name, count in Counter(created + deleted).items() if count > 1]
    assert set(created) <= known - cluster.pods.keys()
    assert set(deleted) <= {name for name, pod in cluster.pods.items() if "deletionTimestamp" not in pod["metadata"]}
    if any(isinstance(write, CreateService) for write in decision.writes):
        assert cluster.service is None
    if any(isinstance(write, DeleteService) for write in decision.writes):
        assert cluster.service is not None


def check_final(before: JobStatus, decision: Decision) -> None:
    if status_of.is_finished(before):
        assert decision.status is None
        assert decision.events == ()
        assert decision.requeue_after is None
        assert all(isinstance(write, DeletePod | DeleteService) for write in decision.writes)


class JobLife(RuleBasedStateMachine):
    """Kubelets, users and crashes in any order; the operator looks now and then."""

    cluster: Cluster
    final: frozenset[ConditionType] = frozenset()

    @initialize(job=jobs)
    def begin(self, job: JobBuilder) -> None:
        self.cluster = Cluster.with_job(job)

    @rule()
    def the_operator_looks(self) -> None:
        self.look()

    @rule(calls=st.integers(0, 3))
    def the_operator_looks_and_is_killed(self, calls: int) -> None:
        self.look(calls)

    def look(self, calls: int | None = None) -> Decision:
        decision = self.cluster.decide()
        assert decision == self.cluster.decide()
        check_writes(self.cluster, decision)
        check_final(self.cluster.status, decision)
        if decision.status is not None:
            check_status(decision.status)
        self.cluster.carry_out(decision, calls)
        return decision

    @rule()
    def the_operator_looks_until_it_is_quiet(self) -> None:
        self.cluster.obstacle = None
        for _ in range(ROUNDS_TO_QUIET):
            self.look()
        decision = self.look()
        assert (decision.status, decision.writes, decision.events) == (None, (), ())
        if not status_of.is_finished(self.cluster.status) and decision.requeue_after is None:
            assert len(self.cluster.pods) + self.removed_successes() == self.cluster.job["spec"]["replicas"]
            assert self.cluster.service is not None

    def removed_successes(self) -> int:
        (workers,) = self.cluster.status.roles
        return workers.succeeded - self.cluster.observed().count(Bucket.SUCCEEDED)

    def some_pod(self, data: st.DataObject) -> str:
        return data.draw(st.sampled_from(sorted(self.cluster.pods)))

    @precondition(lambda self: self.cluster.pods)
    @rule(data=st.data())
    def a_pod_runs(self, data: st.DataObject) -> None:
        self.cluster.run(self.some_pod(data))

    @precondition(lambda self: self.cluster.pods)
    @rule()
    def all_pods_run(self) -> None:
        for name in self.cluster.pods:
            self.cluster.run(name)

    @precondition(lambda self: self.cluster.pods)
    @rule(data=st.data())
    def a_pod_succeeds(self, data: st.DataObject) -> None:
        self.cluster.end(self.some_pod(data), 0)

    @precondition(lambda self: self.cluster.pods)
    @rule(data=st.data(), exit_code=st.sampled_from([1, 3, 134, 137, 143]), message=texts)
    def a_pod_fails(self, data: st.DataObject, exit_code: int, message: str) -> None:
        self.cluster.end(self.some_pod(data), exit_code, message)

    @precondition(lambda self: self.cluster.pods)
    @rule(data=st.data(), message=texts)
    def a_pod_waits_for_its_image(self, data: st.DataObject, message: str) -> None:
        waiting = {"waiting": {"reason": "ErrImagePull", "message": message}}
        name = self.some_pod(data)
        if "running" not in self.cluster.pods[name]["status"].get("containerStatuses", [{"state": {}}])[0]["state"]:
            self.cluster.container(name, "Pending", waiting)

    @precondition(lambda self: self.cluster.pods)
    @rule(data=st.data())
    def somebody_deletes_a_pod(self, data: st.DataObject) -> None:
        self.cluster.delete(self.some_pod(data))

    @precondition(lambda self: any("deletionTimestamp" in pod["metadata"] for pod in self.cluster.pods.values()))
    @rule()
    def deleted_pods_are_gone(self) -> None:
        for name, pod in list(self.cluster.pods.items()):
            if "deletionTimestamp" in pod["metadata"]:
                self.cluster.vanish(name)

    @precondition(lambda self: self.cluster.pods)
    @rule(data=st.data())
    def a_pod_is_lost_without_a_trace(self, data: st.DataObject) -> None:
        self.cluster.vanish(self.some_pod(data))

    @rule()
    def somebody_deletes_the_service(self) -> None:
        self.cluster.service = None

    @rule(message=texts, until_spec_changes=st.booleans())
    def the_api_server_refuses(self, message: str, until_spec_changes: bool) -> None:
        self.cluster.obstacle = Obstacle(Reason.INVALID_TEMPLATE, message, 1, until_spec_changes=until_spec_changes)

    @rule(seconds=st.sampled_from([0.25, 1, 3, 600]))
    def time_passes(self, seconds: float) -> None:
        self.cluster.pass_time(seconds)

    @invariant()
    def finished_is_final(self) -> None:
        status = self.cluster.status
        now_final = frozenset(kind for kind in FINAL if status_of.has_condition(status, kind))
        assert len(now_final) <= 1
        assert not self.final or now_final == self.final
        self.final = now_final


TestJobLife = JobLife.TestCase
TestJobLife.settings = settings(max_examples=60, stateful_step_count=25)


def run_to_quiet(cluster: Cluster) -> None:
    for _ in range(ROUNDS_TO_QUIET):
        cluster.carry_out(cluster.decide())


@given(jobs, st.integers(0, 5))
def test_a_crash_between_any_two_calls_heals(job: JobBuilder, calls: int) -> None:
    """Whatever was left undone is done by the next look, and the job ends as if nothing had happened."""
    crashed, smooth = Cluster.with_job(job), Cluster.with_job(job)
    crashed.carry_out(crashed.decide(), calls)
    for cluster in (crashed, smooth):
        for happening in (cluster.run, lambda name, cluster=cluster: cluster.end(name, 0)):
            run_to_quiet(cluster)
            for name in cluster.pods:
                happening(name)
        run_to_quiet(cluster)

    assert crashed.status == smooth.status
    assert crashed.status.phase is Phase.SUCCEEDED
    assert crashed.pods.keys() == smooth.pods.keys()


@given(jobs, st.integers(0, 5))
def test_a_crash_in_the_middle_of_a_failure_heals(job: JobBuilder, calls: int) -> None:
    crashed, smooth = Cluster.with_job(job), Cluster.with_job(job)
    for cluster, limit in ((crashed, calls), (smooth, None)):
        run_to_quiet(cluster)
        first, *others = cluster.pods
        cluster.end(first, 3)
        for name in others:
            cluster.run(name)
        cluster.carry_out(cluster.decide(), limit)
        run_to_quiet(cluster)

    assert crashed.status == smooth.status
    assert crashed.status.phase is Phase.FAILED
    assert crashed.pods == smooth.pods


def test_the_settling_of_a_failure_ends() -> None:
    cluster = Cluster.with_job(a_job().replicas(2))
    run_to_quiet(cluster)
    for name in cluster.pods:
        cluster.run(name)
    run_to_quiet(cluster)
    cluster.end("digits-worker-0", 1, "Connection reset by peer")

    waiting = cluster.decide()
    assert waiting.status is None
    assert waiting.requeue_after is not None
    cluster.now += waiting.requeue_after

    assert cluster.decide().status is not None


def seen_all_run(job: JobBuilder) -> JobBuilder:
    cluster = Cluster.with_job(job)
    run_to_quiet(cluster)
    for name in cluster.pods:
        cluster.run(name)
    run_to_quiet(cluster)
    return job.status(cluster.status)


RUNNING = seen_all_run(a_job().replicas(2))


@given(st.sampled_from([a_job().replicas(2), a_job().replicas(2).begun(), RUNNING]), st.data())
def test_whatever_pods_say_the_status_can_be_written(builder: JobBuilder, data: st.DataObject) -> None:
    job = builder.build()
    pods = data.draw(st.lists(any_pod(job), max_size=4, unique_by=lambda pod: pod.name))
    obstacle = data.draw(st.none() | texts.map(lambda text: Obstacle(Reason.QUOTA_EXCEEDED, text, 1)))
    decision = decide(job, observe(job, pods, None, obstacle), NOW)

    if decision.status is not None:
        check_status(decision.status)
        again = decide(builder.status(decision.status).build(), observe(job, pods, None, obstacle), NOW)
        check_final(decision.status, again)


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
