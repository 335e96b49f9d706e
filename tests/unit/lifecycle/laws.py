"""What must be true of a job's life whatever happens: each method that begins with ``law_`` is one law.

The laws keep their own account of what happened, from the cluster's truth, and compare it with what the operator says.
"""

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import jsonschema

from dtj.api import crd, environment, labels, names
from dtj.api.conditions import ConditionType
from dtj.api.job import DistributedTrainingJob
from dtj.api.reasons import Reason
from dtj.api.spec import CleanupPolicy, ExitCodeOperator, FailureRule, JobSpec, NetworkIsolation, RuleAction
from dtj.api.status import FailureClass, JobStatus, LastFailure, Phase
from dtj.lifecycle import status as status_of
from dtj.lifecycle.decision import (
    CreatePod,
    CreateService,
    Decision,
    DeleteJob,
    DeletePod,
    DeleteService,
    Write,
)
from dtj.plan.topology import Slot, topology_of, trainer_container
from tests.unit.lifecycle.cluster_model import (
    Cluster,
    Raw,
    attempt_of,
    has_failed,
    has_succeeded,
    is_terminating,
    slot_of,
)
from tests.unit.lifecycle.operator_model import Operator

SCHEMA = jsonschema.Draft202012Validator(crd.structural_schema(JobStatus, defaults=False))
PROGRESS = timedelta(minutes=10)
SHORT_LIFE = timedelta(minutes=1)
MAX_BACKOFF = 600
KEPT_FAILED_PODS = 3
SURVIVOR_GRACE_SECONDS = 10
CLASSES_OF_THE_PROGRAM = {FailureClass.APPLICATION, FailureClass.OUT_OF_MEMORY, FailureClass.CONFIGURATION}
NODE_LOSS_SECONDS = 30

CONDITION_OF_PHASE = {
    Phase.RUNNING: ConditionType.RUNNING,
    Phase.SUSPENDED: ConditionType.SUSPENDED,
    Phase.SUCCEEDED: ConditionType.COMPLETE,
    Phase.FAILED: ConditionType.FAILED,
}
FINAL_PHASES = {Phase.SUCCEEDED, Phase.FAILED}


def law_status_can_be_written(status: JobStatus) -> None:
    """It fits the schema of the CRD and reads back as it was."""
    wire = status.to_wire()
    SCHEMA.validate(wire)
    assert JobStatus.model_validate(wire) == status


def law_status_says_one_thing(status: JobStatus) -> None:
    """The phase and the conditions agree; a failure is on record where one is counted."""
    true = {kind for kind in CONDITION_OF_PHASE.values() if status.has(kind)}
    expected = CONDITION_OF_PHASE.get(status.phase) if status.phase else None
    if status.reason == Reason.INVALID_SPEC:  # a job that can't be resumed is as suspended as before
        true -= {ConditionType.SUSPENDED}
    assert true == ({expected} if expected else set())
    assert (status.completion_time is not None) == (status.phase in FINAL_PHASES)
    if status.restarts or status.disruptions:
        assert status.last_failure is not None
    if status.phase in FINAL_PHASES or status.has(ConditionType.RUNNING):
        assert status.start_time is not None


def law_finished_is_final(before: JobStatus, decision: Decision) -> None:
    if status_of.is_finished(before):
        assert decision.status is None
        assert decision.events == ()
        assert all(isinstance(write, DeletePod | DeleteService | DeleteJob) for write in decision.writes)


def law_no_object_is_written_twice(decision: Decision) -> None:
    created = [write.manifest["metadata"]["name"] for write in decision.writes if isinstance(write, CreatePod)]
    deleted = [write.name for write in decision.writes if isinstance(write, DeletePod)]
    for written in (created, deleted):
        assert not [name for name, count in Counter(written).items() if count > 1]


def law_events_tell_of_changes(decision: Decision) -> None:
    """One event per transition, so none without a status that remembers that it was told."""
    assert len(decision.events) <= 2
    if decision.events:
        assert decision.status is not None


def law_nobody_spins(decision: Decision) -> None:
    """At once again only after something has changed."""
    assert decision.requeue_after is None or decision.requeue_after > timedelta(0) or decision.status is not None


@dataclass
class Laws:
    """The watcher of one job's life, with the books it keeps."""

    cluster: Cluster
    uncounted: int = 0
    """Attempts that began for no failure."""
    gang: Raw | None = None
    """What the pods of the committed attempt are made from."""
    clock_steps_at_begin: int = 0
    seen_pods: dict[str, Raw] = field(default_factory=dict)
    seen_lost: frozenset[str] = frozenset()
    final: JobStatus | None = None

    # What the operator tells

    def decided(self, operator: Operator, job: DistributedTrainingJob, decision: Decision) -> None:
        self.seen_pods, self.seen_lost = operator.known_pods(job.status), frozenset(operator.lost_nodes)
        law_finished_is_final(job.status, decision)
        law_no_object_is_written_twice(decision)
        law_events_tell_of_changes(decision)
        law_nobody_spins(decision)
        self.law_writes_name_what_is_seen(decision)
        if decision.status is not None:
            law_status_can_be_written(decision.status)
            law_status_says_one_thing(decision.status)

    def status_is_written(self, old: DistributedTrainingJob, new: JobStatus, now: datetime) -> None:
        assert not status_of.is_finished(old.status), "finished is final"
        self.law_attempts_go_forward(old.status, new)
        self.law_times_are_set_once(old.status, new)
        if new.attempt == old.status.attempt:
            self.law_counters_change_with_attempts(old.status, new)
        elif (new.restarts, new.disruptions) == (old.status.restarts, old.status.disruptions):
            self.law_uncounted_attempts_have_an_excuse(old, new)
        else:
            self.law_failures_are_counted_by_the_policy(old, new, now)
        if new.phase in FINAL_PHASES:
            self.law_ends_are_deserved(old, new, now)
        self._keep_books(old, new, now)
        self.law_every_attempt_is_accounted_for(new)

    def is_called(self, job: DistributedTrainingJob, write: Write, now: datetime) -> None:
        match write:
            case CreatePod(manifest):
                if manifest["metadata"]["name"] not in self.cluster.pods:
                    self.law_pods_are_of_the_committed_attempt(manifest)
                    self.law_no_pods_while_suspended_or_finished(job)
                    self.law_pods_wait_for_the_backoff(now)
                    self.law_an_attempt_has_one_template(manifest)
                    self.law_no_pod_runs_unprotected(job)
            case DeletePod(name, uid):
                found = self.cluster.pods.get(name)
                if found is not None and found["metadata"]["uid"] == uid and not is_terminating(found):
                    self.law_live_attempts_are_not_touched(found)
            case DeleteService():
                self.law_services_go_with_the_job()
            case DeleteJob():
                self.law_jobs_go_by_their_ttl(write, now)
            case CreateService():
                assert not status_of.is_finished(job.status)

    def after_call(self) -> None:
        self.law_one_active_pod_per_slot_of_one_attempt()

    # What is written to the status

    def law_attempts_go_forward(self, old: JobStatus, new: JobStatus) -> None:
        assert new.attempt in {old.attempt, old.attempt + 1}, "an attempt never goes back and none is left out"
        if old.start_time is None:
            assert new.attempt == old.attempt, "the first attempt has the number 0"

    def law_times_are_set_once(self, old: JobStatus, new: JobStatus) -> None:
        for before, after in ((old.start_time, new.start_time), (old.running_time, new.running_time)):
            assert before is None or after == before
        if new.attempt == old.attempt and old.attempt_time is not None and old.start_time is not None:
            assert (new.attempt_time, new.backoff_seconds) == (old.attempt_time, old.backoff_seconds)

    def law_counters_change_with_attempts(self, old: JobStatus, new: JobStatus) -> None:
        assert (new.restarts, new.disruptions) == (old.restarts, old.disruptions)
        if new.phase is not Phase.FAILED:
            assert new.restarts_since_progress == old.restarts_since_progress

    def law_uncounted_attempts_have_an_excuse(self, old: DistributedTrainingJob, new: JobStatus) -> None:
        """Nobody ends a healthy attempt: it was suspended, its gang changed, or a part of it was not let in."""
        resumed = old.status.has(ConditionType.SUSPENDED)
        changed = gang_of(old.spec) != self.gang
        withdrawn = old.status.reason == Reason.INVALID_SPEC
        refused = old.status.attempt in self.cluster.refused
        assert resumed or changed or withdrawn or refused
        assert new.restarts_since_progress == old.status.restarts_since_progress
        if not (resumed or changed or withdrawn):
            assert new.backoff_seconds >= 10

    def law_failures_are_counted_by_the_policy(
        self, old: DistributedTrainingJob, new: JobStatus, now: datetime
    ) -> None:
        before, failure = old.status, new.last_failure
        assert failure is not None
        self.law_failures_happened(old, failure)
        in_a_row = 0 if has_progressed(before, failure, now) else before.restarts_since_progress
        action = self._expected_action(old.spec, failure, in_a_row)
        assert failure.action is action, f"expected {action}"
        assert action is not RuleAction.FAIL_JOB
        counted = action is RuleAction.RESTART_JOB
        disrupted = failure.failure_class is FailureClass.DISRUPTION and not counted
        assert new.restarts == before.restarts + (not disrupted)
        assert new.disruptions == before.disruptions + disrupted
        assert new.restarts_since_progress == in_a_row + counted
        assert new.restarts_since_progress <= max(old.spec.failure_policy.max_restarts, before.restarts_since_progress)
        self.law_backoff(before, new, failure, now, in_a_row if counted else None)

    def law_backoff(
        self, before: JobStatus, new: JobStatus, failure: LastFailure, now: datetime, in_a_row: int | None
    ) -> None:
        assert 0 <= new.backoff_seconds <= MAX_BACKOFF
        if failure.failure_class is FailureClass.STARTUP:
            assert new.backoff_seconds >= 10
        elif in_a_row is not None:
            assert new.backoff_seconds == (0 if in_a_row == 0 else min(10 * 2 ** (in_a_row - 1), MAX_BACKOFF))
        elif before.attempt == 0:
            assert new.backoff_seconds == 0
        elif before.attempt_time is not None and timedelta(0) <= now - before.attempt_time < SHORT_LIFE:
            assert new.backoff_seconds >= 10, "disruptions in quick succession are slowed down"

    def law_failures_happened(self, old: DistributedTrainingJob, failure: LastFailure) -> None:
        """A failure on record is of the attempt that ended, and of a pod that was truly hurt."""
        status = old.status
        assert failure.attempt == status.attempt
        if failure.failure_class is FailureClass.STARTUP:
            limit = old.spec.startup_deadline_seconds
            assert limit is not None
            assert not status.has(ConditionType.RUNNING)
            working = sum(1 for pod in self.seen_pods.values() if attempt_of(pod) == status.attempt and works(pod))
            assert working < len(topology_of(old.spec).slots), "all pods run, however late"
            return
        seen = self.seen_pods.get(failure.pod or "")
        on_lost_node = seen is not None and seen["spec"].get("nodeName") in self.seen_lost
        assert on_lost_node or failure.pod in self.cluster.hurt.get(status.attempt, {}), "nobody hurt that pod"

    def law_ends_are_deserved(self, old: DistributedTrainingJob, new: JobStatus, now: datetime) -> None:
        if new.phase is Phase.SUCCEEDED:
            wanted = {slot for slot in topology_of(old.spec).slots if slot.role in deciding_roles(old.spec)}
            assert wanted
            assert wanted <= self.cluster.succeeded.get(new.attempt, set())
        elif new.reason == Reason.DEADLINE_EXCEEDED:
            limit, began = old.spec.active_deadline_seconds, new.running_time
            assert limit is not None
            assert began is not None
            assert now - began - timedelta(seconds=new.suspended_seconds) >= timedelta(seconds=limit)
        elif new.reason == Reason.TOO_MANY_ATTEMPTS:
            assert new.attempt == names.MAX_ATTEMPT
        else:
            failure = new.last_failure
            assert failure is not None
            assert (failure.action, failure.reason) == (RuleAction.FAIL_JOB, new.reason)
            self.law_failures_happened(old, failure)
            in_a_row = 0 if has_progressed(old.status, failure, now) else old.status.restarts_since_progress
            assert self._expected_action(old.spec, failure, in_a_row) is RuleAction.FAIL_JOB

    def law_every_attempt_is_accounted_for(self, new: JobStatus) -> None:
        assert new.attempt == new.restarts + new.disruptions + self.uncounted

    def _keep_books(self, old: DistributedTrainingJob, new: JobStatus, now: datetime) -> None:
        if new.phase in FINAL_PHASES:
            self.final = new
        begins = new.attempt != old.status.attempt or (old.status.start_time is None and new.start_time is not None)
        if begins and new.phase is not Phase.SUSPENDED:
            assert new.attempt_time == now.replace(microsecond=0)
            self.gang = gang_of(old.spec)
            self.clock_steps_at_begin = self.cluster.clock_steps
        if (new.attempt, new.restarts, new.disruptions) == (
            old.status.attempt + 1,
            old.status.restarts,
            old.status.disruptions,
        ):
            self.uncounted += 1

    def _expected_action(self, spec: JobSpec, failure: LastFailure, in_a_row: int) -> RuleAction:
        policy = spec.failure_policy
        matching = (rule for rule in policy.rules or () if self._matches(rule, failure))
        rule = next(matching, None)
        if rule is not None:
            action = rule.action
        elif failure.failure_class is FailureClass.DISRUPTION or self._waits_for_capacity(failure):
            action = RuleAction.RESTART_JOB_AND_IGNORE
        else:
            action = RuleAction.RESTART_JOB
        if action is RuleAction.RESTART_JOB and in_a_row >= policy.max_restarts:
            return RuleAction.FAIL_JOB
        return action

    def _matches(self, rule: FailureRule, failure: LastFailure) -> bool:
        if rule.on_reasons is not None:
            return failure.reason in rule.on_reasons
        if rule.on_exit_codes is not None and failure.failure_class not in CLASSES_OF_THE_PROGRAM:
            return False  # how a process ends while its pod is taken away says nothing
        if rule.on_exit_codes is not None:
            inside = failure.exit_code in rule.on_exit_codes.values
            return failure.exit_code is not None and inside is (rule.on_exit_codes.operator is ExitCodeOperator.IN)
        wanted = {(pattern.type, pattern.status) for pattern in rule.on_pod_conditions or ()}
        return any((each["type"], each["status"]) in wanted for each in self._conditions(failure))

    def _waits_for_capacity(self, failure: LastFailure) -> bool:
        waits = any(each["type"] == "PodScheduled" and each["status"] == "False" for each in self._conditions(failure))
        return failure.failure_class is FailureClass.STARTUP and waits

    def _conditions(self, failure: LastFailure) -> list[Raw]:
        """Those of the pod that failed, as the operator saw it."""
        pod: Raw = self.seen_pods.get(failure.pod or "", {"status": {}})
        found: list[Raw] = pod["status"].get("conditions", [])
        return found

    # What is created and deleted

    def law_writes_name_what_is_seen(self, decision: Decision) -> None:
        """A deletion names the object that the operator saw, by UID, and none twice that is on its way out."""
        for write in decision.writes:
            if isinstance(write, DeletePod):
                seen = self.seen_pods[write.name]
                assert write.uid == seen["metadata"]["uid"]
                patience = seen["metadata"].get("deletionGracePeriodSeconds", SURVIVOR_GRACE_SECONDS + 1)
                assert patience > SURVIVOR_GRACE_SECONDS, "it is on its way out already"
            if isinstance(write, CreatePod):
                assert write.manifest["metadata"]["name"] not in self.seen_pods

    def law_pods_are_of_the_committed_attempt(self, manifest: Raw) -> None:
        status = self.cluster.status
        assert status.start_time is not None, "no attempt is committed"
        assert attempt_of(manifest) == status.attempt
        assert self.gang is not None

    def law_no_pods_while_suspended_or_finished(self, job: DistributedTrainingJob) -> None:
        assert not job.spec.suspend
        assert not self.cluster.status.has(ConditionType.SUSPENDED)
        assert not status_of.is_finished(self.cluster.status)

    def law_no_pod_runs_unprotected(self, job: DistributedTrainingJob) -> None:
        if job.spec.network_isolation is NetworkIsolation.JOB:
            assert self.cluster.network_policy is not None

    def law_pods_wait_for_the_backoff(self, now: datetime) -> None:
        status = self.cluster.status
        if self.clock_steps_at_begin == self.cluster.clock_steps and status.attempt_time is not None:
            assert now >= status.attempt_time + timedelta(seconds=status.backoff_seconds)

    def law_an_attempt_has_one_template(self, manifest: Raw) -> None:
        assert self.gang is not None
        role = slot_of(manifest).role
        assert slot_of(manifest) in slots_of(self.gang)
        assert image_of(manifest["spec"]) == image_of(self.gang[role]["template"]["spec"])
        others = [self.cluster.pods[name] for name in self.cluster.pods_of(attempt_of(manifest))]
        assert {world_of(other) for other in others} <= {world_of(manifest)}

    def law_live_attempts_are_not_touched(self, pod: Raw) -> None:
        job = self.cluster.read_job()
        if status_of.is_finished(job.status):
            assert job.spec.cleanup_policy is not CleanupPolicy.NONE
        elif attempt_of(pod) >= job.status.attempt:
            told = job.status.has(ConditionType.SUSPENDED) or job.status.reason == Reason.INVALID_SPEC
            assert told, "a pod of the current attempt, of a job that is neither suspended nor refused"

    def law_services_go_with_the_job(self) -> None:
        job = self.cluster.read_job()
        assert status_of.is_finished(job.status)
        assert job.spec.cleanup_policy is CleanupPolicy.ALL

    def law_jobs_go_by_their_ttl(self, write: DeleteJob, now: datetime) -> None:
        job = self.cluster.read_job()
        assert status_of.is_finished(job.status)
        assert write.uid == job.metadata.uid
        ttl, ended = job.spec.ttl_seconds_after_finished, job.status.completion_time
        assert ended is not None
        if write.resource_version == job.metadata.resource_version:
            assert ttl is not None
            assert now >= ended + timedelta(seconds=ttl)

    # What exists

    def law_one_active_pod_per_slot_of_one_attempt(self) -> None:
        active = list(self.cluster.active())
        assert len({slot_of(pod) for pod in active}) == len(active)
        assert len({attempt_of(pod) for pod in active}) <= 1

    def law_final_stays_final(self) -> None:
        """Conditions and counters of a finished job never change again."""
        if self.final is not None and not self.cluster.job_is_gone:
            assert self.cluster.status == self.final

    # What holds after a look that saw everything and was not disturbed

    def law_a_whole_look_leaves_order(self) -> None:
        job = self.cluster.read_job()
        if status_of.is_finished(job.status):
            self.law_cleanup_is_done(job)
        elif job.spec.suspend:
            self.law_suspended_jobs_have_no_active_pods(job)
        elif job.status.reason != Reason.INVALID_SPEC:
            self.law_few_failed_pods_are_kept(job)
            self.law_a_broken_attempt_ends_at_once(job)

    def law_cleanup_is_done(self, job: DistributedTrainingJob) -> None:
        if job.spec.cleanup_policy is not CleanupPolicy.NONE:
            assert not list(self.cluster.active())
        if job.spec.cleanup_policy is CleanupPolicy.ALL:
            assert all(is_terminating(pod) for pod in self.cluster.pods.values())
            assert self.cluster.service is None

    def law_suspended_jobs_have_no_active_pods(self, job: DistributedTrainingJob) -> None:
        assert job.status.phase is Phase.SUSPENDED
        assert job.status.has(ConditionType.SUSPENDED)
        assert not list(self.cluster.active())

    def law_few_failed_pods_are_kept(self, job: DistributedTrainingJob) -> None:
        older = [pod for pod in self.cluster.pods.values() if attempt_of(pod) < job.status.attempt]
        kept = [pod for pod in older if not is_terminating(pod)]
        assert all(has_failed(pod) for pod in kept), "of earlier attempts only failed pods stay"
        assert len(kept) <= KEPT_FAILED_PODS

    def law_a_broken_attempt_ends_at_once(self, job: DistributedTrainingJob) -> None:
        for name in self.cluster.pods_of(job.status.attempt):
            pod = self.cluster.pods[name]
            assert not has_failed(pod)
            assert has_succeeded(pod) or not is_terminating(pod)
            assert self._is_in_reach(pod)

    # What a job that is said to run looks like in truth

    def all_is_as_it_should_be(self, job: DistributedTrainingJob, now: datetime) -> bool:
        """Its pods work, are made from the spec as it is, and no limit of time is over."""
        pods = [self.cluster.pods[name] for name in self.cluster.pods_of(job.status.attempt)]
        limit, began = job.spec.active_deadline_seconds, job.status.running_time
        in_time = limit is None or began is None or (now - began).total_seconds() - job.status.suspended_seconds < limit
        filled = {slot_of(pod) for pod in pods} | self.cluster.succeeded.get(job.status.attempt, set())
        complete = filled >= set(topology_of(job.spec).slots) and self.gang == gang_of(job.spec)
        return in_time and complete and all(works(pod) and self._is_in_reach(pod) for pod in pods)

    def _is_in_reach(self, pod: Raw) -> bool:
        """A template may ask for patience with a lost node."""
        patience = max(each["tolerationSeconds"] for each in pod["spec"]["tolerations"])
        on_lost_node = pod["spec"].get("nodeName") in self.cluster.lost_nodes
        return not on_lost_node or has_succeeded(pod) or patience > NODE_LOSS_SECONDS


def works(pod: Raw) -> bool:
    """The trainer runs, or has succeeded, and nobody has asked it to go."""
    return not is_terminating(pod) and pod["status"]["phase"] in {"Running", "Succeeded"}


def has_progressed(status: JobStatus, failure: LastFailure, now: datetime) -> bool:
    """All pods had run for ten minutes before the failure."""
    running = status.condition(ConditionType.RUNNING)
    if running is None or not running.holds:
        return False
    return min(failure.time, now) - running.last_transition_time >= PROGRESS


def deciding_roles(spec: JobSpec) -> set[str]:
    """Whose success completes the job."""
    if spec.success_policy is not None:
        return set(spec.success_policy.roles)
    leading = {role.name for role in spec.roles or () if role.name in {"chief", "master", "launcher"}}
    return {names.WORKER_ROLE, *leading}


def gang_of(spec: JobSpec) -> dict[str, Any]:
    """What decides how the pods of an attempt look."""
    workers = {"replicas": spec.replicas, "template": spec.template}
    others = {role.name: {"replicas": role.replicas, "template": role.template} for role in spec.roles or ()}
    return {names.WORKER_ROLE: workers, **others, "": {"processes": spec.processes_per_replica, "replicas": 0}}


def slots_of(gang: dict[str, Any]) -> set[Slot]:
    return {Slot(role, index) for role, group in gang.items() for index in range(group["replicas"])}


def image_of(pod_spec: Raw) -> str:
    return str(trainer_container({"spec": pod_spec})["image"])


def world_of(pod: Raw) -> str:
    """How many pods a pod believes its gang to have."""
    trainer = next(
        container
        for container in pod["spec"]["containers"]
        if container["name"] == pod["metadata"]["labels"][labels.TRAINER]
    )
    return str(next(each["value"] for each in trainer["env"] if each["name"] == environment.NNODES))
