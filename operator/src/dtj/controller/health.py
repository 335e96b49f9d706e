"""What the process tells over HTTP: to the kubelet whether it is alive and ready, to Prometheus its metrics.

The answers come from the event loop in which everything else runs, so a loop that hangs answers no probe in time, and
that is how the kubelet learns of it. A loop that is only slow is told as a number and not ended: the machine is busy
then, and a new process would have all caches to fill.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

from aiohttp import web

from dtj.controller.scrape import CONTENT_TYPE

BEAT: Final = 1.0
BEATS: Final = 60


class Heartbeat:
    """How late the event loop is, measured once in a second over the last minute."""

    def __init__(self) -> None:
        self._lags: deque[float] = deque(maxlen=BEATS)

    async def beat_for_ever(self) -> None:
        clock = asyncio.get_running_loop().time
        while True:
            due = clock() + BEAT
            await asyncio.sleep(BEAT)
            self._lags.append(max(0.0, clock() - due))

    @property
    def worst_lag(self) -> float:
        """Seconds."""
        return max(self._lags, default=0.0)


@asynccontextmanager
async def health_server(
    port: int, *, alive: Callable[[], bool], ready: Callable[[], bool], metrics: Callable[[], Awaitable[bytes]]
) -> AsyncIterator[None]:
    """Answer ``/healthz`` and ``/readyz`` with 200 or 503 and ``/metrics`` with text, on all addresses."""
    application = web.Application()
    application.router.add_get("/healthz", _answer(alive))
    application.router.add_get("/readyz", _answer(ready))
    application.router.add_get("/metrics", _tell(metrics))
    async with serving(application, port, None):
        yield


@asynccontextmanager
async def serving(application: web.Application, port: int, host: str | None) -> AsyncIterator[None]:
    """``host`` None: on all addresses. Raises OSError where the port is taken."""
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, host=host, port=port).start()
        yield
    finally:
        await runner.cleanup()


def _answer(question: Callable[[], bool]) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def handler(request: web.Request) -> web.StreamResponse:
        del request
        return web.Response(text="ok\n") if question() else web.Response(status=503, text="no\n")

    return handler


def _tell(metrics: Callable[[], Awaitable[bytes]]) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def handler(request: web.Request) -> web.StreamResponse:
        del request
        return web.Response(body=await metrics(), headers={"Content-Type": CONTENT_TYPE})

    return handler
