"""The status that commits an attempt. Whoever writes it first has decided: nothing of the attempt exists before."""

from datetime import datetime, timedelta

from dtj.api.spec import JobSpec
from dtj.api.status import JobStatus, LastFailure
from dtj.lifecycle.deadlines import suspended_since
from dtj.lifecycle.look import Look
from dtj.lifecycle.restart_policy import Verdict
from dtj.lifecycle.status import Situation, status_in
from dtj.plan.gang_hash import FORMULA, gang_hash


def begin_attempt(look: Look, situation: Situation, number: int, backoff_seconds: int) -> JobStatus:
    """An attempt that begins now and creates its pods after the backoff. Counters stay as they are.

    ``look``: what exists, seen from this attempt.
    """
    status = look.status
    committed = status.model_copy(
        update={
            "attempt": number,
            "attempt_time": look.now.replace(microsecond=0),
            "backoff_seconds": backoff_seconds,
            "gang_hash": gang_hash(look.job.spec),
            "suspended_seconds": status.suspended_seconds + suspended_since(status, look.now),
            "roles": (),
        }
    )
    return status_in(situation, look.with_status(committed))


def counted(status: JobStatus, verdict: Verdict, failure: LastFailure) -> JobStatus:
    """The status with a failure on record."""
    return status.model_copy(
        update={
            "restarts": verdict.restarts,
            "restarts_since_progress": verdict.restarts_since_progress,
            "disruptions": verdict.disruptions,
            "last_failure": failure,
        }
    )


def is_made_from(status: JobStatus, spec: JobSpec) -> bool:
    """Whether the attempt was made from this spec, as far as this version can tell."""
    made_from = status.gang_hash
    if made_from is None or (made_from and not made_from.startswith(FORMULA)):
        return True
    return made_from == gang_hash(spec)


def withdrawn(status: JobStatus) -> JobStatus:
    """The status of an attempt whose pods go, and that is like no spec: the next one is another attempt."""
    none = {"replicas": 0, "ready_replicas": 0, "ready": None, "roles": ()}
    return status.model_copy(update={"gang_hash": "", **none})


def until_creation(status: JobStatus, now: datetime) -> timedelta:
    """Time left of the backoff of this attempt, zero if its pods may be created.

    More than the whole backoff can be left only where the clock was set back: nobody waits for that.
    """
    backoff = timedelta(seconds=status.backoff_seconds)
    if status.attempt_time is None or not backoff:
        return timedelta(0)
    left = status.attempt_time + backoff - now
    return left if timedelta(0) < left <= backoff else timedelta(0)
