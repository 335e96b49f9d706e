"""Build ``status`` from what was observed and decided. The phase and its reason are never read back."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from dtj.api.conditions import FINAL, ConditionType
from dtj.api.job import DistributedTrainingJob
from dtj.api.names import WORKER_ROLE
from dtj.api.reasons import Reason
from dtj.api.spec import CleanupPolicy, ConditionStatus
from dtj.api.status import MAX_MESSAGE, Condition, JobStatus, Phase, RoleStatus
from dtj.lifecycle.look import Look
from dtj.lifecycle.observe import Bucket, Observed
from dtj.lifecycle.success import removed_successes, successes
from dtj.lifecycle.training import progress_in
from dtj.plan.metadata import worker_selector
from dtj.plan.topology import Group

COSMETIC_INTERVAL = timedelta(seconds=10)
"""At most one write in this time for changes that are no transition, such as counts and messages."""

_CONDITION_OF = {
    Phase.RUNNING: ConditionType.RUNNING,
    Phase.SUSPENDED: ConditionType.SUSPENDED,
    Phase.SUCCEEDED: ConditionType.COMPLETE,
    Phase.FAILED: ConditionType.FAILED,
}


@dataclass(frozen=True)
class Situation:
    """Where the job is, and why: a word and a sentence."""

    phase: Phase
    reason: Reason
    message: str


def has_begun(status: JobStatus) -> bool:
    """Whether an attempt is committed: only then may its pods exist."""
    return status.start_time is not None and not status.has(ConditionType.SUSPENDED)


def is_finished(status: JobStatus) -> bool:
    return any(status.has(kind) for kind in FINAL)


def is_transition(old: JobStatus, new: JobStatus) -> bool:
    """Whether something happened that a program may wait for; all else is cosmetic and may be written later.

    The first progress of an attempt is, and its first ETA: somebody watches for them.
    """
    return _milestones(old) != _milestones(new)


def status_in(situation: Situation, look: Look) -> JobStatus:
    """The status for a situation, with all counts taken from what was observed."""
    job, topology, observed, now = look.job, look.topology, look.observed, look.now
    finished = situation.phase in {Phase.SUCCEEDED, Phase.FAILED}
    gone = finished and job.spec.cleanup_policy is not CleanupPolicy.NONE
    leaving = gone or situation.phase is Phase.SUSPENDED
    roles = tuple(_role_status(group, job.status, observed, leaving=leaving) for group in topology.groups)
    workers = next(role for role in roles if role.name == WORKER_ROLE)
    started = situation.phase is not Phase.SUSPENDED
    running = situation.phase is Phase.RUNNING
    moment = now.replace(microsecond=0)
    return with_situation(job, situation, now).model_copy(
        update={
            "start_time": job.status.start_time or (moment if started else None),
            "running_time": job.status.running_time or (moment if running else None),
            "completion_time": job.status.completion_time or (moment if finished else None),
            "replicas": 0 if gone else sum(1 for pod in observed.current if pod.role == WORKER_ROLE),
            "ready_replicas": workers.running,
            "ready": f"{sum(role.running for role in roles)}/{len(topology.slots)}",
            "selector": worker_selector(job),
            "roles": roles,
            "progress": progress_in(situation.phase, look),
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


def _role_status(group: Group, status: JobStatus, observed: Observed, *, leaving: bool) -> RoleStatus:
    """``leaving``: what still runs is being deleted by this very decision."""
    return RoleStatus(
        name=group.role,
        replicas=group.replicas,
        pending=0 if leaving else observed.count(Bucket.PENDING, group.role),
        running=0 if leaving else observed.count(Bucket.RUNNING, group.role),
        succeeded=successes(group, status, observed),
        removed=removed_successes(group, status, observed),
        failed=observed.count(Bucket.FAILED, group.role),
    )


def _conditions(situation: Situation, job: DistributedTrainingJob, now: datetime) -> tuple[Condition, ...]:
    """Running is always told; the others from the moment when they first hold."""
    holding = _CONDITION_OF.get(situation.phase)
    told = [ConditionType.RUNNING]
    # A job that cannot be resumed for a mistake in its spec is as suspended as before.
    if situation.phase is Phase.SUSPENDED or (
        job.status.has(ConditionType.SUSPENDED) and situation.reason is not Reason.INVALID_SPEC
    ):
        told.append(ConditionType.SUSPENDED)
    if situation.phase is Phase.RUNNING and job.status.has(ConditionType.STALLED):
        told.append(ConditionType.STALLED)
    if holding in FINAL:
        told.append(holding)
    new = {kind: _condition(kind, situation, job, now, holds=kind is holding) for kind in told}
    kept = (condition for condition in job.status.conditions if condition.type not in new)
    return (*kept, *new.values())


def _condition(
    kind: ConditionType, situation: Situation, job: DistributedTrainingJob, now: datetime, *, holds: bool
) -> Condition:
    status = ConditionStatus.TRUE if holds else ConditionStatus.FALSE
    before = job.status.condition(kind)
    unchanged = before is not None and before.status is status
    return Condition(
        type=kind,
        status=status,
        reason=situation.reason,
        message=situation.message[:MAX_MESSAGE],
        last_transition_time=before.last_transition_time if before is not None and unchanged else now,
        observed_generation=job.metadata.generation,
    )


def _milestones(status: JobStatus) -> tuple[object, ...]:
    progress = (status.progress.attempt, status.progress.eta is None) if status.progress is not None else None
    return status.phase, status.attempt, _truths(status), progress


def _truths(status: JobStatus) -> frozenset[str]:
    return frozenset(str(condition.type) for condition in status.conditions if condition.holds)
