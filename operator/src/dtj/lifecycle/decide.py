"""``decide(job, observed, now)``: everything the operator does for a job is the value of this pure function."""

from collections.abc import Iterator, Sequence
from datetime import datetime

from dtj.api import labels, names
from dtj.api.conditions import ConditionType
from dtj.api.job import DistributedTrainingJob
from dtj.api.reasons import Reason
from dtj.api.spec import CleanupPolicy, RuleAction
from dtj.api.status import JobStatus, LastFailure, Phase
from dtj.lifecycle import status as status_of
from dtj.lifecycle.children import ObjectMeta, Pod
from dtj.lifecycle.decision import (
    NOTHING,
    CreatePod,
    CreateService,
    Decision,
    DeletePod,
    DeleteService,
    Event,
    EventType,
    Write,
)
from dtj.lifecycle.failure import describe, root_cause, settling_time
from dtj.lifecycle.observe import Bucket, Observed, occupies_node
from dtj.lifecycle.status import Situation
from dtj.lifecycle.waiting import ACTIONABLE, why_waiting
from dtj.plan.pods import pod_builder
from dtj.plan.services import headless_service
from dtj.plan.topology import Slot, Topology, topology_of
from dtj.plan.validation import Mistake, mistakes_in

SURVIVOR_GRACE_SECONDS = 10
"""For pods whose gang is broken: they are blocked in a collective, and their GPUs are wanted."""


def decide(job: DistributedTrainingJob, observed: Observed, now: datetime) -> Decision:
    """What to do next for a job. ``now`` is an aware time; nothing else of the world outside the arguments is read."""
    if job.spec.managed_by != names.MANAGER or job.metadata.deletion_timestamp is not None:
        return NOTHING
    if status_of.is_finished(job.status):
        return Decision(writes=tuple(_cleanup(job, observed)))
    if not status_of.has_begun(job.status) and (mistakes := mistakes_in(job)):
        return _refuse(job, mistakes, now)
    topology = topology_of(job.spec)
    if not status_of.has_begun(job.status):
        return _begin(job, topology, observed, now)
    if broken := _broken(job, topology, observed):
        return _fail(job, topology, observed, broken, now)
    if _succeeded(job, topology, observed):
        return _complete(job, topology, observed, now)
    return _go_on(job, topology, observed, now)


def _refuse(job: DistributedTrainingJob, mistakes: Sequence[Mistake], now: datetime) -> Decision:
    situation = Situation(Phase.PENDING, Reason.INVALID_SPEC, "; ".join(str(mistake) for mistake in mistakes))
    return _changed(job, status_of.with_situation(job, situation, now), situation)


def _begin(job: DistributedTrainingJob, topology: Topology, observed: Observed, now: datetime) -> Decision:
    """Commit the attempt; its objects are created only after that."""
    count = len(topology.slots)
    situation = Situation(
        Phase.STARTING, Reason.PODS_STARTING, f"attempt {job.status.attempt}: creating {_pods(count)}"
    )
    return Decision(
        status=status_of.status_in(situation, job, topology, observed, now),
        writes=tuple(_creations(job, topology, observed)),
        events=(Event(EventType.NORMAL, situation.reason, situation.message),),
    )


def _broken(job: DistributedTrainingJob, topology: Topology, observed: Observed) -> tuple[Pod, ...]:
    """Pods that make the attempt invalid: failed, deleted by somebody, or gone after all had run."""
    all_ran = status_of.has_condition(job.status, ConditionType.RUNNING)
    gone = [_deleted_pod(job, slot) for slot in _unfilled(job, topology, observed)] if all_ran else []
    return (*observed.pods[Bucket.FAILED], *observed.pods[Bucket.TERMINATING], *gone)


def _fail(
    job: DistributedTrainingJob, topology: Topology, observed: Observed, broken: Sequence[Pod], now: datetime
) -> Decision:
    cause = root_cause(broken, now)
    survivors = [pod for bucket in (Bucket.PENDING, Bucket.RUNNING) for pod in observed.pods[bucket]]
    if survivors and (wait := settling_time(cause, now)):
        return Decision(requeue_after=wait)
    failure = describe(cause, topology, job.status.attempt, RuleAction.FAIL_JOB)
    situation = Situation(Phase.FAILED, cause.reason, _failure_sentence(failure, topology))
    status = status_of.status_in(situation, job, topology, observed, now)
    return Decision(
        status=status.model_copy(update={"last_failure": failure}),
        writes=tuple(_cleanup(job, observed)),
        events=(Event(EventType.WARNING, situation.reason, situation.message),),
    )


def _succeeded(job: DistributedTrainingJob, topology: Topology, observed: Observed) -> bool:
    workers = topology.group(names.WORKER_ROLE)
    return status_of.successes(workers, job.status, observed) == workers.replicas


def _complete(job: DistributedTrainingJob, topology: Topology, observed: Observed, now: datetime) -> Decision:
    count = sum(status_of.successes(group, job.status, observed) for group in topology.groups)
    situation = Situation(Phase.SUCCEEDED, Reason.SUCCEEDED, f"{_pods(count)} succeeded")
    return Decision(
        status=status_of.status_in(situation, job, topology, observed, now),
        writes=tuple(_cleanup(job, observed)),
        events=(Event(EventType.NORMAL, situation.reason, situation.message),),
    )


def _go_on(job: DistributedTrainingJob, topology: Topology, observed: Observed, now: datetime) -> Decision:
    """Create what is missing and tell how far the start is."""
    situation = _situation(job, topology, observed)
    status = status_of.status_in(situation, job, topology, observed, now)
    blocked = observed.obstacle is not None and observed.obstacle.blocks(job.metadata.generation)
    writes = () if blocked else tuple(_creations(job, topology, observed))
    return _changed(job, status, situation, writes)


def _situation(job: DistributedTrainingJob, topology: Topology, observed: Observed) -> Situation:
    expected = len(topology.slots)
    running = observed.count(Bucket.RUNNING)
    succeeded = sum(status_of.successes(group, job.status, observed) for group in topology.groups)
    if running + succeeded == expected:
        if succeeded:
            message = f"{running} of {_pods(expected)} running, {succeeded} succeeded"
            return Situation(Phase.RUNNING, Reason.SOME_PODS_FINISHED, message)
        return Situation(Phase.RUNNING, Reason.ALL_PODS_RUNNING, f"{_pods(expected)} running")
    if observed.obstacle is not None:
        return Situation(Phase.PENDING, observed.obstacle.reason, observed.obstacle.message)
    waiting = why_waiting(observed.pods[Bucket.PENDING])
    if waiting is not None and waiting.reason in ACTIONABLE:
        message = f"{waiting.pods} of {_pods(expected)}: {waiting.message}"
        return Situation(Phase.PENDING, waiting.reason, message)
    reason = waiting.reason if waiting else Reason.PODS_STARTING
    return Situation(Phase.STARTING, reason, f"{running + succeeded} of {_pods(expected)} running")


def _changed(
    job: DistributedTrainingJob, status: JobStatus, situation: Situation, writes: tuple[Write, ...] = ()
) -> Decision:
    """A decision with the status only if it differs, and an event only if its reason is news."""
    news = status.reason != job.status.reason
    if situation.phase is Phase.RUNNING:
        news = not status_of.has_condition(job.status, ConditionType.RUNNING)
    elif situation.phase is not Phase.PENDING:
        news = False
    kind = EventType.NORMAL if situation.phase is Phase.RUNNING else EventType.WARNING
    return Decision(
        status=status if status != job.status else None,
        writes=writes,
        events=(Event(kind, situation.reason, situation.message),) if news else (),
    )


def _creations(job: DistributedTrainingJob, topology: Topology, observed: Observed) -> Iterator[Write]:
    if observed.service is None:
        yield CreateService(headless_service(job))
    if unfilled := _unfilled(job, topology, observed):
        build = pod_builder(job, topology, job.status.attempt)
        yield from (CreatePod(build(slot)) for slot in unfilled)


def _unfilled(job: DistributedTrainingJob, topology: Topology, observed: Observed) -> list[Slot]:
    """Slots that need a pod and have none. Which of a role's removed pods had succeeded is not known, only how many."""
    slots: list[Slot] = []
    for group in topology.groups:
        missing = [slot for slot in group.slots if slot not in observed.filled]
        done = status_of.successes(group, job.status, observed) - observed.count(Bucket.SUCCEEDED, group.role)
        slots += missing[done:]
    return slots


def _cleanup(job: DistributedTrainingJob, observed: Observed) -> Iterator[Write]:
    """What ``spec.cleanupPolicy`` asks for at the end of a job."""
    policy = job.spec.cleanup_policy
    if policy is CleanupPolicy.NONE:
        return
    for pod in (*observed.current, *observed.pods[Bucket.OLDER]):
        if not pod.terminating and (policy is CleanupPolicy.ALL or occupies_node(pod)):
            yield DeletePod(pod.name, pod.metadata.uid, SURVIVOR_GRACE_SECONDS)
    if policy is CleanupPolicy.ALL and observed.service is not None:
        yield DeleteService(observed.service.metadata.name, observed.service.metadata.uid)


def _deleted_pod(job: DistributedTrainingJob, slot: Slot) -> Pod:
    """What is known of a pod that is not there any more."""
    name = names.pod_name(job.metadata.name, slot.role, slot.index, job.status.attempt)
    known = {labels.ROLE: slot.role, labels.INDEX: str(slot.index), labels.ATTEMPT: str(job.status.attempt)}
    return Pod(ObjectMeta(name=name, labels=known, deletion_timestamp=job.status.running_time))


def _failure_sentence(failure: LastFailure, topology: Topology) -> str:
    kind = "rank" if topology.processes_per_replica == 1 else "node rank"
    rank = f" ({kind} {failure.rank})" if failure.rank is not None else ""
    node = f" on {failure.node}" if failure.node else ""
    return f"{failure.pod}{rank}{node}: {failure.message}"


def _pods(count: int) -> str:
    return "1 pod" if count == 1 else f"{count} pods"
