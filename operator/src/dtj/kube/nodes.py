"""The nodes that the control plane has lost touch with."""

from collections.abc import Callable

from dtj.kube import paths
from dtj.kube.client import Client
from dtj.kube.reflector import Reflector
from dtj.lifecycle.children import Node, NodeCondition
from dtj.lifecycle.node_loss import LostNodes, believable


class Nodes:
    """All nodes of the cluster.

    ``on_lost_changed`` is called with a node's name when it begins or ceases to count as lost; not for heartbeats.
    Must not block.
    """

    def __init__(self, client: Client, on_lost_changed: Callable[[str], None]) -> None:
        self._on_lost_changed = on_lost_changed
        self._silent: dict[str, NodeCondition] = {}
        self._lost: LostNodes = {}
        self.reflector = Reflector(client, paths.NODES, None, Node, _name, self._take_in)

    def lost(self) -> LostNodes:
        """Return the condition Ready of each node that counts as lost, by its name: a view that stays as it is."""
        return self._lost

    def _take_in(self, before: Node | None, after: Node | None) -> None:
        node = after or before
        assert node is not None, "a change has at least one side"  # noqa: S101
        name = node.metadata.name
        # A node made anew under its name may be listed before it is known that the earlier one is gone.
        conditions = (each.lost for each in self.reflector.group(name))
        now = next((condition for condition in conditions if condition is not None), None)
        if now != self._silent.get(name):
            others = {other: condition for other, condition in self._silent.items() if other != name}
            self._silent = {**others, name: now} if now is not None else others
        elif before is not None and after is not None:
            return
        # Who counts as lost depends on how many nodes there are, and on how many of them are silent.
        was, self._lost = self._lost, believable(self._silent, len(self.reflector))
        for changed in was.keys() ^ self._lost.keys():
            self._on_lost_changed(changed)


def _name(node: Node) -> str:
    return node.metadata.name
