"""What the API server says exists, against what the watch of the jobs has told."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from dtj.controller.job_listing import JobListing, Missed
from dtj.controller.jobs import JobStore, key_of
from dtj.kube.client import Client
from dtj.kube.connection import Connection
from tests.unit.kube.scripted_server import Answer, ScriptedServer, json, refusal

NAMESPACES = ("team-a", "team-b")
SERVED = json({"kind": "APIResourceList", "resources": [{"name": "distributedtrainingjobs"}]})
FORBIDDEN = refusal(403, "Forbidden", "cannot list resource")
BROKEN = json({"metadata": 7})


def job(uid: str, version: str = "1", namespace: str = "team-a") -> dict[str, Any]:
    return {"metadata": {"name": uid, "namespace": namespace, "uid": uid, "resourceVersion": version}}


def listed(*jobs: dict[str, Any]) -> Answer:
    return json({"metadata": {}, "items": list(jobs)})


class Desk:
    """A listing of two namespaces, and what the watch has told."""

    def __init__(self, server: ScriptedServer, client: Client) -> None:
        self.server, self.store = server, JobStore()
        self.listing = JobListing(client, NAMESPACES, self.store)

    def knows(self, *jobs: dict[str, Any]) -> None:
        for each in jobs:
            self.store.put(each)


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    async def nobody() -> str | None:
        return None

    async with ScriptedServer() as server, Client(Connection(server.url, None, nobody)) as client:
        yield Desk(server, client)


async def test_what_the_watch_missed(desk: Desk) -> None:
    same, changed, gone = job("same"), job("changed"), job("gone", namespace="team-b")
    desk.knows(same, changed, gone)
    desk.server.will(listed(same, job("changed", "2"), job("new")), listed())

    assert await desk.listing.missed() == Missed(gone=(key_of(gone),), changed=(key_of(changed),))


async def test_of_a_namespace_that_may_not_be_read_nothing_is_believed_gone(desk: Desk) -> None:
    hidden, gone = job("hidden", namespace="team-b"), job("gone")
    desk.knows(hidden, gone)
    desk.server.will(listed(), FORBIDDEN)

    assert await desk.listing.missed() == Missed(gone=(key_of(gone),), changed=())


async def test_it_waits_until_the_resource_is_served_and_may_be_read(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    not_served = refusal(404, "NotFound")
    desk.server.will(not_served, not_served, SERVED, FORBIDDEN, FORBIDDEN, SERVED, listed(), FORBIDDEN)

    await desk.listing.until_served()

    assert not desk.server.answers
    told = [record.message for record in caplog.records]
    assert told == [
        "waiting: the CRD distributedtrainingjobs.dtj.dev is not installed",
        "waiting: 403 Forbidden: cannot list resource",
        "without rights in team-b: jobs there are not looked after",
    ]


async def test_it_waits_until_the_watch_has_told_of_all(desk: Desk) -> None:
    desk.knows(job("first"))
    desk.server.will(BROKEN, BROKEN, *[listed(job("first"), job("second")), listed()] * 9)
    waiting = asyncio.create_task(desk.listing.until_known())
    await asyncio.sleep(10)
    assert not waiting.done()

    desk.knows(job("second"))
    await asyncio.wait_for(waiting, 5)


async def test_it_does_not_wait_for_a_job_that_was_deleted_meanwhile(desk: Desk) -> None:
    desk.server.will(listed(job("brief")), listed(), listed(), listed())
    await asyncio.wait_for(desk.listing.until_known(), 10)
