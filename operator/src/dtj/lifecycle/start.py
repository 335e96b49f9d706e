"""How far the start of an attempt is, and what keeps it up."""

from dtj.api.reasons import Reason
from dtj.api.status import FailureClass, JobStatus, Phase
from dtj.lifecycle.failure import Candidate, describe
from dtj.lifecycle.look import Look
from dtj.lifecycle.observe import Bucket
from dtj.lifecycle.status import Situation, status_in
from dtj.lifecycle.success import successes
from dtj.lifecycle.waiting import ACTIONABLE, LASTING, Waiting, why_waiting
from dtj.lifecycle.wording import pods_in_words


def starting_status(look: Look) -> tuple[Situation, JobStatus]:
    """The situation of an attempt that nothing has ended, and the status that tells of it."""
    waiting = why_waiting(look.observed.pods[Bucket.PENDING])
    situation = _situation(look, waiting)
    return situation, _with_lasting_trouble(look, status_in(situation, look), situation, waiting)


def all_run(look: Look) -> bool:
    """Whether all pods run, or have succeeded."""
    return sum(_running_and_succeeded(look)) == len(look.topology.slots)


def _running_and_succeeded(look: Look) -> tuple[int, int]:
    succeeded = sum(successes(group, look.status, look.observed) for group in look.topology.groups)
    return look.observed.count(Bucket.RUNNING), succeeded


def _situation(look: Look, waiting: Waiting | None) -> Situation:
    observed, expected = look.observed, len(look.topology.slots)
    running, succeeded = _running_and_succeeded(look)
    if running + succeeded == expected:
        trouble = f"; the progress cannot be read: {observed.training_trouble}" if observed.training_trouble else ""
        if succeeded:
            message = f"{running} of {pods_in_words(expected)} running, {succeeded} succeeded{trouble}"
            return Situation(Phase.RUNNING, Reason.SOME_PODS_FINISHED, message)
        return Situation(Phase.RUNNING, Reason.ALL_PODS_RUNNING, f"{pods_in_words(expected)} running{trouble}")
    if observed.obstacle is not None:
        return Situation(Phase.PENDING, observed.obstacle.reason, observed.obstacle.message)
    if waiting is not None and waiting.reason in ACTIONABLE:
        message = f"{waiting.pods} of {pods_in_words(expected)}: {waiting.message}"
        return Situation(Phase.PENDING, waiting.reason, message)
    reason = waiting.reason if waiting else Reason.PODS_STARTING
    phase = Phase.RESTARTING if _follows_a_failure(look.status) else Phase.STARTING
    return Situation(phase, reason, f"{running + succeeded} of {pods_in_words(expected)} running")


def _follows_a_failure(status: JobStatus) -> bool:
    failure = status.last_failure
    return failure is not None and failure.action is not None and failure.attempt == status.attempt - 1


def _with_lasting_trouble(look: Look, status: JobStatus, situation: Situation, waiting: Waiting | None) -> JobStatus:
    """What will not heal by itself stands in ``lastFailure`` as long as pods wait for it to be mended, unless the cause
    of a restart stands there.
    """
    told = status.last_failure
    if waiting is not None and waiting.reason in LASTING:
        if told is not None and (told.action is not None or told.reason == waiting.reason):
            return status
        cause = Candidate(waiting.pod, look.now, waiting.reason, FailureClass.CONFIGURATION, waiting.message)
        return status.model_copy(update={"last_failure": describe(cause, look.topology, status.attempt, None)})
    if told is not None and told.action is None and situation.phase is Phase.RUNNING:
        return status.model_copy(update={"last_failure": None})
    return status
