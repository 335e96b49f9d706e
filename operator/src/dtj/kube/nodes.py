"""The nodes that the control plane has lost touch with."""

import asyncio
from collections.abc import Callable

from dtj.kube import paths
from dtj.kube.client import Client
from dtj.kube.reflector import Reflector
from dtj.lifecycle.children import Node, NodeCondition
from dtj.lifecycle.node_loss import LostNodes, lost_nodes, patience


class Nodes:
    """All nodes of the cluster.

    ``on_lost_changed`` is called with the names of the nodes that begin or cease to count as lost; not for heartbeats.
    Must not block.
    """

    def __init__(self, client: Client, on_lost_changed: Callable[[frozenset[str]], None]) -> None:
        self._on_lost_changed = on_lost_changed
        self._silent: dict[str, NodeCondition] = {}
        self._silent_since: dict[str, float] = {}
        self._lost: LostNodes = {}
        self._timer: asyncio.TimerHandle | None = None
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
        if now == self._silent.get(name) and before is not None and after is not None:
            return
        if now is None:
            self._silent.pop(name, None)
            self._silent_since.pop(name, None)
        else:
            self._silent[name] = now
            self._silent_since.setdefault(name, asyncio.get_running_loop().time())
        self._judge()

    def _judge(self) -> None:
        """Find out who counts as lost now, and look again when the next one may."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        loop, nodes = asyncio.get_running_loop(), len(self.reflector)
        ages = {name: loop.time() - since for name, since in self._silent_since.items()}
        now = lost_nodes(ages, nodes)
        was = self._lost
        self._lost = {name: self._silent[name] for name in sorted(now)}
        if changed := was.keys() ^ now:
            self._on_lost_changed(frozenset(changed))
        wait = patience(len(ages), nodes)
        if left := [wait - age for age in ages.values() if age < wait]:
            self._timer = loop.call_later(min(left), self._judge)


def _name(node: Node) -> str:
    return node.metadata.name
