"""Events are told one after the other, beside everything else, and what goes wrong with one is the end of that one."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
from aiohttp import web

from dtj.api.reasons import Reason
from dtj.controller import event_teller
from dtj.controller.event_teller import EventTeller
from dtj.kube.client import Client
from dtj.kube.connection import Connection
from dtj.lifecycle.decision import Event, EventType
from tests.builders import NOW, a_job
from tests.unit.kube.conftest import no_credentials
from tests.unit.kube.scripted_server import ScriptedServer, json, refusal, silence

JOB = a_job().build().metadata


@dataclass
class Desk:
    server: ScriptedServer
    teller: EventTeller

    def tell(self, message: str, attempt: int = 0) -> None:
        self.teller.tell(JOB, Event(EventType.NORMAL, Reason.PODS_STARTING, message), attempt, NOW, count=1)

    @property
    def told(self) -> list[str]:
        return [seen.body["message"] for seen in self.server.seen]


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    async with ScriptedServer() as server, Client(Connection(server.url, None, no_credentials)) as client:
        yield Desk(server, EventTeller(client))


async def test_one_after_the_other_in_their_order(desk: Desk) -> None:
    under_way = 0

    async def slow(request: web.Request) -> web.StreamResponse:
        nonlocal under_way
        under_way += 1
        assert under_way == 1
        await asyncio.sleep(1)
        under_way -= 1
        return await json({})(request)

    desk.server.will(*[slow] * 3)
    for message in ("first", "second", "third"):
        desk.tell(message)
    await desk.teller.tell_waiting()

    assert desk.told == ["first", "second", "third"]


async def test_it_goes_on_for_ever(desk: Desk) -> None:
    desk.server.will(json({}), json({}))
    telling = asyncio.create_task(desk.teller.tell_for_ever())
    for message in ("now", "later"):
        desk.tell(message)
        await asyncio.sleep(3600)
    telling.cancel()

    assert desk.told == ["now", "later"]


async def test_one_that_hangs_is_given_up(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    desk.server.will(silence(), json({}))
    desk.tell("hangs")
    desk.tell("told")
    begin = asyncio.get_running_loop().time()
    await desk.teller.tell_waiting()

    assert asyncio.get_running_loop().time() - begin == pytest.approx(event_teller.TELLING_SECONDS, abs=1)
    assert desk.told == ["hangs", "told"]
    assert [record.getMessage() for record in caplog.records] == ["event PodsStarting not told: TimeoutError"]


async def test_who_does_not_lead_any_more_tells_nothing() -> None:
    async with (
        ScriptedServer() as server,
        Client(Connection(server.url, None, no_credentials), may_write=lambda: False) as client,
    ):
        desk = Desk(server, EventTeller(client))
        for message in ("first", "second"):
            desk.tell(message)
        await desk.teller.tell_waiting()

    assert desk.told == []


async def test_a_fault_of_the_way_to_the_server_ends_one_event_only(caplog: pytest.LogCaptureFixture) -> None:
    answers = iter([OSError("no token there"), None])

    async def credentials() -> str | None:
        if (problem := next(answers)) is not None:
            raise problem
        return None

    async with ScriptedServer() as server, Client(Connection(server.url, None, credentials)) as client:
        server.will(json({}))
        desk = Desk(server, EventTeller(client))
        for message in ("first", "second"):
            desk.tell(message)
        await desk.teller.tell_waiting()

    assert desk.told == ["second"]
    assert [record.getMessage() for record in caplog.records] == ["event PodsStarting not told"]


async def test_one_that_is_refused_is_logged_and_holds_nothing_up(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    desk.server.will(refusal(403, "Forbidden", "no"), json({}))
    desk.tell("refused")
    desk.tell("told")
    await desk.teller.tell_waiting()

    assert desk.told == ["refused", "told"]
    assert [record.getMessage() for record in caplog.records] == ["event PodsStarting not told: 403 Forbidden: no"]


async def test_of_too_many_the_oldest_are_left_out(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_teller, "LONGEST", 2)
    desk.server.will(json({}), json({}))
    teller = Desk(desk.server, EventTeller(desk.teller._client))
    for message in ("first", "second", "third"):
        teller.tell(message)
    await teller.teller.tell_waiting()

    assert teller.told == ["second", "third"]
