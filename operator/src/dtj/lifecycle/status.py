"""Build ``status`` from what was observed and decided; of what it says only counters and conditions are read back."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from dtj.api.conditions import FINAL, ConditionType
from dtj.api.job import DistributedTrainingJob
from dtj.api.names import WORKER_ROLE
from dtj.api.reasons import Reason
from dtj.api.spec import CleanupPolicy, ConditionStatus
from dtj.api.status import MAX_MESSAGE, Condition, JobStatus, Phase, RoleStatus
from dtj.lifecycle.observe import Bucket, Observed
from dtj.plan.metadata import worker_selector
from dtj.plan.topology import Group, Topology

COSMETIC_INTERVAL = timedelta(seconds=10)
"""At most one write in this time for changes that are no transition, such as counts and messages."""


@dataclass(frozen=True)
class Situation:
    """Where the job is, and why: a word and a sentence."""

    phase: Phase
    reason: Reason
    message: str


def has_begun(status: JobStatus) -> bool:
    """Whether an attempt was committed: only then may its pods exist."""
    return status.start_time is not None


def is_finished(status: JobStatus) -> bool:
    return any(has_condition(status, kind) for kind in FINAL)


def has_condition(status: JobStatus, kind: ConditionType) -> bool:
    return any(each.type == kind and each.status is ConditionStatus.TRUE for each in status.conditions)


def is_transition(old: JobStatus, new: JobStatus) -> bool:
    """Whether something happened that a program may wait for; all else is cosmetic and may be written later."""
    return (old.phase, old.attempt, _truths(old)) != (new.phase, new.attempt, _truths(new))


def status_in(
    situation: Situation, job: DistributedTrainingJob, topology: Topology, observed: Observed, now: datetime
) -> JobStatus:
    """The status for a situation, with all counts taken from what was observed."""
    finished = situation.phase in {Phase.SUCCEEDED, Phase.FAILED}
    gone = finished and job.spec.cleanup_policy is not CleanupPolicy.NONE
    roles = tuple(_role_status(group, job.status, observed, gone=gone) for group in topology.groups)
    workers = next(role for role in roles if role.name == WORKER_ROLE)
    running = situation.phase is Phase.RUNNING
    return with_situation(job, situation, now).model_copy(
        update={
            "start_time": job.status.start_time or now.replace(microsecond=0),
            "running_time": job.status.running_time or (now.replace(microsecond=0) if running else None),
            "completion_time": job.status.completion_time or (now.replace(microsecond=0) if finished else None),
            "replicas": 0 if gone else sum(1 for pod in observed.current if pod.role == WORKER_ROLE),
            "ready_replicas": workers.running,
            "ready": f"{sum(role.running for role in roles)}/{len(topology.slots)}",
            "selector": worker_selector(job),
            "roles": roles,
        }
    )


def with_situation(job: DistributedTrainingJob, situation: Situation, now: datetime) -> JobStatus:
    """The status with phase, reason and conditions of a situation; everything else stays as it was."""
    return job.status.model_copy(
        update={
            "phase": situation.phase,
            "reason": situation.reason,
            "observed_generation": job.metadata.generation,
            "conditions": _conditions(situation, job, now),
        }
    )


def successes(group: Group, status: JobStatus, observed: Observed) -> int:
    """Pods of a role that succeeded in this attempt, those removed since included."""
    told = next((role for role in status.roles if role.name == group.role), None)
    if told is None:
        return observed.count(Bucket.SUCCEEDED, group.role)
    gone = observed.succeeded_and_gone(group, told.succeeded, _gone_when_told(told, status))
    return observed.count(Bucket.SUCCEEDED, group.role) + gone


def _gone_when_told(told: RoleStatus, status: JobStatus) -> int:
    """Successes that were told although their pods were missing: more pods in some state than there were pods.

    Only of the workers the status says how many there were.
    """
    if told.name != WORKER_ROLE:
        return 0
    return max(0, told.pending + told.running + told.succeeded + told.failed - status.replicas)


def _role_status(group: Group, status: JobStatus, observed: Observed, *, gone: bool) -> RoleStatus:
    """``gone``: what still runs is being deleted by this very decision."""
    return RoleStatus(
        name=group.role,
        replicas=group.replicas,
        pending=0 if gone else observed.count(Bucket.PENDING, group.role),
        running=0 if gone else observed.count(Bucket.RUNNING, group.role),
        succeeded=successes(group, status, observed),
        failed=observed.count(Bucket.FAILED, group.role),
    )


def _conditions(situation: Situation, job: DistributedTrainingJob, now: datetime) -> tuple[Condition, ...]:
    true = {
        Phase.RUNNING: {ConditionType.RUNNING},
        Phase.SUCCEEDED: {ConditionType.COMPLETE},
        Phase.FAILED: {ConditionType.FAILED},
    }.get(situation.phase, set())
    told = [ConditionType.RUNNING, *(kind for kind in FINAL if kind in true)]
    new = {kind: _condition(kind, situation, job, now, holds=kind in true) for kind in told}
    kept = (condition for condition in job.status.conditions if condition.type not in new)
    return (*kept, *new.values())


def _condition(
    kind: ConditionType, situation: Situation, job: DistributedTrainingJob, now: datetime, *, holds: bool
) -> Condition:
    status = ConditionStatus.TRUE if holds else ConditionStatus.FALSE
    before = next((condition for condition in job.status.conditions if condition.type == kind), None)
    unchanged = before is not None and before.status is status
    return Condition(
        type=kind,
        status=status,
        reason=situation.reason,
        message=situation.message[:MAX_MESSAGE],
        last_transition_time=before.last_transition_time if before is not None and unchanged else now,
        observed_generation=job.metadata.generation,
    )


def _truths(status: JobStatus) -> frozenset[str]:
    return frozenset(str(each.type) for each in status.conditions if each.status is ConditionStatus.TRUE)
