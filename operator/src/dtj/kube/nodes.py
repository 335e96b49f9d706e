"""The nodes that the control plane has lost touch with."""

from collections.abc import Callable

from dtj.kube import paths
from dtj.kube.client import Client
from dtj.kube.reflector import Reflector
from dtj.lifecycle.children import Node, NodeCondition


class Nodes:
    """All nodes of the cluster.

    ``on_lost_changed`` is called with a node's name when it becomes lost and when it is lost no more, be it heard of
    again or deleted; not for heartbeats. Must not block.
    """

    def __init__(self, client: Client, on_lost_changed: Callable[[str], None]) -> None:
        self._on_lost_changed = on_lost_changed
        self._lost: dict[str, NodeCondition] = {}
        self.reflector = Reflector(client, paths.NODES, None, Node, _name, self._take_in)

    def lost(self) -> dict[str, NodeCondition]:
        """Return the condition Ready of each lost node, by the node's name: a view that stays as it is."""
        return self._lost

    def _take_in(self, before: Node | None, after: Node | None) -> None:
        node = after or before
        assert node is not None, "a change has at least one side"  # noqa: S101
        name = node.metadata.name
        # A node made anew under its name may be listed before it is known that the earlier one is gone.
        conditions = (each.lost for each in self.reflector.group(name))
        now = next((condition for condition in conditions if condition is not None), None)
        was = self._lost.get(name)
        if now == was:
            return
        others = {other: condition for other, condition in self._lost.items() if other != name}
        self._lost = {**others, name: now} if now is not None else others
        if (now is None) != (was is None):
            self._on_lost_changed(name)


def _name(node: Node) -> str:
    return node.metadata.name
