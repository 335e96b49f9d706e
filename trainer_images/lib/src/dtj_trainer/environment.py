"""The place of this process in its job, read from the variables that the operator sets in the trainer container."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

JOB_NAME = "DTJ_JOB_NAME"


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


def _local_rank(values: Mapping[str, str]) -> int:
    # Set by whoever starts the processes of a pod, the agent or torchrun and its like; one process per pod needs none.
    name = next((name for name in ("DTJ_LOCAL_RANK", "LOCAL_RANK") if values.get(name)), None)
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
