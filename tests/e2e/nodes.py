"""Nodes of the bed: to lose one for a while, and what the control plane says of it."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

from tests.cluster import bed
from tests.e2e.jobs import condition
from tests.kubectl import Kubectl, Object, eventually

UNKNOWN_WITHIN = 90.0


@contextmanager
def stopped(bed_name: str, node: str, kubectl: Kubectl) -> Iterator[None]:
    """Kill a node as a power cut would; after the block it runs again and takes pods."""
    try:
        bed.stop_node(bed_name, node)
        yield
    finally:
        bed.start_node(bed_name, node)
        eventually(lambda: kubectl.get("node", node)["spec"].get("taints", []), lambda taints: taints == [])


def lost_since(kubectl: Kubectl, node: str) -> datetime:
    """The time at which the control plane gave up the node, once it has."""
    ready = eventually(lambda: _ready(kubectl, node), lambda found: found["status"] == "Unknown", UNKNOWN_WITHIN)
    return datetime.fromisoformat(ready["lastTransitionTime"])


def _ready(kubectl: Kubectl, node: str) -> Object:
    return condition(kubectl.get("node", node)["status"], "Ready")
