"""What a failure leads to: the job's rules, its counters, and how long the next attempt waits."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Final

from dtj.api import names
from dtj.api.conditions import ConditionType
from dtj.api.job import DistributedTrainingJob
from dtj.api.reasons import Reason
from dtj.api.spec import ExitCodeOperator, ExitCodes, FailureRule, PodConditionPattern, RuleAction
from dtj.api.status import MAX_BACKOFF_SECONDS, FailureClass, JobStatus
from dtj.lifecycle.children import Pod
from dtj.lifecycle.failure import Candidate
from dtj.lifecycle.training import has_advanced

FIRST_BACKOFF_SECONDS: Final = 10
SHORT_LIFE: Final = timedelta(minutes=1)
"""A disruption restarts at once, but not when the attempt before it hardly lived."""
RUN_THAT_COUNTS_AS_PROGRESS: Final = timedelta(minutes=10)
"""With all pods running, where the training reports no steps."""


_OF_THE_PROGRAM: Final = (FailureClass.APPLICATION, FailureClass.OUT_OF_MEMORY, FailureClass.CONFIGURATION)


@dataclass(frozen=True)
class Verdict:
    """The action with the counters as they are after it. ``reached``: what made it fail the job, as a clause."""

    action: RuleAction
    restarts: int
    restarts_since_progress: int
    disruptions: int
    backoff_seconds: int = 0
    reached: str = ""


def verdict_on(cause: Candidate, job: DistributedTrainingJob, now: datetime) -> Verdict:
    """Decide about an attempt that this ended."""
    status = job.status
    disrupted = cause.failure_class is FailureClass.DISRUPTION
    in_a_row = 0 if _has_progressed(status, cause, now) else status.restarts_since_progress
    action, reached = _action(job, cause, in_a_row)
    if action is RuleAction.FAIL_JOB:
        return Verdict(action, status.restarts, in_a_row, status.disruptions, reached=reached)
    counted = action is RuleAction.RESTART_JOB
    as_disruption = disrupted and not counted
    return Verdict(
        action,
        restarts=status.restarts + (not as_disruption),
        restarts_since_progress=in_a_row + counted,
        disruptions=status.disruptions + as_disruption,
        backoff_seconds=_backoff(job, cause, now, in_a_row if counted else None),
    )


def _action(job: DistributedTrainingJob, cause: Candidate, in_a_row: int) -> tuple[RuleAction, str]:
    policy = job.spec.failure_policy
    if attempts_are_used_up(job.status):
        return RuleAction.FAIL_JOB, "no further attempt is possible; create the job anew"
    matching = ((number, rule) for number, rule in enumerate(policy.rules or ()) if _matches(rule, cause))
    number, rule = next(matching, (0, None))
    if rule is not None:
        action, because = rule.action, f"failurePolicy.rules[{number}] says FailJob"
    else:
        uncounted = cause.failure_class is FailureClass.DISRUPTION or cause.waits_for_capacity
        action = RuleAction.RESTART_JOB_AND_IGNORE if uncounted else RuleAction.RESTART_JOB
        because = ""
    if action is RuleAction.RESTART_JOB and in_a_row >= policy.max_restarts:
        return RuleAction.FAIL_JOB, _used_up(in_a_row)
    return action, because


def _used_up(restarts: int) -> str:
    if not restarts:
        return ""
    number = "1 restart" if restarts == 1 else f"{restarts} restarts"
    return f"after {number} without progress between (failurePolicy.maxRestarts)"


def _matches(rule: FailureRule, cause: Candidate) -> bool:
    if rule.on_reasons is not None:
        return cause.reason in rule.on_reasons
    if rule.on_exit_codes is not None:
        return _is_such_an_exit(rule.on_exit_codes, cause)
    return any(_has_condition(cause.pod, pattern) for pattern in rule.on_pod_conditions or ())


def _is_such_an_exit(codes: ExitCodes, cause: Candidate) -> bool:
    """Only the trainer container's own end is meant: how it ends in a pod that is evicted, or on a node that goes down,
    says nothing.
    """
    if cause.failure_class not in _OF_THE_PROGRAM or cause.ended is None or cause.container != cause.pod.trainer:
        return False
    return (cause.ended.exit_code in codes.values) is (codes.operator is ExitCodeOperator.IN)


def _has_condition(pod: Pod, pattern: PodConditionPattern) -> bool:
    condition = pod.condition(pattern.type)
    return condition is not None and condition.status == pattern.status


def _has_progressed(status: JobStatus, cause: Candidate, now: datetime) -> bool:
    advanced = has_advanced(status)
    if advanced is not None or cause.reason is Reason.STALLED:
        return bool(advanced)
    running = status.condition(ConditionType.RUNNING)
    if running is None or not running.holds:
        return False
    return min(cause.time, now) - running.last_transition_time >= RUN_THAT_COUNTS_AS_PROGRESS


def _backoff(job: DistributedTrainingJob, cause: Candidate, now: datetime, in_a_row: int | None) -> int:
    """Seconds before the next attempt. ``in_a_row``: counted restarts before this one, None if it is not counted."""
    seconds = 0
    if in_a_row:
        seconds = FIRST_BACKOFF_SECONDS * 2 ** min(in_a_row - 1, 10)
    elif in_a_row is None and _lived_shortly(job.status, now):
        seconds = longer_backoff(job.status)
    if cause.failure_class is FailureClass.STARTUP:
        seconds = max(seconds, spread_backoff(job))
    return min(seconds, MAX_BACKOFF_SECONDS)


def longer_backoff(status: JobStatus) -> int:
    return min(max(FIRST_BACKOFF_SECONDS, 2 * status.backoff_seconds), MAX_BACKOFF_SECONDS)


def spread_backoff(job: DistributedTrainingJob) -> int:
    """For gangs that were given back half placed: two that met once must not meet again and again."""
    digest = sha256(f"{job.metadata.uid}/{job.status.attempt}".encode()).digest()
    return min(round(longer_backoff(job.status) * (1 + digest[0] / 512)), MAX_BACKOFF_SECONDS)


def _lived_shortly(status: JobStatus, now: datetime) -> bool:
    if status.attempt == 0 or status.attempt_time is None:
        return False
    return now - status.attempt_time - timedelta(seconds=status.backoff_seconds) < SHORT_LIFE


def attempts_are_used_up(status: JobStatus) -> bool:
    return status.attempt >= names.MAX_ATTEMPT
