"""Which nodes are lost, and when that is told, against a server that lists and watches them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import orjson
import pytest

from dtj.kube.client import Client
from dtj.kube.nodes import Nodes
from dtj.lifecycle.node_loss import SECONDS_FOR_MANY
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


OTHERS = [node(f"other-{number:02}", 1, HEALTHY) for number in range(30)]
"""Enough healthy nodes that a silent one counts as lost after a moment."""


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

    def _tell(self, names: frozenset[str]) -> None:
        self.told += [f"{name} {'lost' if name in self.nodes.lost() else 'not lost'}" for name in sorted(names)]

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
        await asyncio.sleep(2)
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
    "it is heard of again soon": (LOST, [modified("a", 6, HEALTHY)], [], []),
    "it is heard of again soon, but not ready": (LOST, [modified("a", 6, BROKEN)], [], []),
    "it comes and goes": (
        HEALTHY,
        [modified("a", 6, LOST), modified("a", 7, HEALTHY), modified("a", 8, LOST)],
        ["a"],
        ["a lost"],
    ),
    "it is deleted while silent": (LOST, [deleted("a", 6)], [], []),
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
    "the lost one is replaced by a healthy one": (LOST, HEALTHY, [], []),
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
        assert following.told == []


@pytest.mark.parametrize("after", [HEALTHY, BROKEN, None], ids=["heard of again", "not ready", "deleted"])
async def test_a_lost_node_that_is_lost_no_more(server: ScriptedServer, client: Client, after: str | None) -> None:
    following = Followed(client)
    reflector = following.nodes.reflector
    for each in (*OTHERS, node("a", 5, LOST)):
        reflector.write_through(orjson.dumps(each))
    await asyncio.sleep(2)
    assert following.lost == ["a"]
    if after is None:
        reflector.forget("uid-of-a")
    else:
        reflector.write_through(orjson.dumps(node("a", 6, after)))

    assert following.lost == []
    assert following.told == ["a lost", "a not lost"]


async def test_the_condition_of_a_lost_node_is_the_newest(server: ScriptedServer, client: Client) -> None:
    events = stream([modified("a", 6, LOST, "Kubelet stopped posting node status.")])
    async with followed(client, server, listed(node("a", 1, LOST)), events) as following:
        condition = following.nodes.lost()["a"]
        assert (condition.type, condition.message) == ("Ready", "Kubelet stopped posting node status.")


async def test_a_view_stays_as_it_is(server: ScriptedServer, client: Client) -> None:
    following = Followed(client)
    reflector = following.nodes.reflector
    for other in OTHERS:
        reflector.write_through(orjson.dumps(other))
    reflector.write_through(orjson.dumps(node("a", 1, LOST)))
    await asyncio.sleep(2)
    view = following.nodes.lost()

    reflector.write_through(orjson.dumps(node("a", 2, LOST)))
    reflector.write_through(orjson.dumps(node("b", 2, HEALTHY)))
    reflector.write_through(orjson.dumps(node("b", 3, HEALTHY)))
    reflector.write_through(orjson.dumps(node("b", 4, LOST)))
    await asyncio.sleep(2)
    assert (sorted(view), following.lost) == (["a"], ["a", "b"])

    view = following.nodes.lost()
    reflector.write_through(orjson.dumps(node("a", 5, HEALTHY)))
    assert (sorted(view), following.lost) == (["a", "b"], ["b"])


async def test_when_most_nodes_fall_silent_one_after_another_none_of_them_counts_as_lost(
    server: ScriptedServer, client: Client
) -> None:
    names = [other["metadata"]["name"] for other in OTHERS]
    following = Followed(client)
    for other in OTHERS:
        following.nodes.reflector.write_through(orjson.dumps(other))
    for number, name in enumerate(names):
        following.nodes.reflector.write_through(orjson.dumps(node(name, 10 + number, LOST)))
        await asyncio.sleep(0.3)
    await asyncio.sleep(60)
    assert following.lost == []
    told_lost = {name for name in names if f"{name} lost" in following.told}
    assert len(told_lost) <= 3, "a tenth may be taken for lost before the others fall silent"

    for number, name in enumerate(names[4:]):
        following.nodes.reflector.write_through(orjson.dumps(node(name, 100 + number, HEALTHY)))
    await asyncio.sleep(60)
    assert following.lost == names[:4], "the others are heard of again, and these are not"


async def test_when_many_nodes_are_silent_it_takes_a_while_to_believe_it(
    server: ScriptedServer, client: Client
) -> None:
    following = Followed(client)
    for other in OTHERS[:1]:
        following.nodes.reflector.write_through(orjson.dumps(other))
    following.nodes.reflector.write_through(orjson.dumps(node("a", 1, LOST)))
    await asyncio.sleep(SECONDS_FOR_MANY - 1)
    assert following.lost == []
    await asyncio.sleep(2)
    assert following.lost == ["a"]
    assert following.told == ["a lost"]
