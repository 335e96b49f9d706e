"""The place of this process in its job, read from the variables that the operator sets in the trainer container."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

JOB_NAME = "DTJ_JOB_NAME"
RANKS = ("RANK", "HOROVOD_RANK", "JAX_PROCESS_ID")
"""Where frameworks find the rank of a process, in the order in which they are believed."""

LOCAL_RANKS = ("LOCAL_RANK", "HOROVOD_LOCAL_RANK", "DTJ_LOCAL_RANK")


@dataclass(frozen=True)
class JobEnvironment:
    """One process of one attempt of a job. All counts are at least 1, all indices start at 0."""

    job_name: str
    job_uid: str
    namespace: str
    role: str
    replica_index: int
    attempt: int
    node_count: int
    processes_per_replica: int
    node_rank: int | None
    """Rank of this pod among the pods that train; None for roles that hold no rank (``ps``, ``evaluator``)."""
    local_rank: int
    """Index of this process in its pod."""

    @property
    def rank(self) -> int | None:
        """Rank of this process among all that train; None for roles that hold no rank."""
        return None if self.node_rank is None else self.node_rank * self.processes_per_replica + self.local_rank

    @property
    def world_size(self) -> int:
        """Processes that train, over all pods."""
        return self.node_count * self.processes_per_replica


def from_environment(environ: Mapping[str, str] | None = None) -> JobEnvironment | None:
    """Read ``environ`` (default: this process's own); None outside of a job.

    Raises ValueError, naming the variable, when one is missing or is no number: half a job's environment is
    never taken for a whole one.
    """
    values = os.environ if environ is None else environ
    if JOB_NAME not in values:
        return None
    return JobEnvironment(
        job_name=values[JOB_NAME],
        job_uid=_text(values, "DTJ_JOB_UID"),
        namespace=_text(values, "DTJ_NAMESPACE"),
        role=_text(values, "DTJ_ROLE"),
        replica_index=_number(values, "DTJ_REPLICA_INDEX", 0),
        attempt=_number(values, "DTJ_ATTEMPT", 0),
        node_count=_number(values, "DTJ_NNODES", 1),
        processes_per_replica=_number(values, "DTJ_PROCESSES_PER_REPLICA", 1),
        node_rank=_number(values, "DTJ_NODE_RANK", 0) if values.get("DTJ_NODE_RANK") else None,
        local_rank=_local_rank(values),
    )


@dataclass(frozen=True)
class ProcessRank:
    """Which process reports: ``rank`` among all that train, None where it holds none; ``local`` in its pod."""

    rank: int | None
    local: int


def process_rank(environ: Mapping[str, str] | None = None) -> ProcessRank:
    """What the framework's variables say, or else the operator's; one that holds no number counts as not set."""
    values = os.environ if environ is None else environ
    local = _first_number(values, LOCAL_RANKS) or 0
    rank = _first_number(values, RANKS)
    node_rank = _first_number(values, ("DTJ_NODE_RANK",))
    if rank is None and node_rank is not None:
        rank = node_rank * (_first_number(values, ("DTJ_PROCESSES_PER_REPLICA",)) or 1) + local
    return ProcessRank(rank, local)


def node_count() -> int:
    """Pods that train, as the operator says; 1 where it does not."""
    return _first_number(os.environ, ("DTJ_NNODES",)) or 1


def _first_number(values: Mapping[str, str], names: Sequence[str]) -> int | None:
    texts = (values.get(name, "") for name in names)
    return next((int(text) for text in texts if text.isascii() and text.isdigit()), None)


def _local_rank(values: Mapping[str, str]) -> int:
    # Set by whoever starts the processes of a pod. What torchrun and its like say comes first: started by the agent as
    # its one process, they hand its variable on to all of theirs.
    name = next((name for name in LOCAL_RANKS if values.get(name)), None)
    return 0 if name is None else _number(values, name, 0)


def _text(values: Mapping[str, str], name: str) -> str:
    if not values.get(name):
        raise ValueError(f"environment variable {name} is not set, though {JOB_NAME} is")
    return values[name]


def _number(values: Mapping[str, str], name: str, minimum: int) -> int:
    text = _text(values, name)
    if not (text.isascii() and text.isdigit()) or int(text) < minimum:
        raise ValueError(f"environment variable {name} is {text!r}: it must be a whole number of at least {minimum}")
    return int(text)
