"""Which nodes are lost, and when that is told, against a server that lists and watches them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import orjson
import pytest

from dtj.kube.client import Client
from dtj.kube.nodes import Nodes
from tests.unit.kube.scripted_server import Answer, ScriptedServer, json, silence, stream

EXPIRED = orjson.dumps({"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired"}}) + b"\n"
LOST = "Unknown"
HEALTHY = "True"
BROKEN = "False"


def node(name: str, version: int, ready: str | None, *, uid: str = "", message: str = "") -> dict[str, Any]:
    """As the API server sends it. ``ready``: status of the condition Ready, None where it was never written."""
    conditions = [{"type": "MemoryPressure", "status": "Unknown"}]
    if ready is not None:
        conditions.append({"type": "Ready", "status": ready, "reason": "Some", "message": message})
    metadata = {"name": name, "uid": uid or f"uid-of-{name}", "resourceVersion": str(version)}
    return {"kind": "Node", "metadata": metadata, "spec": {}, "status": {"conditions": conditions}}


OTHERS = [node(name, 1, HEALTHY) for name in ("w", "x", "y", "z")]
"""Enough healthy nodes that a lost one is believed to be lost."""


def listed(*nodes: dict[str, Any], version: int = 5) -> Answer:
    return json({"metadata": {"resourceVersion": str(version)}, "items": [*OTHERS, *nodes]})


def modified(name: str, version: int, ready: str | None, message: str = "") -> bytes:
    return orjson.dumps({"type": "MODIFIED", "object": node(name, version, ready, message=message)}) + b"\n"


def deleted(name: str, version: int) -> bytes:
    return orjson.dumps({"type": "DELETED", "object": node(name, version, LOST)}) + b"\n"


class Followed:
    """The nodes at work, with all they told."""

    def __init__(self, client: Client) -> None:
        self.told: list[str] = []
        self.nodes = Nodes(client, self._tell)

    def _tell(self, name: str) -> None:
        self.told.append(f"{name} {'lost' if name in self.nodes.lost() else 'not lost'}")

    @property
    def lost(self) -> list[str]:
        return sorted(self.nodes.lost())


@asynccontextmanager
async def followed(client: Client, server: ScriptedServer, *answers: Answer) -> AsyncIterator[Followed]:
    server.will(*answers, silence())
    following = Followed(client)
    task = asyncio.create_task(following.nodes.reflector.run())
    try:
        async with asyncio.timeout(600):
            await server.used_up.wait()
        await asyncio.sleep(1)
        yield following
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_all_nodes_are_read(server: ScriptedServer, client: Client) -> None:
    async with followed(client, server, listed(node("a", 1, HEALTHY))) as following:
        assert following.nodes.reflector.synced.is_set()

    assert [seen.path for seen in server.seen] == ["/api/v1/nodes"] * 2
    assert server.seen[0].query == {"limit": "500"}


LISTED: dict[str, tuple[str | None, list[str]]] = {
    "healthy": (HEALTHY, []),
    "its kubelet says that it is not ready": (BROKEN, []),
    "not heard of": (LOST, ["a"]),
    "just registered": (None, []),
}


@pytest.mark.parametrize(("ready", "lost"), LISTED.values(), ids=LISTED.keys())
async def test_a_node_at_the_start(server: ScriptedServer, client: Client, ready: str | None, lost: list[str]) -> None:
    async with followed(client, server, listed(node("a", 1, ready))) as following:
        assert following.lost == lost
        assert following.told == [f"{name} lost" for name in lost]


HISTORIES: dict[str, tuple[str, list[bytes], list[str], list[str]]] = {
    "heartbeats": (HEALTHY, [modified("a", 6, HEALTHY), modified("a", 7, HEALTHY)], [], []),
    "it becomes lost": (HEALTHY, [modified("a", 6, LOST)], ["a"], ["a lost"]),
    "it stays lost": (LOST, [modified("a", 6, LOST), modified("a", 7, LOST, "since noon")], ["a"], ["a lost"]),
    "it is heard of again": (LOST, [modified("a", 6, HEALTHY)], [], ["a lost", "a not lost"]),
    "it is heard of again, but not ready": (LOST, [modified("a", 6, BROKEN)], [], ["a lost", "a not lost"]),
    "it comes and goes": (
        HEALTHY,
        [modified("a", 6, LOST), modified("a", 7, HEALTHY), modified("a", 8, LOST)],
        ["a"],
        ["a lost", "a not lost", "a lost"],
    ),
    "it is deleted while lost": (LOST, [deleted("a", 6)], [], ["a lost", "a not lost"]),
    "it is deleted while healthy": (HEALTHY, [deleted("a", 6)], [], []),
    "another one is lost too": (LOST, [modified("b", 6, LOST)], ["a", "b"], ["a lost", "b lost"]),
}


@pytest.mark.parametrize(("first", "events", "lost", "told"), HISTORIES.values(), ids=HISTORIES.keys())
async def test_the_life_of_a_node(
    server: ScriptedServer, client: Client, first: str, events: list[bytes], lost: list[str], told: list[str]
) -> None:
    async with followed(client, server, listed(node("a", 1, first)), stream(events)) as following:
        assert following.lost == lost
        assert following.told == told


MADE_ANEW: dict[str, tuple[str, str, list[str], list[str]]] = {
    "the lost one is replaced by a healthy one": (LOST, HEALTHY, [], ["a lost", "a not lost"]),
    "the healthy one is replaced by a lost one": (HEALTHY, LOST, ["a"], ["a lost"]),
    "the lost one is replaced by a lost one": (LOST, LOST, ["a"], ["a lost"]),
}


@pytest.mark.parametrize(("first", "second", "lost", "told"), MADE_ANEW.values(), ids=MADE_ANEW.keys())
async def test_a_node_made_anew_under_its_name_while_the_watch_was_broken(
    server: ScriptedServer, client: Client, first: str, second: str, lost: list[str], told: list[str]
) -> None:
    anew = listed(node("a", 7, second, uid="another"), version=8)
    async with followed(client, server, listed(node("a", 1, first)), stream([EXPIRED]), anew) as following:
        assert following.lost == lost
        assert following.told == told


async def test_a_node_that_was_deleted_while_the_watch_was_broken_is_told(
    server: ScriptedServer, client: Client
) -> None:
    answers = (listed(node("a", 1, LOST)), stream([EXPIRED]), listed(version=8))
    async with followed(client, server, *answers) as following:
        assert following.lost == []
        assert following.told == ["a lost", "a not lost"]


async def test_the_condition_of_a_lost_node_is_the_newest(server: ScriptedServer, client: Client) -> None:
    events = stream([modified("a", 6, LOST, "Kubelet stopped posting node status.")])
    async with followed(client, server, listed(node("a", 1, LOST)), events) as following:
        condition = following.nodes.lost()["a"]
        assert (condition.type, condition.message) == ("Ready", "Kubelet stopped posting node status.")


async def test_a_view_stays_as_it_is_and_is_not_made_anew_for_heartbeats(
    server: ScriptedServer, client: Client
) -> None:
    following = Followed(client)
    reflector = following.nodes.reflector
    for other in OTHERS:
        reflector.write_through(orjson.dumps(other))
    reflector.write_through(orjson.dumps(node("a", 1, LOST)))
    view = following.nodes.lost()

    reflector.write_through(orjson.dumps(node("a", 2, LOST)))
    reflector.write_through(orjson.dumps(node("b", 2, HEALTHY)))
    assert following.nodes.lost() is view

    reflector.write_through(orjson.dumps(node("b", 3, LOST)))
    assert (sorted(view), following.lost) == (["a"], ["a", "b"])

    view = following.nodes.lost()
    reflector.write_through(orjson.dumps(node("a", 4, HEALTHY)))
    assert (sorted(view), following.lost) == (["a", "b"], ["b"])


async def test_when_most_nodes_fall_silent_none_of_them_counts_as_lost(server: ScriptedServer, client: Client) -> None:
    names = [other["metadata"]["name"] for other in OTHERS]
    silence_falls = [modified(name, 6 + number, LOST) for number, name in enumerate(names[:3])]
    one_returns = [modified("w", 9, HEALTHY)]
    async with followed(client, server, listed(node("a", 1, HEALTHY)), stream(silence_falls)) as following:
        assert following.lost == []
        assert sorted(following.told[:2]) == ["w lost", "x lost"]
        assert sorted(following.told[2:]) == ["w not lost", "x not lost"]
    async with followed(
        client, server, listed(node("a", 1, HEALTHY)), stream([*silence_falls, *one_returns])
    ) as following:
        assert following.lost == ["x", "y"]
        assert sorted(following.told[4:]) == ["x lost", "y lost"]
