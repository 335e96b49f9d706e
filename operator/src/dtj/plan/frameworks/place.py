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
    def rank_zero_host(self) -> str:
        first = self.topology.rank_zero
        return names.pod_host(self.job, first.role, first.index, self.attempt)
