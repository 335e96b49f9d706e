"""When to believe that nodes are lost, and when to doubt the one who says so."""

from collections.abc import Mapping
from typing import Final

from dtj.lifecycle.children import NodeCondition

LostNodes = Mapping[str, NodeCondition]
"""Nodes that the control plane does not hear of any more: their names, and what it says of them."""

UNBELIEVABLE_SHARE: Final = 0.55
SURELY_BELIEVABLE: Final = 2
"""Kubernetes stops or slows its own evictions beyond these (``pkg/controller/nodelifecycle``: ComputeZoneState,
``--unhealthy-zone-threshold``)."""


def believable(lost: LostNodes, nodes: int) -> LostNodes:
    """The nodes that jobs may be moved from. ``nodes``: how many there are in all.

    Where most of the nodes, or all, fall silent at once, the network or the control plane is at fault; the trainings
    probably run on, and there is nowhere to move them. Their pods are then left to Kubernetes' own eviction.
    """
    if len(lost) == nodes or (len(lost) > SURELY_BELIEVABLE and len(lost) / nodes >= UNBELIEVABLE_SHARE):
        return {}
    return lost
