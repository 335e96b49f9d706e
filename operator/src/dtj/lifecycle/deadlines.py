"""Limits of time: when a job, its start, or what is left of it has taken too long."""

from datetime import datetime, timedelta

from dtj.api.conditions import ConditionType
from dtj.api.job import DistributedTrainingJob
from dtj.api.reasons import Reason
from dtj.api.status import FailureClass, JobStatus
from dtj.lifecycle.failure import Candidate
from dtj.lifecycle.observe import Bucket, Observed
from dtj.lifecycle.waiting import CAPACITY, why_waiting


def until_deletion(job: DistributedTrainingJob, now: datetime) -> timedelta | None:
    """Time left until a finished job is deleted, at most zero when it is due; None: it stays."""
    ttl, ended = job.spec.ttl_seconds_after_finished, job.status.completion_time
    return ended + timedelta(seconds=ttl) - now if ttl is not None and ended is not None else None


def until_active_deadline(job: DistributedTrainingJob, now: datetime) -> timedelta | None:
    """Time left of ``activeDeadlineSeconds``, at most zero when it is over; None: no limit, or not all ran yet."""
    limit, began = job.spec.active_deadline_seconds, job.status.running_time
    if limit is None or began is None:
        return None
    return began + timedelta(seconds=limit + job.status.suspended_seconds) - now


def until_startup_deadline(job: DistributedTrainingJob, observed: Observed, now: datetime) -> timedelta | None:
    """Time left of ``startupDeadlineSeconds``, at most zero when it is over; None: no limit, no pod, or all ran."""
    limit = job.spec.startup_deadline_seconds
    if limit is None or job.status.has(ConditionType.RUNNING):
        return None
    created = [pod.metadata.creation_timestamp for pod in observed.current]
    first = min((time for time in created if time is not None), default=None)
    if first is None:
        return None
    # Pods are stamped by another clock than ``now``: by that of this process they came after the attempt's backoff.
    committed = job.status.attempt_time or first
    began = max(first, committed + timedelta(seconds=job.status.backoff_seconds))
    return began + timedelta(seconds=limit) - now


def late_start(job: DistributedTrainingJob, observed: Observed, now: datetime) -> Candidate:
    """The pod that holds the start up: of all that wait the one with the most telling reason."""
    waiting = why_waiting(observed.pods[Bucket.PENDING])
    pod = waiting.pod if waiting else observed.current[0]
    why = f"{waiting.reason}: {waiting.message}" if waiting else "not all of its pods could be created"
    return Candidate(
        pod,
        now,
        Reason.STARTUP_DEADLINE_EXCEEDED,
        FailureClass.STARTUP,
        f"not all pods ran within {job.spec.startup_deadline_seconds} s (startupDeadlineSeconds): {why}",
        waits_for_capacity=waiting is not None and waiting.reason in CAPACITY,
    )


def suspended_since(status: JobStatus, now: datetime) -> int:
    """Seconds to add to ``suspendedSeconds`` at the end of a suspension: those after all pods had run once."""
    suspended = status.condition(ConditionType.SUSPENDED)
    if status.running_time is None or suspended is None or not suspended.holds:
        return 0
    return max(0, round((now - suspended.last_transition_time).total_seconds()))
