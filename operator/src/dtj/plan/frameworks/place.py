"""A pod's place in its gang: all that a wiring may know."""

from dataclasses import dataclass

from dtj.api import names
from dtj.plan.topology import Slot, Topology


@dataclass(frozen=True)
class Place:
    """One slot of one attempt of one job."""

    job: str
    namespace: str
    job_uid: str
    attempt: int
    slot: Slot
    topology: Topology

    @property
    def node_rank(self) -> int | None:
        """None for roles outside the ranked gang (parameter servers, evaluators)."""
        return self.topology.node_ranks.get(self.slot)

    @property
    def host(self) -> str:
        return self._host_of(self.slot)

    @property
    def rank_zero_host(self) -> str:
        return self._host_of(self.topology.rank_zero)

    @property
    def ranked_hosts(self) -> tuple[str, ...]:
        """Of all pods that have a rank, in its order."""
        return tuple(self._host_of(slot) for slot in self.topology.node_ranks)

    def _host_of(self, slot: Slot) -> str:
        return names.pod_host(self.job, slot.role, slot.index, self.attempt)
