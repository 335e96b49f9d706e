"""When to believe that nodes are lost, and when to doubt the one who says so."""

from collections.abc import Mapping
from typing import Final

from dtj.lifecycle.children import NodeCondition

LostNodes = Mapping[str, NodeCondition]
"""Nodes that count as lost: their names, and what the control plane says of them."""

UNBELIEVABLE_SHARE: Final = 0.55
SURELY_BELIEVABLE: Final = 2
"""Kubernetes stops or slows its own evictions beyond these (``pkg/controller/nodelifecycle``: ComputeZoneState,
``--unhealthy-zone-threshold``)."""

FEW: Final = 0.1
SECONDS_FOR_FEW: Final = 1.0
SECONDS_FOR_MANY: Final = 12.0
"""When the network fails, nodes are told silent one after another: leases are renewed every ten seconds and looked at
every five (``nodeLeaseDurationSeconds`` / 4, ``--node-monitor-period``). It takes a while to see how many they are."""


def lost_nodes(silent: Mapping[str, float], nodes: int) -> frozenset[str]:
    """The nodes that jobs are to be moved from.

    ``silent``: for how many seconds this process has known them to be silent; ``nodes``: how many there are in all.
    Where most of them, or all, fall silent, the network or the control plane is at fault: the trainings probably run
    on, and there is nowhere to move them. Their pods are then left to Kubernetes' own eviction.
    """
    if not silent or len(silent) == nodes:
        return frozenset()
    if len(silent) > SURELY_BELIEVABLE and len(silent) / nodes >= UNBELIEVABLE_SHARE:
        return frozenset()
    return frozenset(name for name, seconds in silent.items() if seconds >= patience(len(silent), nodes))


def patience(silent: int, nodes: int) -> float:
    """Seconds that a node must have been silent before it counts as lost."""
    return SECONDS_FOR_FEW if silent <= FEW * nodes else SECONDS_FOR_MANY
