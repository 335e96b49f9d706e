"""A job's whole life under anything that may happen, in any order: kubelets, people, lost nodes, clocks, crashes of the
operator between any two of its calls, and views of the cluster that are late or out of order.

The laws that must hold meanwhile stand in ``laws``. How many steps are taken says the profile (``conftest``).
"""

import sys
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from dtj.api.reasons import Reason
from dtj.api.status import Phase
from dtj.lifecycle import status as status_of
from dtj.lifecycle.decision import Decision
from dtj.plan.validation import mistakes_in
from tests.builders import JobBuilder, a_job
from tests.unit.lifecycle.cluster_model import NODES, SAFE_NODE, Cluster, Raw
from tests.unit.lifecycle.laws import Laws
from tests.unit.lifecycle.operator_model import KilledError, Operator

MAX_CLOCK_ERROR = timedelta(hours=2)
LOOKS_UNTIL_WELL = 40
TIME_UNTIL_WELL = timedelta(minutes=45)
"""Two attempts, each after the longest backoff and a startup deadline, and time for a clock that was set back."""
ROUNDS_UNTIL_QUIET = 4
"""A transition, the counts that follow from it, and nothing."""
RETRY_AFTER_REFUSAL_SECONDS = 1
HISTORIES_PER_EXAMPLE = 4
STEPS_PER_EXAMPLE = 100
"""For each example that the profile gives other tests: 5,000 steps in the unit tier, 100,000 in the nightly run."""

EXIT_CODES = [1, 3, 134, 137, 143]
WAITING_REASONS = ["ContainerCreating", "ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"]
POD_ENDS = [("Evicted", "TerminationByKubelet"), ("NodeShutdown", ""), ("", ""), ("Preempted", "")]
DISRUPTIONS = ["PreemptionByScheduler", "EvictionByEvictionAPI", "DeletionByTaintManager"]


def template(image: str = "trainer:1", **pod: object) -> Raw:
    return {"spec": {"containers": [{"name": "trainer", "image": image}], **pod}}


TEMPLATES = [
    template(),
    template("trainer:2"),
    template(tolerations=[{"key": "node.kubernetes.io/unreachable", "operator": "Exists", "tolerationSeconds": 300}]),
    template(volumes=[{"name": "dtj-shm", "emptyDir": {}}]),  # a mistake that only the operator sees
]
RULES: list[list[Raw] | None] = [
    None,
    [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [3]}}],
    [{"action": "RestartJobAndIgnore", "onReasons": ["NonZeroExit", "OOMKilled"]}],
    [
        {"action": "RestartJob", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
        {"action": "RestartJobAndIgnore", "onExitCodes": {"operator": "NotIn", "values": [1, 137]}},
        {"action": "FailJob", "onReasons": ["PodDeleted"]},
    ],
]

which = st.integers(0, 5)
max_restarts = st.integers(0, 8)
rules = st.sampled_from(RULES)


def shapes() -> list[JobBuilder]:
    return [
        a_job(),
        a_job().replicas(2),
        a_job().replicas(3),
        a_job().replicas(2).role("master"),
        a_job().framework("Custom").replicas(2).role("actor"),
        a_job().framework("Custom").role("actor", 2).spec(successPolicy={"roles": ["actor"]}),
    ]


def the_job(shape: int, fields: dict[str, Any], restarts: int, failure_rules: list[Raw] | None) -> JobBuilder:
    policy: Raw = {"maxRestarts": restarts} | ({"rules": failure_rules} if failure_rules else {})
    given = {name: value for name, value in fields.items() if value is not None}
    return shapes()[shape].spec(failurePolicy=policy, **given)


jobs = st.builds(
    the_job,
    st.integers(0, len(shapes()) - 1),
    st.fixed_dictionaries(
        {
            "cleanupPolicy": st.sampled_from(["Running", "All", "None"]),
            "suspend": st.sampled_from([False, False, False, True]),
            "networkIsolation": st.sampled_from([None, "Job"]),
            "startupDeadlineSeconds": st.sampled_from([None, None, 30]),
            "activeDeadlineSeconds": st.sampled_from([None, None, 900]),
            "ttlSecondsAfterFinished": st.sampled_from([None, 0, 100]),
        }
    ),
    max_restarts,
    rules,
)


class Steps:
    """How many were taken in all histories."""

    histories = 0
    taken = 0


def any_pods(machine: "JobLife") -> bool:
    return bool(machine.cluster.pods)


def job_exists(machine: "JobLife") -> bool:
    return not machine.cluster.job_is_gone


class JobLife(RuleBasedStateMachine):
    """The cluster as it is, one operator that sees it more or less late, and the laws that watch both."""

    cluster: Cluster
    operator: Operator
    laws: Laws

    @initialize(job=jobs)
    def submitted(self, job: JobBuilder) -> None:
        self.submit(job)
        Steps.histories += 1

    def submit(self, job: JobBuilder) -> None:
        self.cluster = Cluster.with_job(job)
        self.laws = Laws(self.cluster)
        self.operator = Operator(self.cluster, self.laws)

    # The operator

    def look(self, calls: int | None = None, *, too_early: bool = False) -> Decision | None:
        """None: the operator died, and another one starts, which lists everything."""
        try:
            return self.operator.look(calls, too_early=too_early)
        except KilledError:
            self.operator = Operator(self.cluster, self.laws)
            return None

    def look_at_everything(self) -> Decision:
        self.operator.catch_up()
        decision = self.look()
        assert decision is not None
        if self.operator.obstacle is None and decision.requeue_after is None:
            self.laws.law_a_whole_look_leaves_order()
        return decision

    @precondition(job_exists)
    @rule()
    def the_operator_looks(self) -> None:
        self.look_at_everything()

    @precondition(job_exists)
    @rule()
    def the_operator_looks_twice(self) -> None:
        self.look_at_everything()
        if not self.cluster.job_is_gone:
            self.look_at_everything()

    @precondition(job_exists)
    @rule(calls=st.integers(0, 6))
    def the_operator_looks_and_is_killed(self, calls: int) -> None:
        self.operator.catch_up()
        self.look(calls)

    @precondition(job_exists)
    @rule()
    def the_operator_is_killed_and_looks(self) -> None:
        self.operator = Operator(self.cluster, self.laws)
        self.look_at_everything()

    @precondition(job_exists)
    @rule(heard_of=st.sets(which, max_size=3), job=st.booleans(), nodes=st.booleans(), too_early=st.booleans())
    def the_operator_looks_with_late_watches(self, heard_of: set[int], job: bool, nodes: bool, too_early: bool) -> None:
        """Some pods' news have come, in whatever order, others not; so for the job and the nodes."""
        known = sorted(self.operator.pods.keys() | self.cluster.pods.keys())
        self.operator.hear_of([known[index % len(known)] for index in heard_of if known])
        if job:
            self.operator.job = self.cluster.job
        if nodes:
            self.operator.lost_nodes = self.cluster.lost_nodes
        self.look(too_early=too_early)

    @precondition(job_exists)
    @rule(age=st.integers(0, 5), catches_up=st.booleans(), unheard_of=st.sets(which, max_size=3))
    def another_operator_takes_over(self, age: int, catches_up: bool, unheard_of: set[int]) -> None:
        """It stood by with caches of its own: the job as it was some versions ago, pods as they are or were, and some
        that its watch has not told of.
        """
        late = self.operator.pods
        self.operator = Operator(self.cluster, self.laws)
        self.operator.job = self.cluster.versions[max(0, len(self.cluster.versions) - 1 - age)]
        if not catches_up:
            self.operator.pods = late
        for name in [name for number, name in enumerate(sorted(self.operator.pods)) if number in unheard_of]:
            del self.operator.pods[name]
        self.look()

    # Schedulers and kubelets

    def pod(self, index: int) -> str:
        """Mostly one of the current attempt."""
        names = sorted(self.cluster.pods_of(self.cluster.status.attempt)) or sorted(self.cluster.pods)
        return names[index % len(names)]

    @precondition(any_pods)
    @rule(index=which, node=st.sampled_from(NODES))
    def a_pod_is_scheduled(self, index: int, node: str) -> None:
        self.cluster.schedule(self.pod(index), node)

    @precondition(any_pods)
    @rule(index=which, node=st.sampled_from(NODES))
    def a_pod_runs(self, index: int, node: str) -> None:
        self.cluster.run(self.pod(index), node)

    @precondition(any_pods)
    @rule(node=st.sampled_from(NODES))
    def all_pods_run(self, node: str) -> None:
        for name in self.cluster.pods_of(self.cluster.status.attempt):
            self.cluster.run(name, node)

    @precondition(any_pods)
    @rule(node=st.sampled_from(NODES))
    def all_pods_run_and_the_operator_sees_it(self, node: str) -> None:
        self.all_pods_run(node)
        self.look_at_everything()

    @precondition(any_pods)
    @rule(index=which)
    def a_pod_succeeds(self, index: int) -> None:
        self.cluster.end(self.pod(index), 0)

    @precondition(any_pods)
    @rule(index=which, exit_code=st.sampled_from(EXIT_CODES), message=st.sampled_from(["", "boom", "Connection reset"]))
    def a_pod_fails(self, index: int, exit_code: int, message: str) -> None:
        self.cluster.end(self.pod(index), exit_code, message)

    @precondition(any_pods)
    @rule(index=which)
    def a_pod_runs_out_of_memory(self, index: int) -> None:
        self.cluster.end(self.pod(index), 137, reason="OOMKilled", signal=9)

    @precondition(any_pods)
    @rule(first=which, seconds=st.sampled_from([0, 1, 5]))
    def a_gang_falls(self, first: int, seconds: int) -> None:
        """One fails, and the others lose their peer."""
        self.cluster.end(self.pod(first), 1, "ValueError: loss is NaN")
        self.cluster.pass_time(seconds)
        for name in self.cluster.pods_of(self.cluster.status.attempt):
            self.cluster.end(name, 1, "Connection closed by peer")

    @precondition(any_pods)
    @rule(index=which, how=st.sampled_from(POD_ENDS))
    def a_pod_is_given_up(self, index: int, how: tuple[str, str]) -> None:
        self.cluster.give_up(self.pod(index), *how)

    @precondition(any_pods)
    @rule(index=which, reason=st.sampled_from(DISRUPTIONS))
    def a_pod_is_disrupted(self, index: int, reason: str) -> None:
        self.cluster.disrupt(self.pod(index), reason)

    @precondition(any_pods)
    @rule(index=which, reason=st.sampled_from(WAITING_REASONS))
    def a_pod_waits(self, index: int, reason: str) -> None:
        self.cluster.waits(self.pod(index), reason)

    @precondition(any_pods)
    @rule(index=which, reason=st.sampled_from(["Unschedulable", "SchedulingGated"]))
    def a_pod_cannot_be_scheduled(self, index: int, reason: str) -> None:
        self.cluster.cannot_be_scheduled(self.pod(index), reason)

    @precondition(any_pods)
    @rule()
    def deleted_pods_go(self) -> None:
        self.cluster.deleted_pods_go()

    @precondition(any_pods)
    @rule(index=which)
    def the_node_of_a_pod_is_lost(self, index: int) -> None:
        node = self.cluster.pods[self.pod(index)]["spec"].get("nodeName", SAFE_NODE)
        if node != SAFE_NODE:
            self.cluster.lose_node(node)

    @precondition(lambda self: self.cluster.lost_nodes)
    @rule(index=which)
    def a_node_is_heard_of_again(self, index: int) -> None:
        lost = sorted(self.cluster.lost_nodes)
        self.cluster.hear_of_node(lost[index % len(lost)])

    @precondition(lambda self: self.cluster.lost_nodes)
    @rule()
    def the_taint_manager_deletes_pods(self) -> None:
        self.cluster.taint_manager_deletes_pods()

    # People

    @precondition(any_pods)
    @rule(index=which, grace=st.sampled_from([0, 30]))
    def somebody_deletes_a_pod(self, index: int, grace: int) -> None:
        self.cluster.somebody_deletes(self.pod(index), grace)

    @precondition(any_pods)
    @rule(index=which)
    def a_pod_vanishes(self, index: int) -> None:
        self.cluster.vanish(self.pod(index))

    @rule()
    def somebody_deletes_the_service(self) -> None:
        self.cluster.service = None

    @rule()
    def somebody_deletes_the_network_policy(self) -> None:
        self.cluster.network_policy = None

    @precondition(job_exists)
    @rule(suspend=st.booleans())
    def suspend_or_resume(self, suspend: bool) -> None:
        self.cluster.edit(suspend=suspend)

    @precondition(lambda self: job_exists(self) and self.cluster.job["spec"].get("suspend"))
    @rule(index=st.integers(0, len(TEMPLATES) - 1), replicas=st.integers(1, 3), resume=st.booleans())
    def change_what_runs_while_suspended(self, index: int, replicas: int, resume: bool) -> None:
        self.cluster.edit(template=TEMPLATES[index], replicas=replicas, suspend=not resume)

    @precondition(job_exists)
    @rule(index=st.integers(0, len(TEMPLATES) - 1), replicas=st.integers(1, 3))
    def suspend_change_and_resume_at_once(self, index: int, replicas: int) -> None:
        self.cluster.edit(suspend=True)
        self.cluster.edit(template=TEMPLATES[index], replicas=replicas, suspend=False)

    @precondition(job_exists)
    @rule(restarts=max_restarts, failure_rules=rules)
    def set_failure_policy(self, restarts: int, failure_rules: list[Raw] | None) -> None:
        rules_given = {"rules": failure_rules} if failure_rules else {}
        self.cluster.edit(failurePolicy={"maxRestarts": restarts, **rules_given})

    @precondition(job_exists)
    @rule(
        startup=st.sampled_from([None, 5, 60]),
        active=st.sampled_from([None, 60, 2000]),
        ttl=st.sampled_from([None, 0, 60]),
    )
    def set_times(self, startup: int | None, active: int | None, ttl: int | None) -> None:
        self.cluster.edit(startupDeadlineSeconds=startup, activeDeadlineSeconds=active, ttlSecondsAfterFinished=ttl)

    @precondition(lambda self: self.cluster.job_is_gone or status_of.is_finished(self.cluster.status))
    @rule(job=jobs)
    def another_job_is_submitted(self, job: JobBuilder) -> None:
        self.submit(job)

    # The API server and time

    @rule(quota=st.sampled_from([None, 0, 1, 2]))
    def set_quota(self, quota: int | None) -> None:
        self.cluster.quota = quota

    @rule(refused=st.booleans())
    def refuse_templates(self, refused: bool) -> None:
        self.cluster.template_refused = refused

    @rule(seconds=st.sampled_from([0.25, 1, 3, 11, 60, 700, 10_000]))
    def time_passes(self, seconds: float) -> None:
        self.cluster.pass_time(seconds)

    @rule(seconds=st.sampled_from([-3600, -60, 60, 3600]))
    def the_operators_clock_is_set(self, seconds: int) -> None:
        if abs(self.cluster.clock_error + timedelta(seconds=seconds)) <= MAX_CLOCK_ERROR:
            self.cluster.step_clock(seconds)

    # What must come true in the end

    @precondition(job_exists)
    @rule()
    def all_goes_well(self) -> None:
        """Once nothing bad happens any more, the job runs or ends, in a bounded time, and then it is quiet."""
        self.cluster.quota = None
        self.somebody_mends_the_template()
        self.look_until(self.is_well)
        if not self.cluster.job_is_gone and self.cluster.status.phase is Phase.RUNNING:
            self.is_quiet()

    def somebody_mends_the_template(self) -> None:
        """What the API server refused once is not tried again until the spec changes."""
        remembered = self.operator.obstacle
        if self.cluster.template_refused or (remembered is not None and remembered.until_spec_changes):
            self.cluster.template_refused = False
            self.cluster.edit(template=template(f"mended:{self.cluster.time.timestamp():.2f}"), suspend=True)
        self.cluster.edit(suspend=False)

    @precondition(job_exists)
    @rule()
    def it_is_suspended(self) -> None:
        self.cluster.edit(suspend=True)
        self.look_until(self.is_at_rest)

    def look_until(self, there: Callable[[], bool]) -> None:
        began = self.cluster.time
        for _ in range(LOOKS_UNTIL_WELL):
            changed = self.cluster.kubelets_catch_up()
            decision = self.look_at_everything()
            assert self.cluster.time - began <= TIME_UNTIL_WELL
            if there():
                return
            if self.operator.obstacle is not None:
                self.cluster.pass_time(RETRY_AFTER_REFUSAL_SECONDS)
            elif not self.operator.wrote and not changed:
                assert decision.requeue_after is not None, f"nobody will look again: {self.cluster.status}"
                self.cluster.pass_time(decision.requeue_after.total_seconds())
        raise AssertionError(f"not there after {LOOKS_UNTIL_WELL} looks: {self.cluster.status}")

    def is_well(self) -> bool:
        if self.cluster.job_is_gone:
            return True
        job = self.cluster.read_job()
        if mistakes_in(job):
            return job.status.reason == Reason.INVALID_SPEC or status_of.is_finished(job.status)
        if job.status.phase is Phase.RUNNING:
            return self.laws.all_is_as_it_should_be(job, self.cluster.operators_clock)
        return status_of.is_finished(job.status)

    def is_at_rest(self) -> bool:
        return self.cluster.job_is_gone or self.cluster.status.phase in {
            Phase.SUSPENDED,
            Phase.SUCCEEDED,
            Phase.FAILED,
        }

    def is_quiet(self) -> None:
        for _ in range(ROUNDS_UNTIL_QUIET):
            self.look_at_everything()
        if self.cluster.job["spec"].get("activeDeadlineSeconds") is not None:
            return
        for _ in range(3):
            self.cluster.pass_time(20)
            decision = self.look_at_everything()
            assert (decision.status, decision.writes, decision.events) == (None, (), ())

    @invariant()
    def a_step_was_taken(self) -> None:
        Steps.taken += 1
        self.laws.law_one_active_pod_per_slot_of_one_attempt()
        self.laws.law_final_stays_final()


@pytest.mark.timeout(7_200)
def test_the_life_of_a_job(capsys: pytest.CaptureFixture[str]) -> None:
    profile = settings()
    run_state_machine_as_test(
        JobLife, settings=settings(max_examples=HISTORIES_PER_EXAMPLE * profile.max_examples, stateful_step_count=50)
    )
    with capsys.disabled():
        sys.stdout.write(f"\n{Steps.taken} steps in {Steps.histories} lives of a job\n")

    assert Steps.taken >= STEPS_PER_EXAMPLE * profile.max_examples
