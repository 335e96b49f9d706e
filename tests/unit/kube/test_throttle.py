"""The token bucket, in virtual time."""

import asyncio

import pytest

from dtj.kube.throttle import Throttle


async def served_at(throttle: Throttle, count: int) -> list[float]:
    """Seconds from now at which each of several requests at once may be sent, in the order of asking."""
    loop = asyncio.get_running_loop()
    begin = loop.time()

    async def one() -> float:
        await throttle.take()
        return loop.time() - begin

    return list(await asyncio.gather(*(one() for _ in range(count))))


async def test_a_burst_goes_at_once_and_the_rest_at_the_rate() -> None:
    times = await served_at(Throttle(rate=2, burst=3), 7)

    assert times == pytest.approx([0, 0, 0, 0.5, 1.0, 1.5, 2.0], abs=0.1)


async def test_waiters_are_served_in_order() -> None:
    times = await served_at(Throttle(rate=1, burst=1), 6)

    assert times == sorted(times)


async def test_after_a_pause_there_is_a_burst_again_and_no_more() -> None:
    throttle = Throttle(rate=2, burst=2)
    await served_at(throttle, 6)
    await asyncio.sleep(3600)

    assert await served_at(throttle, 3) == pytest.approx([0, 0, 0.5], abs=0.1)


async def test_one_who_gives_up_does_not_hold_the_others_up_for_ever() -> None:
    throttle = Throttle(rate=1, burst=1)
    await throttle.take()
    waiting = asyncio.create_task(throttle.take())
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)

    assert await served_at(throttle, 1) == pytest.approx([2], abs=0.1)
