"""Sentences of the status and of events that more than one decision needs."""

from dtj.api.status import JobStatus
from dtj.lifecycle.failure import Candidate
from dtj.lifecycle.last_words import printable
from dtj.plan.topology import Slot, Topology


def pods_in_words(count: int) -> str:
    return "1 pod" if count == 1 else f"{count} pods"


def failure_in_words(cause: Candidate, topology: Topology) -> str:
    """Which pod, where, and how it ended."""
    kind = "rank" if topology.processes_per_replica == 1 else "node rank"
    rank = topology.node_ranks.get(Slot(cause.pod.role, cause.pod.index))
    place = f" ({kind} {rank})" if rank is not None else ""
    node = f" on {cause.pod.spec.node_name}" if cause.pod.spec.node_name else ""
    return f"{cause.pod.name}{place}{node}: {printable(cause.message)}"


def next_attempt_in_words(status: JobStatus, backoff_seconds: int) -> str:
    delay = f" in {backoff_seconds} s" if backoff_seconds else ""
    return f"restarting as attempt {status.attempt + 1}{delay}"
