"""Reading progress: each job at its own interval, news in turns, and trouble told once it lasts."""

import asyncio
from collections.abc import AsyncIterator, Callable
from itertools import pairwise
from typing import Any

import pytest
from aiohttp import web

from dtj.controller.queue import Key
from dtj.controller.training_watch import FAILURES_THAT_ARE_TOLD, NEWS_PER_SECOND, Target, TrainingWatch
from dtj.kube.agents import Agents
from tests.unit.kube.scripted_server import ScriptedServer, json, refusal

KEY = Key("team-a", "digits", "uid-1")
INTERVAL = 10.0


class Bench:
    """A watch of agents that all live at one address, and what it told."""

    def __init__(self, server: ScriptedServer, watch: TrainingWatch, told: list[tuple[float, Key]]) -> None:
        self.server, self.watch, self.told = server, watch, told

    def follow(self, key: Key = KEY, attempt: int = 0, interval: float = INTERVAL) -> None:
        self.watch.follow(Target(key, "127.0.0.1", attempt, key.uid, interval))

    async def until(self, holds: Callable[[], bool]) -> None:
        for _ in range(2_000):
            if holds():
                return
            await asyncio.sleep(0.5)
        raise AssertionError("it never came to that")


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    told: list[tuple[float, Key]] = []
    loop = asyncio.get_running_loop()
    async with ScriptedServer() as server:
        watch = TrainingWatch(
            Agents(port=int(server.url.rsplit(":", 1)[1])), lambda key: told.append((loop.time(), key))
        )
        teller = asyncio.create_task(watch.tell_for_ever())
        yield Bench(server, watch, told)
        await watch.close()
        teller.cancel()
        await asyncio.gather(teller, return_exceptions=True)


def answer(uid: str = KEY.uid, attempt: int = 0, **fields: object) -> dict[str, Any]:
    return {"jobUid": uid, "attempt": attempt, **fields}


async def test_a_training_is_asked_again_and_again(bench: Bench) -> None:
    bench.server.will(json(answer(step=1)), json(answer(step=2)), json(answer(step=3)))
    bench.follow()
    bench.follow()

    await bench.until(lambda: len(bench.server.seen) == 3)

    first, second, third = (seen.at for seen in bench.server.seen)
    assert 8.0 <= second - first <= 12.0
    assert 8.0 <= third - second <= 12.0
    await bench.until(lambda: len(bench.told) == 3)
    heard = bench.watch.heard(KEY.uid)
    assert heard is not None
    assert heard.report.step == 3


@pytest.mark.parametrize("said", [json(answer()), refusal(404, "NotFound")], ids=["nothing yet", "nobody answers"])
async def test_a_training_that_tells_nothing_is_asked_more_often_at_first(bench: Bench, said: Any) -> None:  # noqa: ANN401
    bench.server.will(*[said] * 20)
    began = asyncio.get_running_loop().time()
    bench.follow()

    await bench.until(lambda: len(bench.server.seen) == 20)

    times = [began, *(seen.at for seen in bench.server.seen)]
    gaps = [after - before for before, after in pairwise(times)]
    assert gaps[0] < 3.0
    assert sum(gap < INTERVAL / 2 for gap in gaps) in range(3, 7)
    assert min(gaps[8:]) > 8.0


async def test_another_attempt_is_another_training(bench: Bench) -> None:
    bench.server.will(json(answer(step=9)))
    bench.follow()
    await bench.until(lambda: bench.watch.heard(KEY.uid) is not None)

    bench.follow(attempt=1)

    assert bench.watch.heard(KEY.uid) is None


async def test_who_is_forgotten_is_asked_no_more(bench: Bench) -> None:
    bench.follow()
    bench.watch.forget(KEY.uid)
    bench.watch.forget(KEY.uid)

    await asyncio.sleep(100)

    assert bench.server.seen == []


TROUBLES: dict[str, Any] = {
    "another job's agent": json(answer(uid="other")),
    "an agent of another attempt": json(answer(attempt=5)),
    "no agent": refusal(404, "NotFound"),
}


@pytest.mark.parametrize("trouble", TROUBLES.values(), ids=TROUBLES.keys())
async def test_trouble_is_told_when_it_lasts_and_while_it_lasts(bench: Bench, trouble: Any) -> None:  # noqa: ANN401
    bench.server.will(json(answer(step=4)), *[trouble] * FAILURES_THAT_ARE_TOLD)
    bench.follow()

    await bench.until(lambda: len(bench.server.seen) == FAILURES_THAT_ARE_TOLD)
    assert bench.watch.trouble(KEY.uid) == ""
    await bench.until(lambda: bench.watch.trouble(KEY.uid) != "")
    heard = bench.watch.heard(KEY.uid)
    assert heard is not None
    assert heard.report.step == 4, "the last good news is kept"

    bench.server.will(*[json(answer(step=5))] * 20)
    await bench.until(lambda: bench.watch.trouble(KEY.uid) == "")


async def test_a_training_that_falls_silent_is_news_each_time(bench: Bench) -> None:
    bench.server.will(json(answer(step=4)), *[refusal(404, "NotFound")] * 3)
    bench.follow()

    await bench.until(lambda: len(bench.told) == 4)

    assert len(bench.server.seen) == 4


async def test_trouble_that_goes_on_is_no_news_of_a_training_that_never_told_anything(bench: Bench) -> None:
    bench.server.will(*[refusal(404, "NotFound")] * 20)
    bench.follow()

    await bench.until(lambda: len(bench.server.seen) == 20)

    assert [key for _, key in bench.told] == [KEY]


async def test_news_of_many_jobs_is_told_in_turns_and_not_all_at_once(bench: Bench) -> None:
    keys = [Key("team-a", f"job-{number}", f"uid-{number}") for number in range(100)]

    async def of_its_job(request: web.Request) -> web.StreamResponse:
        return await json(answer(request.headers["Authorization"].removeprefix("Bearer ")))(request)

    bench.server.will(*[of_its_job] * 10_000)
    for key in keys:
        bench.follow(key)

    await bench.until(lambda: len(bench.told) >= 200)

    times = [time for time, _ in bench.told]
    assert (len(times) - 1) / (times[-1] - times[0]) <= NEWS_PER_SECOND * 1.05
    assert {key for _, key in bench.told[:100]} == set(keys), "each has its turn before any has its second"
