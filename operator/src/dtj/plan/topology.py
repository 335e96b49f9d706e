"""Who is who in a gang: roles, slots, node ranks, world size.

Called by everything in ``plan`` and by ``lifecycle.observe``.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from dtj.api.names import TRAINER_CONTAINER, WORKER_ROLE
from dtj.api.spec import Framework, JobSpec
from dtj.plan.accelerators import accelerators

LEADING_ROLES = ("master", "chief", "launcher")
_UNRANKED_ROLES = frozenset({"ps", "evaluator"})
_ONE_PROCESS_BY_DEFAULT = frozenset({Framework.TENSORFLOW, Framework.JAX})
"""One process uses all accelerators of its pod: what both frameworks' guides to distributed training show."""


@dataclass(frozen=True, order=True, slots=True)
class Slot:
    """A place in the gang that one pod per attempt fills."""

    role: str
    index: int


@dataclass(frozen=True)
class Group:
    """A role with the number of its pods and their template (a PodTemplateSpec)."""

    role: str
    replicas: int
    template: dict[str, Any]

    @property
    def slots(self) -> tuple[Slot, ...]:
        return tuple(Slot(self.role, index) for index in range(self.replicas))

    @property
    def ranked(self) -> bool:
        return self.role not in _UNRANKED_ROLES


@dataclass(frozen=True)
class Topology:
    """All groups, leading roles first, then the others in the order written, workers last."""

    groups: tuple[Group, ...]
    processes_per_replica: int

    @cached_property
    def slots(self) -> tuple[Slot, ...]:
        return tuple(slot for group in self.groups for slot in group.slots)

    @cached_property
    def node_ranks(self) -> dict[Slot, int]:
        """Node rank of each slot that has one: 0 … nnodes - 1."""
        ranked = (slot for group in self.groups if group.ranked for slot in group.slots)
        return {slot: rank for rank, slot in enumerate(ranked)}

    @property
    def nnodes(self) -> int:
        """Number of ranked pods, what launchers call nodes."""
        return len(self.node_ranks)

    @property
    def world_size(self) -> int:
        """Number of training processes."""
        return self.nnodes * self.processes_per_replica

    @cached_property
    def rank_zero(self) -> Slot:
        return next(iter(self.node_ranks))

    def group(self, role: str) -> Group:
        return next(group for group in self.groups if group.role == role)


def topology_of(spec: JobSpec) -> Topology:
    groups = [Group(role.name, role.replicas, role.template) for role in spec.roles or ()]
    groups.sort(key=lambda group: group.role not in LEADING_ROLES)
    groups.append(Group(WORKER_ROLE, spec.replicas, spec.template))
    return Topology(tuple(groups), processes_per_replica(spec))


def processes_per_replica(spec: JobSpec) -> int:
    """As written, else what the framework uses: one for each accelerator of the trainer container, or just one."""
    if spec.processes_per_replica is not None:
        return spec.processes_per_replica
    if spec.framework in _ONE_PROCESS_BY_DEFAULT:
        return 1
    return sum(accelerators(trainer_container(spec.template)).values()) or 1


def trainer_container(template: dict[str, Any]) -> dict[str, Any]:
    """The container named ``trainer``, else the first."""
    containers: list[dict[str, Any]] = template["spec"]["containers"]
    return next((container for container in containers if container.get("name") == TRAINER_CONTAINER), containers[0])
