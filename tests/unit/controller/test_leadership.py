"""Who leads: never two at once, whatever happens to messages and processes, and soon somebody again."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtj.controller.leadership import (
    LOOK_INTERVAL,
    RENEW_DEADLINE,
    RENEW_INTERVAL,
    Leadership,
    Sighting,
    is_free,
    look,
)
from dtj.kube.errors import ApiError, LeaseLostError, UnreachableError
from dtj.kube.leases import LEASE_SECONDS, Lease, Leases
from tests.unit.virtual_time import VirtualTimeLoop

WITHOUT_SOCKETS = True
ME, OTHER = "me", "other"
LEASE = Lease("7", OTHER, "2026-11-21T10:00:00.000000Z", 1)

FREE: dict[str, tuple[Sighting, float, bool]] = {
    "there is none": (Sighting(None, 0), 0, True),
    "given back": (Sighting(replace(LEASE, holder=""), 0), 0, True),
    "one's own, of a process before": (Sighting(replace(LEASE, holder=ME), 0), 0, True),
    "somebody's, just seen": (Sighting(LEASE, 100), 100, False),
    "somebody's, almost too long ago": (Sighting(LEASE, 100), 100 + LEASE_SECONDS - 0.001, False),
    "somebody's, too long ago": (Sighting(LEASE, 100), 100 + LEASE_SECONDS, True),
}


@pytest.mark.parametrize(("sighting", "now", "free"), FREE.values(), ids=FREE.keys())
def test_when_a_lease_is_free(sighting: Sighting, now: float, free: bool) -> None:
    assert is_free(sighting, ME, now) is free


def test_only_a_change_of_the_record_is_a_sign_of_life() -> None:
    first = look(None, LEASE, 100)
    assert look(first, LEASE, 109) == first
    renewed = replace(LEASE, version="8")
    assert look(first, renewed, 109) == Sighting(renewed, 109)


def test_a_leader_stops_before_anybody_may_follow() -> None:
    assert RENEW_DEADLINE + RENEW_INTERVAL < LEASE_SECONDS


@dataclass(frozen=True)
class Fate:
    """What becomes of one call: how long it is on its way, there and back, and what is lost of it."""

    there: float = 0.01
    back: float = 0.01
    arrives: bool = True
    answered: bool = True


SMOOTH = Fate()
LOST = Fate(arrives=False)
UNANSWERED = Fate(answered=False)


class Record:
    """The API server's part: one object, changed only on top of the version that was read."""

    def __init__(self) -> None:
        self.lease: Lease | None = None
        self._version = 0

    def write(self, before: Lease | None, after: Lease) -> Lease:
        if before != self.lease and (before is None or self.lease is None or before.version != self.lease.version):
            raise ApiError(409, "Conflict", "the object has been modified")
        self._version += 1
        self.lease = replace(after, version=str(self._version))
        return self.lease

    def touch(self) -> None:
        """Somebody writes a label, say."""
        assert self.lease is not None
        self.write(self.lease, self.lease)


class Wire:
    """One process's way to the record. ``fates`` are used up in order; then all goes well."""

    name = "dtj-operator"

    def __init__(self, record: Record, fates: Iterable[Fate] = ()) -> None:
        self.fates = deque(fates)
        self.cut = False
        self.record = record

    async def read(self) -> Lease | None:
        async with self._call():
            return self.record.lease

    async def claim(self, before: Lease | None, holder: str, now: datetime) -> Lease:
        async with self._call():
            taken = replace(before, holder=holder) if before else Lease("", holder, now.isoformat(), 0)
            return self.record.write(before, taken)

    async def give_back(self, held: Lease, now: datetime) -> None:
        del now
        async with self._call():
            self.record.write(held, replace(held, holder=""))

    @asynccontextmanager
    async def _call(self) -> AsyncIterator[None]:
        fate = self.fates.popleft() if self.fates else SMOOTH
        await asyncio.sleep(fate.there)
        if self.cut or not fate.arrives:
            raise UnreachableError("connection refused")
        yield
        await asyncio.sleep(fate.back)
        if not fate.answered:
            raise UnreachableError("connection reset")


class Process:
    """One process that takes part for as long as it can, and starts again when it has lost."""

    def __init__(self, record: Record, name: str, fates: Iterable[Fate] = ()) -> None:
        self.wire = Wire(record, fates)
        self.losses: list[str] = []
        self._name = name
        self.leadership = self._new()
        self._task = asyncio.create_task(self._take_part())

    @property
    def leads(self) -> bool:
        return self.leadership.is_held()

    async def die(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def end(self) -> None:
        await self.die()
        await self.leadership.give_back()

    def _new(self) -> Leadership:
        loop = asyncio.get_running_loop()
        return Leadership(cast("Leases", self.wire), self._name, loop.time)

    async def _take_part(self) -> None:
        while True:
            await self.leadership.acquire()
            try:
                await self.leadership.keep()
            except LeaseLostError as error:
                self.losses.append(str(error))
                self.leadership = self._new()


async def until_leads(process: Process) -> float:
    """Wait until it leads; return how many seconds that took."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    for _ in range(10_000):
        if process.leads:
            return loop.time() - began
        await asyncio.sleep(0.05)
    raise AssertionError("it never leads")


@pytest.fixture
async def pair() -> AsyncIterator[tuple[Process, Process]]:
    """One that leads and one that waits."""
    record = Record()
    leader = Process(record, "a")
    await until_leads(leader)
    waiting = Process(record, "b")
    await asyncio.sleep(2 * LEASE_SECONDS)
    assert (leader.leads, waiting.leads) == (True, False)
    yield leader, waiting
    await leader.die()
    await waiting.die()


async def test_one_that_dies_is_followed_when_its_lease_is_over(pair: tuple[Process, Process]) -> None:
    leader, waiting = pair
    await leader.die()
    assert await until_leads(waiting) < LEASE_SECONDS + 2 * LOOK_INTERVAL
    assert not leader.leads


async def test_one_that_ends_is_followed_at_once(pair: tuple[Process, Process]) -> None:
    leader, waiting = pair
    await leader.end()
    assert not leader.leads
    assert await until_leads(waiting) < 2 * LOOK_INTERVAL


async def test_one_that_ends_during_a_renewal_is_followed_at_once(pair: tuple[Process, Process]) -> None:
    leader, waiting = pair
    assert leader.wire.record.lease is not None
    before = leader.wire.record.lease.version
    leader.wire.fates.append(Fate(there=0.1, back=60.0))
    for _ in range(200):
        if leader.wire.record.lease.version != before:
            break
        await asyncio.sleep(0.05)
    await leader.end()
    assert await until_leads(waiting) < 2 * LOOK_INTERVAL


async def test_one_that_is_cut_off_stops_before_it_is_followed(pair: tuple[Process, Process]) -> None:
    leader, waiting = pair
    leader.wire.cut = True
    await asyncio.sleep(RENEW_DEADLINE)
    assert (leader.leads, waiting.leads) == (False, False)
    await until_leads(waiting)
    assert leader.losses == ["the lease dtj-operator could not be renewed for 10 s"]
    leader.wire.cut = False
    await asyncio.sleep(2 * LEASE_SECONDS)
    assert (leader.leads, waiting.leads) == (False, True)


async def test_one_that_misses_a_renewal_leads_on(pair: tuple[Process, Process]) -> None:
    leader, waiting = pair
    leader.wire.fates.extend([LOST, LOST, UNANSWERED])
    for _ in range(300):
        await asyncio.sleep(0.1)
        assert (leader.leads, waiting.leads) == (True, False)
    assert leader.losses == []


async def test_who_writes_to_the_record_takes_nothing(pair: tuple[Process, Process]) -> None:
    leader, _ = pair
    leader.wire.record.touch()
    await asyncio.sleep(LEASE_SECONDS)
    assert leader.leads
    assert leader.losses == []


async def test_who_takes_the_lease_has_it_at_once(pair: tuple[Process, Process]) -> None:
    leader, _ = pair
    record = leader.wire.record
    assert record.lease is not None
    record.write(record.lease, replace(record.lease, holder="a person"))
    await asyncio.sleep(2 * RENEW_INTERVAL)
    assert leader.losses == ["a person has taken the lease dtj-operator"]
    assert not leader.leads


async def test_an_unanswered_claim_counts_once_it_is_seen() -> None:
    record = Record()
    process = Process(record, "a", [SMOOTH, UNANSWERED])
    await asyncio.sleep(0.1)
    assert record.lease is not None
    assert not process.leads, "it cannot know"
    assert await until_leads(process) < 2 * LOOK_INTERVAL
    await process.die()


fates = st.builds(
    Fate,
    there=st.sampled_from([0.01, 0.5, 3.0, 12.0, 30.0]),
    back=st.sampled_from([0.01, 0.5, 3.0, 12.0, 30.0]),
    arrives=st.sampled_from([True, True, True, False]),
    answered=st.sampled_from([True, True, True, False]),
)
moments = st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["die", "end", "cut"]), st.floats(0, 40)), max_size=8)


@given(plans=st.lists(st.lists(fates, max_size=40), min_size=3, max_size=3), moments=moments)
def test_there_are_never_two(plans: list[list[Fate]], moments: list[tuple[int, str, float]]) -> None:
    async def life() -> None:
        record = Record()
        processes = [Process(record, f"p{number}", plan) for number, plan in enumerate(plans)]
        watch = asyncio.create_task(_watched(processes))
        for which, what, pause in moments:
            await asyncio.sleep(pause)
            await _happen(record, processes, which, what)
        await asyncio.sleep(100)
        watch.cancel()
        with suppress(asyncio.CancelledError):
            await watch
        for process in processes:
            process.wire.cut = False
            process.wire.fates.clear()
        await asyncio.sleep(2 * (LEASE_SECONDS + RENEW_DEADLINE))
        leading = [process.leads for process in processes]
        for process in processes:
            await process.die()
        assert leading.count(True) == 1

    with asyncio.Runner(loop_factory=partial(VirtualTimeLoop, grace=0)) as runner:
        runner.run(life())


async def _happen(record: Record, processes: list[Process], which: int, what: str) -> None:
    process = processes[which]
    if what == "cut":
        process.wire.cut = not process.wire.cut
        return
    await (process.die() if what == "die" else process.end())
    processes[which] = Process(record, f"p{which}", process.wire.fates)


async def _watched(processes: list[Process]) -> None:
    while True:
        leading = [process.leads for process in processes]
        assert leading.count(True) <= 1, leading
        await asyncio.sleep(0.1)
