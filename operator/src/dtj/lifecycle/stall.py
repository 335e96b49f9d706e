"""A training that makes no step: when it counts as hung."""

from datetime import timedelta
from typing import Final

from dtj.api.conditions import ConditionType
from dtj.api.reasons import Reason
from dtj.api.spec import ConditionStatus
from dtj.api.status import Condition, FailureClass, JobStatus
from dtj.lifecycle.children import Pod
from dtj.lifecycle.failure import Candidate
from dtj.lifecycle.look import Look
from dtj.lifecycle.observe import Bucket
from dtj.plan.topology import Slot

FIRST_STEP_FACTOR: Final = 3
"""Before the first step a training loads data and compiles: it has so many times as long."""


def until_stall(look: Look) -> timedelta | None:
    """Time left until the attempt may count as hung, zero if it does; None: no limit, or nobody was heard.

    Only what an agent said at a reading counts: one that cannot be reached since proves nothing about the training.
    """
    limit, sighting = look.job.spec.progress.stall_timeout_seconds, look.observed.training
    running = look.status.condition(ConditionType.RUNNING)
    if limit is None or sighting is None or not sighting.report.running or running is None or not running.holds:
        return None
    age = sighting.report.step_age
    if age is not None:
        still, patience = timedelta(seconds=age), timedelta(seconds=limit)
    else:
        still = sighting.time - running.last_transition_time
        patience = FIRST_STEP_FACTOR * timedelta(seconds=limit)
    if still >= patience:
        return timedelta(0)
    next_reading = timedelta(seconds=look.job.spec.progress.interval_seconds)
    return max(sighting.time + patience - still - look.now, next_reading)


def stalled(look: Look) -> Candidate:
    """The end of an attempt that is hung, told of the rank that is behind, else of rank 0."""
    sighting, limit = look.observed.training, look.job.spec.progress.stall_timeout_seconds
    assert sighting is not None, "the caller has just looked"  # noqa: S101
    assert limit is not None, "the caller has just looked"  # noqa: S101
    report = sighting.report
    if report.step_age is None:
        message = (
            f"no step was told in {FIRST_STEP_FACTOR * limit} s, three times progress.stallTimeoutSeconds; a training "
            "that makes steps must print them as progress.logPattern says, or report them"
        )
    else:
        last = f" after step {report.step}" if report.step is not None else ""
        message = f"no step for {limit} s{last} (progress.stallTimeoutSeconds)"
    if report.ranks.slowest is not None and report.ranks.slowest.holds_up:
        message += f"; {report.ranks.slowest.holds_up}"
    return Candidate(_told_pod(look), look.now, Reason.STALLED, FailureClass.INFRASTRUCTURE, message, timed=False)


def with_stalled(look: Look) -> JobStatus:
    """The status of a job that is hung; the condition goes when all pods run again."""
    condition = Condition(
        type=ConditionType.STALLED,
        status=ConditionStatus.TRUE,
        reason=Reason.STALLED,
        message=stalled(look).message,
        last_transition_time=look.now,
        observed_generation=look.job.metadata.generation,
    )
    kept = (each for each in look.status.conditions if each.type is not ConditionType.STALLED)
    return look.status.model_copy(update={"conditions": (*kept, condition)})


def _told_pod(look: Look) -> Pod:
    """The pod of the rank that is behind, else of rank 0, else any."""
    sighting = look.observed.training
    slowest = sighting.report.ranks.slowest if sighting else None
    behind = slowest.rank // look.topology.processes_per_replica if slowest and slowest.holds_up else 0
    running = look.observed.pods[Bucket.RUNNING]
    by_rank = {look.topology.node_ranks.get(Slot(pod.role, pod.index)): pod for pod in running}
    return by_rank.get(behind) or by_rank.get(0) or running[0]
