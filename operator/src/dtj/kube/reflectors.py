"""The objects of one kind in all namespaces that are watched: one reflector for the cluster, or one for each."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from dtj.kube.reflector import Child, Reflector

T = TypeVar("T", bound=Child)

EVERYWHERE = ""


class Reflectors(Generic[T]):
    """``make`` gives the reflector of a namespace, that of the whole cluster for ``EVERYWHERE``."""

    def __init__(self, make: Callable[[str], Reflector[T]], namespaces: Sequence[str]) -> None:
        self._by_namespace = {namespace: make(namespace) for namespace in namespaces or (EVERYWHERE,)}

    def of(self, namespace: str) -> Reflector[T]:
        """Return the one that holds this namespace, which must be a watched one."""
        return self._by_namespace[EVERYWHERE if EVERYWHERE in self._by_namespace else namespace]

    def all(self) -> tuple[T, ...]:
        return tuple(one for each in self.each() for one in each.all())

    def each(self) -> tuple[Reflector[T], ...]:
        return tuple(self._by_namespace.values())

    @property
    def heard_at(self) -> float:
        """When the most silent of the watches spoke last, in seconds of the event loop."""
        return min(each.heard_at for each in self.each())

    async def synced(self) -> None:
        for each in self.each():
            await each.synced.wait()

    async def run(self) -> None:
        """Follow all of them for ever."""
        async with asyncio.TaskGroup() as group:
            for each in self.each():
                group.create_task(each.run())
