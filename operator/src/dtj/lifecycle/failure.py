"""Which failure came first, and what kind it is.

One worker's end takes the others with it: they lose a peer in a collective and end within the same second, which is the
resolution of the kubelet's times. So the first to end is the cause, and among those that ended about the same time the
one whose last words do not tell of a lost peer.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from dtj.api import labels, names
from dtj.api.job import DistributedTrainingJob
from dtj.api.reasons import Reason
from dtj.api.spec import RuleAction
from dtj.api.status import MAX_MESSAGE, FailureClass, LastFailure
from dtj.lifecycle.agent_words import headline_of, lines_of
from dtj.lifecycle.children import ContainerStatus, ContainerTerminated, NodeCondition, ObjectMeta, Pod
from dtj.lifecycle.last_words import printable
from dtj.lifecycle.observe import Bucket, Observed
from dtj.plan.topology import Slot, Topology

SAME_MOMENT = timedelta(seconds=2)
"""Ends this close may be cause and consequence: one second of resolution, clocks of two nodes."""

SETTLING = timedelta(seconds=3)
"""How long to wait for the cause after a failure that looks like a consequence. A kubelet looks at its containers
once a second (generic PLEG, ``pkg/kubelet/kubelet.go``: genericPlegRelistPeriod), the second of the failure's time may
be over already, and the report takes its way."""

_CANNOT_START = frozenset({126, 127})
"""As a shell: not executable, not found."""
AGENT_SAYS = "dtj-agent: "
"""Before each line of the agent's own."""

_SIGNAL_EXIT_BASE = 128
_SIGABRT = 6
_LAST_SIGNAL = 64
_LOST_PEER = re.compile(
    r"connection (closed|reset|refused|aborted)|broken pipe|socket (closed|timeout)|lost peer|heartbeat|"
    r"gloo|nccl|distbackenderror|diststoreerror|distnetworkerror|horovodinternalerror|watchdog|unavailableerror",
    re.IGNORECASE,
)
_POD_REASONS = {
    "Evicted": (Reason.EVICTED, FailureClass.DISRUPTION),
    "Preempting": (Reason.PREEMPTED, FailureClass.DISRUPTION),
    "Preempted": (Reason.PREEMPTED, FailureClass.DISRUPTION),
    "NodeLost": (Reason.NODE_LOST, FailureClass.DISRUPTION),
    "NodeShutdown": (Reason.EVICTED, FailureClass.DISRUPTION),
    "Terminated": (Reason.EVICTED, FailureClass.DISRUPTION),
}
_DISRUPTION_REASONS = {
    "PreemptionByScheduler": Reason.PREEMPTED,
    "DeletionByPodGC": Reason.NODE_LOST,
    "DeletionByTaintManager": Reason.EVICTED,
    "EvictionByEvictionAPI": Reason.EVICTED,
    "TerminationByKubelet": Reason.EVICTED,
}
_CONTAINER_REASONS = {
    "OOMKilled": (Reason.OOM_KILLED, FailureClass.OUT_OF_MEMORY),
    "ContainerCannotRun": (Reason.CONTAINER_CANNOT_RUN, FailureClass.CONFIGURATION),
    "StartError": (Reason.CONTAINER_CANNOT_RUN, FailureClass.CONFIGURATION),
    # The node went down and came back: the kubelet, or containerd, does not know how the container ended.
    "ContainerStatusUnknown": (Reason.POD_FAILED, FailureClass.INFRASTRUCTURE),
    "Unknown": (Reason.POD_FAILED, FailureClass.INFRASTRUCTURE),
}


@dataclass(frozen=True)
class Candidate:
    """A pod that ended an attempt, with what is said of its end.

    ``time``: when it ended, or, where nobody knows that (``timed`` False), when it was looked at. ``absent``: it is not
    there any more. ``waits_for_capacity``: nothing is wrong with it but that the cluster is full.
    """

    pod: Pod
    time: datetime
    reason: Reason
    failure_class: FailureClass
    message: str
    container: ContainerStatus | None = None
    timed: bool = True
    absent: bool = False
    waits_for_capacity: bool = False

    @property
    def ended(self) -> ContainerTerminated | None:
        return self.container.state.terminated if self.container else None

    @property
    def may_be_consequence(self) -> bool:
        """The program ended itself and its last words tell of a lost peer."""
        ended = self.ended
        if ended is None or self.reason not in {Reason.NON_ZERO_EXIT, Reason.KILLED_BY_SIGNAL}:
            return False
        return signal_of(ended) in {0, _SIGABRT} and _LOST_PEER.search(ended.message) is not None


def candidates_in(observed: Observed, now: datetime) -> list[Candidate]:
    """All pods of the current attempt that ended badly, were deleted, or are out of reach."""
    ended = (*observed.pods[Bucket.FAILED], *observed.pods[Bucket.TERMINATING])
    lost = observed.pods[Bucket.LOST]
    return [candidate_of(pod, now) for pod in ended] + [
        _on_lost_node(pod, observed.lost_nodes[pod.spec.node_name], now) for pod in lost
    ]


def absent_pod(job: DistributedTrainingJob, slot: Slot, now: datetime) -> Candidate:
    """A pod that ran and is not there any more."""
    name = names.pod_name(job.metadata.name, slot.role, slot.index, job.status.attempt)
    known = {labels.ROLE: slot.role, labels.INDEX: str(slot.index), labels.ATTEMPT: str(job.status.attempt)}
    pod = Pod(ObjectMeta(name=name, labels=known))
    return Candidate(pod, now, Reason.POD_DELETED, FailureClass.DISRUPTION, _deleted(pod), timed=False, absent=True)


def root_cause(candidates: Sequence[Candidate]) -> Candidate:
    """The failure that the others followed from. ``candidates`` must not be empty."""
    first = min(candidates, key=lambda candidate: (candidate.absent, candidate.time))
    last_moment = first.time + SAME_MOMENT
    together = [candidate for candidate in candidates if candidate.absent or candidate.time <= last_moment]
    return min(together, key=lambda candidate: (candidate.may_be_consequence, candidate.absent, candidate.time))


def settling_time(cause: Candidate, now: datetime) -> timedelta:
    """How long to wait, counted from a failure, so that what led to it can still show itself.

    A node's clock may be a little ahead; one that is far ahead says nothing, and waiting for it might take for ever,
    as it would where nobody knows the time.
    """
    if not cause.timed:
        return timedelta(0)
    age = now - cause.time
    return SETTLING - max(age, timedelta(0)) if -SAME_MOMENT <= age < SETTLING else timedelta(0)


def candidate_of(pod: Pod, now: datetime) -> Candidate:
    """A pod that failed or is being deleted, with the kind of its end."""
    container = _ended_badly(pod)
    ended = container.state.terminated if container else None
    time = _time_of_end(pod, ended)
    reason, failure_class, message = _classified(pod, container)
    return Candidate(pod, time or now, reason, failure_class, message, container, timed=time is not None)


def _classified(pod: Pod, container: ContainerStatus | None) -> tuple[Reason, FailureClass, str]:
    """By what is said of the pod, then of the container, then by exit code: 137 alone proves nothing."""
    disruption = pod.condition("DisruptionTarget")
    if disruption is not None and disruption.status == "True":
        reason = _DISRUPTION_REASONS.get(disruption.reason, Reason.EVICTED)
        return reason, FailureClass.DISRUPTION, disruption.message
    if pod.deleted_before_its_end:
        return Reason.POD_DELETED, FailureClass.DISRUPTION, _deleted(pod)
    if pod.status.reason in _POD_REASONS:
        return *_POD_REASONS[pod.status.reason], pod.status.message
    ended = container.state.terminated if container else None
    if container is None or ended is None:
        message = pod.status.message or pod.status.reason or "the pod failed and no container says why"
        return Reason.POD_FAILED, FailureClass.INFRASTRUCTURE, message
    if ended.reason in _CONTAINER_REASONS:
        return *_CONTAINER_REASONS[ended.reason], _how_it_ended(container, ended)
    if _agent_could_not_start(ended):
        return Reason.CONTAINER_CANNOT_RUN, FailureClass.CONFIGURATION, _how_it_ended(container, ended)
    reason = Reason.KILLED_BY_SIGNAL if signal_of(ended) else Reason.NON_ZERO_EXIT
    return reason, FailureClass.APPLICATION, _how_it_ended(container, ended)


def _agent_could_not_start(ended: ContainerTerminated) -> bool:
    """The command does not exist, or is no program: what the runtime would have told without the agent."""
    return ended.exit_code in _CANNOT_START and (headline_of(ended.message) or "").startswith(AGENT_SAYS)


def _on_lost_node(pod: Pod, ready: NodeCondition, now: datetime) -> Candidate:
    said = ready.message.rstrip(".") or "its kubelet is not heard of any more"
    message = f"node {pod.spec.node_name} is lost: {said}"
    known = (time for time in (ready.last_heartbeat_time, ready.last_transition_time) if time is not None)
    time = min(known, default=None)
    return Candidate(pod, time or now, Reason.NODE_LOST, FailureClass.DISRUPTION, message, timed=time is not None)


def _time_of_end(pod: Pod, ended: ContainerTerminated | None) -> datetime | None:
    """Whoever disrupts a pod does so before its container ends, and before its peers miss it."""
    disruption = pod.condition("DisruptionTarget")
    times = (
        ended.finished_at if ended else None,
        pod.metadata.deletion_requested_at,
        disruption.last_transition_time if disruption is not None and disruption.status == "True" else None,
    )
    return min((time for time in times if time is not None), default=None)


def _deleted(pod: Pod) -> str:
    return f"pod {pod.name} was deleted by somebody else while its job was running"


def describe(cause: Candidate, topology: Topology, attempt: int, action: RuleAction | None) -> LastFailure:
    """The record for ``status.lastFailure``."""
    pod, ended = cause.pod, cause.ended
    slot = Slot(pod.role, pod.index)
    known = slot in topology.slots  # labels may have been tampered with
    return LastFailure(
        attempt=attempt,
        time=cause.time,
        failure_class=cause.failure_class,
        reason=cause.reason,
        message=printable(cause.message)[:MAX_MESSAGE],
        role=slot.role if known else None,
        index=slot.index if known else None,
        rank=topology.node_ranks.get(slot),
        pod=pod.name,
        node=pod.spec.node_name or None,
        container=cause.container.name if cause.container else None,
        exit_code=ended.exit_code if ended and ended.exit_code >= 0 else None,
        signal=(signal_of(ended) or None) if ended else None,
        last_lines=lines_of(ended.message) if ended else None,
        action=action,
    )


def signal_of(ended: ContainerTerminated) -> int:
    """Number of the signal that ended the process, 0 if none did. Shells and runtimes report it as 128 + number."""
    if 0 < ended.signal <= _LAST_SIGNAL:
        return ended.signal
    return (
        ended.exit_code - _SIGNAL_EXIT_BASE
        if _SIGNAL_EXIT_BASE < ended.exit_code <= _SIGNAL_EXIT_BASE + _LAST_SIGNAL
        else 0
    )


def _ended_badly(pod: Pod) -> ContainerStatus | None:
    """The trainer container if it failed, else the first container that did, init containers included."""
    statuses = [*pod.status.init_container_statuses, *pod.status.container_statuses]
    if pod.trainer is not None:
        statuses.insert(0, pod.trainer)
    return next((status for status in statuses if status.state.terminated and status.state.terminated.exit_code), None)


def _how_it_ended(container: ContainerStatus, ended: ContainerTerminated) -> str:
    said = headline_of(ended.message)
    how = f"signal {signal_of(ended)}" if signal_of(ended) else f"exit code {ended.exit_code}"
    out_of_memory = ", out of memory" if ended.reason == "OOMKilled" else ""
    summary = f"container {container.name} ended with {how}{out_of_memory}"
    return f"{summary}: {said}" if said else summary
