"""``decide(job, observed, now)``: everything the operator does for a job is the value of this pure function."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from dtj.api import names
from dtj.api.conditions import ConditionType
from dtj.api.job import DistributedTrainingJob
from dtj.api.reasons import Reason
from dtj.api.spec import RuleAction
from dtj.api.status import FailureClass, JobStatus, Phase
from dtj.lifecycle import status as status_of
from dtj.lifecycle.attempts import begin_attempt, counted, until_creation
from dtj.lifecycle.cleanup import deletions_at_end, deletions_of_older
from dtj.lifecycle.deadlines import late_start, until_active_deadline, until_deletion, until_startup_deadline
from dtj.lifecycle.decision import (
    NOTHING,
    CreatePod,
    CreateService,
    Decision,
    DeleteJob,
    Event,
    EventType,
    Write,
)
from dtj.lifecycle.failure import Candidate, absent_pod, candidates_in, describe, root_cause, settling_time
from dtj.lifecycle.last_words import printable
from dtj.lifecycle.observe import Bucket, Observed, occupies_node
from dtj.lifecycle.restart_policy import Verdict, attempts_are_used_up, spread_backoff, verdict_on
from dtj.lifecycle.status import Situation
from dtj.lifecycle.success import deciding_roles, is_successful, successes
from dtj.lifecycle.waiting import ACTIONABLE, LASTING, Waiting, why_waiting
from dtj.plan.pods import pod_builder
from dtj.plan.services import headless_service
from dtj.plan.topology import Slot, Topology, gang_hash, topology_of
from dtj.plan.validation import Mistake, mistakes_in

STALE_VIEW_DELAY: Final = timedelta(seconds=5)
"""Before looking again at a job whose pods are ahead of it: word of its next attempt comes on another watch."""

_NO_TIME: Final = timedelta(0)


def decide(job: DistributedTrainingJob, observed: Observed, now: datetime) -> Decision:
    """What to do next for a job. ``now`` is an aware time; nothing else of the world outside the arguments is read."""
    if job.spec.managed_by != names.MANAGER or job.metadata.deletion_timestamp is not None:
        return NOTHING
    if status_of.is_finished(job.status):
        return _after_the_end(job, observed, now)
    if observed.pods[Bucket.NEWER]:
        return Decision(requeue_after=STALE_VIEW_DELAY)
    if status_of.has_begun(job.status) and job.status.gang_hash in {None, gang_hash(job.spec)}:
        return _look_at_attempt(job, topology_of(job.spec), observed, now)
    if job.spec.suspend:
        return _suspend(job, topology_of(job.spec), observed, now)
    if mistakes := mistakes_in(job):
        return _refuse(job, observed, mistakes, now)
    return _begin(job, topology_of(job.spec), observed, now)


def _look_at_attempt(job: DistributedTrainingJob, topology: Topology, observed: Observed, now: datetime) -> Decision:
    """The attempt is committed and made from the spec as it is."""
    if is_successful(job, topology, observed):
        return _complete(job, topology, observed, now)
    if job.spec.suspend:
        return _suspend(job, topology, observed, now)
    absent = _absent(job, topology, observed, now)
    if failed := [*candidates_in(observed, now), *absent]:
        return replace(_fall(job, topology, observed, failed, now), rests_on_absence=bool(absent))
    if _is_over(until_active_deadline(job, now)):
        limit = f"the job ran for {job.spec.active_deadline_seconds} s (activeDeadlineSeconds)"
        return _fail_for(job, topology, observed, Situation(Phase.FAILED, Reason.DEADLINE_EXCEEDED, limit), now)
    if _is_over(until_startup_deadline(job, observed, now)):
        return _end_attempt(job, topology, observed, late_start(job, observed, now), now)
    if _is_half_a_gang_over_quota(topology, observed):
        return _give_back(job, topology, observed, now)
    return _go_on(job, topology, observed, now)


def _after_the_end(job: DistributedTrainingJob, observed: Observed, now: datetime) -> Decision:
    left = until_deletion(job, now)
    if left is not None and left <= _NO_TIME:
        return Decision(writes=(DeleteJob(job.metadata.name, job.metadata.uid, job.metadata.resource_version),))
    return Decision(writes=tuple(deletions_at_end(job, observed)), requeue_after=left)


def _refuse(job: DistributedTrainingJob, observed: Observed, mistakes: Sequence[Mistake], now: datetime) -> Decision:
    """Nothing may run of a spec with mistakes, nor of what it was before."""
    situation = Situation(Phase.PENDING, Reason.INVALID_SPEC, "; ".join(str(mistake) for mistake in mistakes))
    writes = tuple(deletions_of_older(observed.as_older(), job.status.last_failure))
    return _changed(job, status_of.with_situation(job, situation, now), situation, writes)


def _suspend(job: DistributedTrainingJob, topology: Topology, observed: Observed, now: datetime) -> Decision:
    situation = Situation(Phase.SUSPENDED, Reason.JOB_SUSPENDED, "no pods until spec.suspend is false")
    forgotten = job.model_copy(update={"status": job.status.model_copy(update={"roles": ()})})
    status = status_of.status_in(situation, forgotten, topology, observed, now)
    writes = deletions_of_older(observed.as_older(), job.status.last_failure, grace_seconds=None)
    return _changed(job, status, situation, tuple(writes))


def _begin(job: DistributedTrainingJob, topology: Topology, observed: Observed, now: datetime) -> Decision:
    """Commit the first attempt, or the one after a suspension or a change of the spec; its objects come after that."""
    if job.status.start_time is None:
        number, reason, after = job.status.attempt, Reason.PODS_STARTING, observed
    else:
        number, after = job.status.attempt + 1, observed.as_older()
        reason = Reason.JOB_RESUMED if job.status.has(ConditionType.SUSPENDED) else Reason.SPEC_CHANGED
        if attempts_are_used_up(job.status):
            limit = f"attempt {job.status.attempt} was the last one possible; create the job anew"
            return _fail_for(job, topology, observed, Situation(Phase.FAILED, Reason.TOO_MANY_ATTEMPTS, limit), now)
    message = f"attempt {number}: creating {_pods(len(topology.slots))}"
    situation = Situation(Phase.STARTING, reason, message)
    status = begin_attempt(job, topology, observed, situation, now, number=number)
    return Decision(
        status=status,
        writes=(*deletions_of_older(after, status.last_failure), *_creations(job, topology, after, status)),
        events=(Event(EventType.NORMAL, situation.reason, situation.message),),
    )


def _absent(job: DistributedTrainingJob, topology: Topology, observed: Observed, now: datetime) -> list[Candidate]:
    """Pods that are gone after all had run. Before that nobody knows whether they ever were there."""
    if not job.status.has(ConditionType.RUNNING):
        return []
    return [absent_pod(job, slot, now) for slot in _unfilled(job.status, topology, observed)]


def _fall(
    job: DistributedTrainingJob, topology: Topology, observed: Observed, failed: Sequence[Candidate], now: datetime
) -> Decision:
    """The gang is broken: find out by whom, and end the attempt."""
    cause = root_cause(failed)
    deciding = deciding_roles(job.spec)
    alive = [pod for bucket in (Bucket.PENDING, Bucket.RUNNING) for pod in observed.pods[bucket]]
    # What ends because a deciding pod is done looks like a failure, and may be seen before the success.
    may_be_done = cause.pod.role not in deciding and any(pod.role in deciding for pod in alive)
    if alive and (cause.may_be_consequence or may_be_done) and (wait := settling_time(cause, now)):
        return Decision(requeue_after=wait)
    return _end_attempt(job, topology, observed, cause, now)


def _end_attempt(
    job: DistributedTrainingJob, topology: Topology, observed: Observed, cause: Candidate, now: datetime
) -> Decision:
    verdict = verdict_on(cause, job, now)
    if verdict.action is RuleAction.FAIL_JOB:
        return _fail(job, topology, observed, cause, verdict, now)
    return _restart(job, topology, observed, cause, verdict, now)


def _fail(
    job: DistributedTrainingJob,
    topology: Topology,
    observed: Observed,
    cause: Candidate,
    verdict: Verdict,
    now: datetime,
) -> Decision:
    failure = describe(cause, topology, job.status.attempt, verdict.action)
    sentence = _failure_sentence(cause, topology)
    message = f"{sentence}; {verdict.reached}" if verdict.reached else sentence
    recorded = job.model_copy(update={"status": counted(job.status, verdict, failure)})
    return _fail_for(recorded, topology, observed, Situation(Phase.FAILED, cause.reason, message), now)


def _fail_for(
    job: DistributedTrainingJob, topology: Topology, observed: Observed, situation: Situation, now: datetime
) -> Decision:
    return Decision(
        status=status_of.status_in(situation, job, topology, observed, now),
        writes=tuple(deletions_at_end(job, observed)),
        events=(Event(EventType.WARNING, situation.reason, situation.message),),
    )


def _restart(
    job: DistributedTrainingJob,
    topology: Topology,
    observed: Observed,
    cause: Candidate,
    verdict: Verdict,
    now: datetime,
) -> Decision:
    """Commit the next attempt with the failure on record; then the old gang goes, and the new one comes."""
    failure = describe(cause, topology, job.status.attempt, verdict.action)
    recorded = job.model_copy(update={"status": counted(job.status, verdict, failure)})
    message = f"{_failure_sentence(cause, topology)}; {_announcement(job, verdict.backoff_seconds)}"
    situation = Situation(Phase.RESTARTING, cause.reason, message)
    return _next_attempt(recorded, topology, observed, situation, verdict.backoff_seconds, now)


def _is_half_a_gang_over_quota(topology: Topology, observed: Observed) -> bool:
    """Some pods exist and the quota refuses the others, though nothing of earlier attempts uses it up any more."""
    if observed.obstacle is None or observed.obstacle.reason is not Reason.QUOTA_EXCEEDED:
        return False
    if any(occupies_node(pod) for pod in observed.pods[Bucket.OLDER]):
        return False
    return 0 < len(observed.filled) < len(topology.slots)


def _give_back(job: DistributedTrainingJob, topology: Topology, observed: Observed, now: datetime) -> Decision:
    """Half a gang must not sit on a quota that another job could use."""
    assert observed.obstacle is not None, "the caller has just looked"  # noqa: S101
    backoff = spread_backoff(job)
    message = f"{observed.obstacle.message}; {_announcement(job, backoff)}"
    situation = Situation(Phase.PENDING, Reason.QUOTA_EXCEEDED, message)
    return _next_attempt(job, topology, observed, situation, backoff, now)


def _next_attempt(
    job: DistributedTrainingJob,
    topology: Topology,
    observed: Observed,
    situation: Situation,
    backoff_seconds: int,
    now: datetime,
) -> Decision:
    number, after = job.status.attempt + 1, observed.as_older()
    status = begin_attempt(job, topology, observed, situation, now, number=number, backoff_seconds=backoff_seconds)
    deletions = deletions_of_older(after, status.last_failure)
    creations = () if backoff_seconds else _creations(job, topology, after, status)
    return Decision(
        status=status,
        writes=(*deletions, *creations),
        events=(Event(EventType.WARNING, situation.reason, situation.message),),
        requeue_after=timedelta(seconds=backoff_seconds) if backoff_seconds else None,
    )


def _complete(job: DistributedTrainingJob, topology: Topology, observed: Observed, now: datetime) -> Decision:
    count = sum(successes(group, job.status, observed) for group in topology.groups)
    situation = Situation(Phase.SUCCEEDED, Reason.SUCCEEDED, f"{_pods(count)} succeeded")
    return Decision(
        status=status_of.status_in(situation, job, topology, observed, now),
        writes=tuple(deletions_at_end(job, observed)),
        events=(Event(EventType.NORMAL, situation.reason, situation.message),),
    )


def _go_on(job: DistributedTrainingJob, topology: Topology, observed: Observed, now: datetime) -> Decision:
    """Create what is missing and tell how far the start is."""
    deletions = tuple(deletions_of_older(observed, job.status.last_failure))
    next_look = _next_deadline(job, observed, now)
    if wait := until_creation(job.status, now):
        return Decision(writes=deletions, requeue_after=min(wait, next_look or wait))
    waiting = why_waiting(observed.pods[Bucket.PENDING])
    situation = _situation(job, topology, observed, waiting)
    status = status_of.status_in(situation, job, topology, observed, now)
    status = _with_lasting_trouble(status, topology, situation, waiting, now)
    blocked = observed.obstacle is not None and observed.obstacle.blocks(job.metadata.generation)
    creations = () if blocked else _creations(job, topology, observed, job.status)
    return replace(_changed(job, status, situation, (*deletions, *creations)), requeue_after=next_look)


def _next_deadline(job: DistributedTrainingJob, observed: Observed, now: datetime) -> timedelta | None:
    deadlines = (until_active_deadline(job, now), until_startup_deadline(job, observed, now))
    return min((left for left in deadlines if left is not None), default=None)


def _is_over(left: timedelta | None) -> bool:
    return left is not None and left <= _NO_TIME


def _situation(
    job: DistributedTrainingJob, topology: Topology, observed: Observed, waiting: Waiting | None
) -> Situation:
    expected = len(topology.slots)
    running = observed.count(Bucket.RUNNING)
    succeeded = sum(successes(group, job.status, observed) for group in topology.groups)
    if running + succeeded == expected:
        if succeeded:
            message = f"{running} of {_pods(expected)} running, {succeeded} succeeded"
            return Situation(Phase.RUNNING, Reason.SOME_PODS_FINISHED, message)
        return Situation(Phase.RUNNING, Reason.ALL_PODS_RUNNING, f"{_pods(expected)} running")
    if observed.obstacle is not None:
        return Situation(Phase.PENDING, observed.obstacle.reason, observed.obstacle.message)
    if waiting is not None and waiting.reason in ACTIONABLE:
        message = f"{waiting.pods} of {_pods(expected)}: {waiting.message}"
        return Situation(Phase.PENDING, waiting.reason, message)
    reason = waiting.reason if waiting else Reason.PODS_STARTING
    phase = Phase.RESTARTING if _follows_a_failure(job.status) else Phase.STARTING
    return Situation(phase, reason, f"{running + succeeded} of {_pods(expected)} running")


def _follows_a_failure(status: JobStatus) -> bool:
    failure = status.last_failure
    return failure is not None and failure.action is not None and failure.attempt == status.attempt - 1


def _with_lasting_trouble(
    status: JobStatus, topology: Topology, situation: Situation, waiting: Waiting | None, now: datetime
) -> JobStatus:
    """What will not heal by itself stands in ``lastFailure`` as long as pods wait for it to be mended."""
    told = status.last_failure
    if waiting is not None and waiting.reason in LASTING:
        if told is not None and (told.attempt, told.reason) == (status.attempt, waiting.reason):
            return status
        cause = Candidate(waiting.pod, now, waiting.reason, FailureClass.CONFIGURATION, waiting.message)
        return status.model_copy(update={"last_failure": describe(cause, topology, status.attempt, None)})
    if told is not None and told.action is None and situation.phase is Phase.RUNNING:
        return status.model_copy(update={"last_failure": None})
    return status


def _changed(
    job: DistributedTrainingJob, status: JobStatus, situation: Situation, writes: tuple[Write, ...] = ()
) -> Decision:
    """A decision with the status only if it differs, and an event only if its reason is news."""
    wanted = situation.phase in {Phase.RUNNING, Phase.SUSPENDED}
    event = Event(EventType.NORMAL if wanted else EventType.WARNING, situation.reason, situation.message)
    return Decision(
        status=status if status != job.status else None,
        writes=writes,
        events=(event,) if _is_news(job.status, situation) else (),
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


def _creations(
    job: DistributedTrainingJob, topology: Topology, observed: Observed, status: JobStatus
) -> Iterator[Write]:
    """What the attempt of ``status`` needs and does not have."""
    if observed.service is None:
        yield CreateService(headless_service(job))
    if unfilled := _unfilled(status, topology, observed):
        build = pod_builder(job, topology, status.attempt)
        yield from (CreatePod(build(slot)) for slot in unfilled)


def _unfilled(status: JobStatus, topology: Topology, observed: Observed) -> list[Slot]:
    """Slots that need a pod and have none. Which of a role's removed pods had succeeded is not known, only how many."""
    slots: list[Slot] = []
    for group in topology.groups:
        missing = [slot for slot in group.slots if slot not in observed.filled]
        done = successes(group, status, observed) - observed.count(Bucket.SUCCEEDED, group.role)
        slots += missing[done:]
    return slots


def _failure_sentence(cause: Candidate, topology: Topology) -> str:
    kind = "rank" if topology.processes_per_replica == 1 else "node rank"
    rank = topology.node_ranks.get(Slot(cause.pod.role, cause.pod.index))
    place = f" ({kind} {rank})" if rank is not None else ""
    node = f" on {cause.pod.spec.node_name}" if cause.pod.spec.node_name else ""
    return f"{cause.pod.name}{place}{node}: {printable(cause.message)}"


def _announcement(job: DistributedTrainingJob, backoff_seconds: int) -> str:
    delay = f" in {backoff_seconds} s" if backoff_seconds else ""
    return f"restarting as attempt {job.status.attempt + 1}{delay}"


def _pods(count: int) -> str:
    return "1 pod" if count == 1 else f"{count} pods"
