"""What the process tells over HTTP: to the kubelet whether it is alive and ready, to Prometheus its metrics."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from aiohttp import web

from dtj.controller.scrape import CONTENT_TYPE


@asynccontextmanager
async def health_server(
    port: int, *, alive: Callable[[], bool], ready: Callable[[], bool], metrics: Callable[[], Awaitable[bytes]]
) -> AsyncIterator[None]:
    """Answer ``/healthz`` and ``/readyz`` with 200 or 503 and ``/metrics`` with text, on all addresses."""
    application = web.Application()
    application.router.add_get("/healthz", _answer(alive))
    application.router.add_get("/readyz", _answer(ready))
    application.router.add_get("/metrics", _tell(metrics))
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, port=port).start()
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
