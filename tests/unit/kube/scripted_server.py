"""A real HTTP server that answers requests with what a test lined up, one answer per request, in order."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import orjson
from aiohttp import web

CLOSING = web.AppKey("closing", asyncio.Event)
Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True)
class Seen:
    """A request as it arrived. ``at``: the loop's time in seconds."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: Any
    at: float


@dataclass
class ScriptedServer:
    """``answers`` are used up in order; a request beyond the last fails the test by hanging up."""

    answers: deque[Answer] = field(default_factory=deque)
    seen: list[Seen] = field(default_factory=list)
    url: str = ""
    used_up: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the last answer is about to be given."""

    def will(self, *answers: Answer) -> None:
        self.used_up.clear()
        self.answers.extend(answers)

    async def __aenter__(self) -> Self:
        application = web.Application()
        application[CLOSING] = self._closing = asyncio.Event()
        application.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=1.0)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        host, port = self._runner.addresses[0][:2]
        self.url = f"http://{host}:{port}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.set()
        await self._runner.cleanup()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        text = await request.read()
        body = orjson.loads(text) if text else None
        at = asyncio.get_running_loop().time()
        self.seen.append(Seen(request.method, request.path, dict(request.query), dict(request.headers), body, at))
        answer = self.answers.popleft() if self.answers else cut()
        if not self.answers:
            self.used_up.set()
        return await answer(request)


def json(content: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Answer:
    return text(orjson.dumps(content), status, headers)


def text(content: bytes, status: int = 200, headers: Mapping[str, str] | None = None) -> Answer:
    async def answer(request: web.Request) -> web.StreamResponse:
        return web.Response(body=content, status=status, headers=headers)

    return answer


def refusal(status: int, reason: str, message: str = "no", headers: Mapping[str, str] | None = None) -> Answer:
    """A Status object, as the API server refuses."""
    return json({"kind": "Status", "code": status, "reason": reason, "message": message}, status, headers)


def cut() -> Answer:
    """Hang up without a word."""

    async def answer(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    return answer


def silence() -> Answer:
    """Accept the request and never answer, as long as the server lives."""

    async def answer(request: web.Request) -> web.StreamResponse:
        await request.app[CLOSING].wait()
        return await cut()(request)

    return answer


def when(happened: asyncio.Event, then: Answer) -> Answer:
    """Keep the client waiting until something has happened."""

    async def answer(request: web.Request) -> web.StreamResponse:
        await happened.wait()
        return await then(request)

    return answer


def stream(chunks: Iterable[bytes], *, then: Answer | None = None) -> Answer:
    """Send the chunks one by one, each as a packet of its own. ``then``: ``cut`` or ``silence`` instead of an end."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for chunk in chunks:
            await response.write(chunk)
            await asyncio.sleep(0.05)
        if then is not None:
            return await then(request)
        await response.write_eof()
        return response

    return answer
