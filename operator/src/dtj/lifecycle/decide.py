"""``decide(job, observed, now)``: everything the operator does for a job is the value of this pure function."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from dtj.api import names
from dtj.api.conditions import ConditionType
from dtj.api.job import DistributedTrainingJob
from dtj.api.reasons import Reason
from dtj.api.spec import RuleAction
from dtj.api.status import JobStatus, Phase
from dtj.lifecycle.agent_delivery import LONG_START, agent_delivery, until_doubt
from dtj.lifecycle.attempts import begin_attempt, counted, is_made_from, until_creation, withdrawn
from dtj.lifecycle.cleanup import deletions_at_end, deletions_of_older
from dtj.lifecycle.creation import creations, unfilled_slots
from dtj.lifecycle.deadlines import late_start, until_active_deadline, until_deletion, until_startup_deadline
from dtj.lifecycle.decision import NOTHING, Decision, DeleteJob, Event, EventType, Write
from dtj.lifecycle.failure import Candidate, absent_pod, candidates_in, describe, root_cause, settling_time
from dtj.lifecycle.look import Look
from dtj.lifecycle.observe import Bucket, Observed
from dtj.lifecycle.restart_policy import Verdict, attempts_are_used_up, spread_backoff, verdict_on
from dtj.lifecycle.stall import stalled, until_stall, with_stalled
from dtj.lifecycle.start import all_run, starting_status
from dtj.lifecycle.status import Situation, has_begun, is_finished, status_in, with_situation
from dtj.lifecycle.success import deciding_roles, is_successful, successes
from dtj.lifecycle.training import progress_seen
from dtj.lifecycle.without_agent import (
    NO_SHELL_MESSAGE,
    NO_WAY_MESSAGE,
    bare_commands_do,
    lacks_shell,
    uncounted,
    with_agent_again,
    without_agent,
)
from dtj.lifecycle.wording import failure_in_words, next_attempt_in_words, pods_in_words
from dtj.plan.gang_hash import gang_hash
from dtj.plan.topology import topology_of
from dtj.plan.validation import Mistake, mistakes_in

STALE_VIEW_DELAY: Final = timedelta(seconds=5)
"""Before looking again at a job whose pods are ahead of it: word of its next attempt comes on another watch."""

GIVEN_BACK_FOR: Final = (Reason.QUOTA_EXCEEDED, Reason.INVALID_TEMPLATE, Reason.NAME_CONFLICT)
"""Refusals for which the pods that do exist are given back."""

_NO_TIME: Final = timedelta(0)


def decide(job: DistributedTrainingJob, observed: Observed, now: datetime) -> Decision:
    """What to do next for a job. ``now`` is an aware time; nothing else of the world outside the arguments is read."""
    if job.spec.managed_by != names.MANAGER or job.metadata.deletion_timestamp is not None:
        return NOTHING
    if is_finished(job.status):
        return _after_the_end(job, observed, now)
    if observed.pods[Bucket.NEWER]:
        return Decision(requeue_after=STALE_VIEW_DELAY)
    if has_begun(job.status) and is_made_from(job.status, job.spec):
        return _look_at_attempt(Look(job, topology_of(job.spec), observed, now))
    if job.spec.suspend:
        return _suspend(Look(job, topology_of(job.spec), observed, now))
    if mistakes := mistakes_in(job):
        return _refuse(job, observed, mistakes, now)
    return _begin(Look(job, topology_of(job.spec), observed, now))


def _look_at_attempt(look: Look) -> Decision:
    """The attempt is committed and made from the spec as it is."""
    job, observed, now = look.job, look.observed, look.now
    if is_successful(job, look.topology, observed):
        return _complete(look)
    if job.spec.suspend:
        return _suspend(look)
    absent = _absent(look)
    if failed := [*candidates_in(observed, now), *absent]:
        return replace(_fall(look, failed), rests_on_absence=bool(absent))
    if _is_over(until_active_deadline(job, now)):
        limit = f"the job ran for {job.spec.active_deadline_seconds} s (activeDeadlineSeconds)"
        return _fail(look, Situation(Phase.FAILED, Reason.DEADLINE_EXCEEDED, limit))
    if not all_run(look) and _is_over(until_startup_deadline(job, observed, now)):
        return _end_attempt(look, late_start(job, observed, now))
    if _is_over(until_stall(look)):
        return _end_attempt(look.with_status(with_stalled(look)), stalled(look))
    if _is_half_a_gang_that_gets_no_more(look):
        return _give_back(look)
    return _go_on(look)


def _after_the_end(job: DistributedTrainingJob, observed: Observed, now: datetime) -> Decision:
    left = until_deletion(job, now)
    if _is_over(left):
        return Decision(writes=(DeleteJob(job.metadata.name, job.metadata.uid, job.metadata.resource_version),))
    return Decision(writes=tuple(deletions_at_end(job, observed)), requeue_after=left)


def _refuse(job: DistributedTrainingJob, observed: Observed, mistakes: Sequence[Mistake], now: datetime) -> Decision:
    """Nothing may run of a spec with mistakes, nor of what it was before."""
    situation = Situation(Phase.PENDING, Reason.INVALID_SPEC, "; ".join(str(mistake) for mistake in mistakes))
    status = with_situation(job, situation, now)
    if has_begun(job.status):
        status = withdrawn(status)
    deletions = deletions_of_older(observed.as_older(), job.status.last_failure)
    return _changed(job.status, status, situation, deletions)


def _suspend(look: Look) -> Decision:
    situation = Situation(Phase.SUSPENDED, Reason.JOB_SUSPENDED, "no pods until spec.suspend is false")
    # What succeeded so far is deleted with the rest, and counts for nothing after the suspension.
    status = status_in(situation, look.with_status(look.status.model_copy(update={"roles": ()})))
    deletions = deletions_of_older(look.observed.as_older(), look.status.last_failure, grace_seconds=None)
    return _changed(look.status, status, situation, deletions)


def _begin(look: Look) -> Decision:
    """Commit the first attempt, or the one after a suspension or a change of the spec."""
    status = look.status
    if status.start_time is None:
        number, reason, after = status.attempt, Reason.PODS_STARTING, look
    elif attempts_are_used_up(status):
        return _last_attempt(look)
    else:
        # Another template may have another image; the same one has no shell this time either.
        kept = status if status.gang_hash == gang_hash(look.job.spec) else with_agent_again(status)
        number, after = status.attempt + 1, look.with_status(kept).after_this_attempt()
        reason = Reason.JOB_RESUMED if status.has(ConditionType.SUSPENDED) else Reason.SPEC_CHANGED
    message = f"attempt {number}: creating {pods_in_words(len(look.topology.slots))}"
    return _commit(after, Situation(Phase.STARTING, reason, message), number, EventType.NORMAL)


def _commit(look: Look, situation: Situation, number: int, kind: EventType, backoff_seconds: int = 0) -> Decision:
    """Put an attempt on record; then what is left of earlier ones goes, and its own objects come.

    ``look``: what exists, seen from the new attempt.
    """
    committed = look.with_status(begin_attempt(look, situation, number, backoff_seconds))
    deletions = deletions_of_older(look.observed, look.status.last_failure)
    return Decision(
        status=committed.status,
        writes=(*deletions, *(() if backoff_seconds else (*agent_delivery(committed), *creations(committed)))),
        events=(Event(kind, situation.reason, situation.message),),
        requeue_after=timedelta(seconds=backoff_seconds) if backoff_seconds else None,
    )


def _absent(look: Look) -> list[Candidate]:
    """Pods that are gone after all had run. Before that nobody knows whether they ever were there."""
    if not look.status.has(ConditionType.RUNNING):
        return []
    return [absent_pod(look.job, slot, look.now) for slot in unfilled_slots(look)]


def _fall(look: Look, failed: Sequence[Candidate]) -> Decision:
    """The gang is broken: find out by whom, and end the attempt."""
    cause = root_cause(failed)
    deciding = deciding_roles(look.job.spec)
    alive = [pod for bucket in (Bucket.PENDING, Bucket.RUNNING) for pod in look.observed.pods[bucket]]
    # What ends because a deciding pod is done looks like a failure, and may be seen before the success.
    may_be_done = cause.pod.role not in deciding and any(pod.role in deciding for pod in alive)
    if alive and (cause.may_be_consequence or may_be_done) and (wait := settling_time(cause, look.now)):
        return Decision(requeue_after=wait)
    return _end_attempt(look, cause)


def _end_attempt(look: Look, cause: Candidate) -> Decision:
    look = look.with_status(look.status.model_copy(update={"progress": progress_seen(look)}))
    if lacks_shell(cause, look.job, look.topology):
        return _restart_without_agent(look, cause)
    verdict = verdict_on(cause, look.job, look.now)
    failure = describe(cause, look.topology, look.status.attempt, verdict.action)
    recorded = look.with_status(counted(look.status, verdict, failure))
    sentence = failure_in_words(cause, look.topology)
    if verdict.action is RuleAction.FAIL_JOB:
        message = f"{sentence}; {verdict.reached}" if verdict.reached else sentence
        return _fail(recorded, Situation(Phase.FAILED, cause.reason, message))
    return _restart(recorded, cause, sentence, verdict)


def _restart(look: Look, cause: Candidate, sentence: str, verdict: Verdict) -> Decision:
    message = f"{sentence}; {next_attempt_in_words(look.status, verdict.backoff_seconds)}"
    situation = Situation(Phase.RESTARTING, cause.reason, message)
    number = look.status.attempt + 1
    return _commit(look.after_this_attempt(), situation, number, EventType.WARNING, verdict.backoff_seconds)


def _restart_without_agent(look: Look, cause: Candidate) -> Decision:
    if not bare_commands_do(look.job, look.topology):
        failure = describe(cause, look.topology, look.status.attempt, RuleAction.FAIL_JOB)
        failed = look.with_status(look.status.model_copy(update={"last_failure": failure}))
        return _fail(failed, Situation(Phase.FAILED, Reason.NO_SHELL, NO_WAY_MESSAGE))
    verdict = uncounted(look.status)
    failure = describe(cause, look.topology, look.status.attempt, verdict.action)
    recorded = look.with_status(counted(look.status, verdict, failure))
    after = recorded.with_status(without_agent(recorded)).after_this_attempt()
    message = f"{NO_SHELL_MESSAGE}; {next_attempt_in_words(look.status, backoff_seconds=0)}"
    situation = Situation(Phase.RESTARTING, Reason.NO_SHELL, message)
    return _commit(after, situation, look.status.attempt + 1, EventType.WARNING)


def _is_half_a_gang_that_gets_no_more(look: Look) -> bool:
    """Some pods exist, and the others were refused once more when nothing of earlier attempts was left."""
    obstacle = look.observed.obstacle
    if obstacle is None or obstacle.reason not in GIVEN_BACK_FOR or not obstacle.lasts:
        return False
    return bool(look.observed.filled) and bool(unfilled_slots(look))


def _give_back(look: Look) -> Decision:
    """Half a gang must not sit on GPUs and on a quota that another job could use."""
    assert look.observed.obstacle is not None, "the caller has just looked"  # noqa: S101
    if attempts_are_used_up(look.status):
        return _last_attempt(look)
    backoff = spread_backoff(look.job)
    message = f"{look.observed.obstacle.message}; {next_attempt_in_words(look.status, backoff)}"
    situation = Situation(Phase.PENDING, look.observed.obstacle.reason, message)
    number = look.status.attempt + 1
    return _commit(look.after_this_attempt(), situation, number, EventType.WARNING, backoff)


def _last_attempt(look: Look) -> Decision:
    limit = f"attempt {look.status.attempt} was the last one possible; create the job anew"
    return _fail(look, Situation(Phase.FAILED, Reason.TOO_MANY_ATTEMPTS, limit))


def _fail(look: Look, situation: Situation) -> Decision:
    return _end(look, situation, EventType.WARNING)


def _complete(look: Look) -> Decision:
    count = sum(successes(group, look.status, look.observed) for group in look.topology.groups)
    situation = Situation(Phase.SUCCEEDED, Reason.SUCCEEDED, f"{pods_in_words(count)} succeeded")
    return _end(look, situation, EventType.NORMAL)


def _end(look: Look, situation: Situation, kind: EventType) -> Decision:
    ttl = look.job.spec.ttl_seconds_after_finished
    return Decision(
        status=status_in(situation, look),
        writes=tuple(deletions_at_end(look.job, look.observed)),
        events=(Event(kind, situation.reason, situation.message),),
        requeue_after=None if ttl is None else timedelta(seconds=ttl),
    )


def _go_on(look: Look) -> Decision:
    """Create what is missing and tell how far the start is."""
    deletions = tuple(deletions_of_older(look.observed, look.status.last_failure))
    next_look = _next_deadline(look)
    if wait := until_creation(look.status, look.now):
        return Decision(writes=deletions, requeue_after=min(wait, next_look or wait))
    situation, status = starting_status(look)
    obstacle = look.observed.obstacle
    blocked = obstacle is not None and obstacle.blocks(look.job.metadata.generation)
    writes = (*deletions, *(() if blocked else (*agent_delivery(look), *creations(look))))
    return replace(_changed(look.status, status, situation, writes), requeue_after=next_look)


def _next_deadline(look: Look) -> timedelta | None:
    startup = None if all_run(look) else until_startup_deadline(look.job, look.observed, look.now)
    doubt = until_doubt(look)
    if doubt is not None and _is_over(doubt):
        doubt = LONG_START
    deadlines = (until_active_deadline(look.job, look.now), startup, doubt, until_stall(look))
    return min((left for left in deadlines if left is not None), default=None)


def _is_over(left: timedelta | None) -> bool:
    return left is not None and left <= _NO_TIME


def _changed(told: JobStatus, status: JobStatus, situation: Situation, writes: Iterable[Write]) -> Decision:
    """A decision with the status only if it differs, and an event only if its reason is news."""
    wanted = situation.phase in {Phase.RUNNING, Phase.SUSPENDED}
    event = Event(EventType.NORMAL if wanted else EventType.WARNING, situation.reason, situation.message)
    return Decision(
        status=status if status != told else None,
        writes=tuple(writes),
        events=(event,) if _is_news(told, situation) else (),
    )


def _is_news(told: JobStatus, situation: Situation) -> bool:
    match situation.phase:
        case Phase.RUNNING:
            return not told.has(ConditionType.RUNNING)
        case Phase.SUSPENDED:
            return not told.has(ConditionType.SUSPENDED)
        case Phase.PENDING:
            return told.reason != situation.reason
        case _:
            return False
