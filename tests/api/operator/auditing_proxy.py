"""A proxy between the operator and the API server that writes down every request that passes."""

import asyncio
import re
import threading
from collections import Counter
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import aiohttp
import yaml
from aiohttp import web

from dtj.api import names
from dtj.kube.connection import Connection, connect

T = TypeVar("T")

START_SECONDS = 30.0
CLOSING_ROUNDS = 20
"""Rounds of the event loop in which the transports that were told to close do so; each needs two or three."""
_NAMESPACED = re.compile(r"/namespaces/(?P<namespace>[^/]+)/(?P<resource>[^/]+)(/[^/]+)?(?P<sub>/[^/]+)?")
_HOP_BY_HOP = frozenset({"connection", "keep-alive", "transfer-encoding", "upgrade", "host", "content-length"})
_READS = frozenset({"GET", "HEAD"})


class Request(NamedTuple):
    """One request of the operator; ``what`` is the resource with its subresource, such as pods/status."""

    method: str
    namespace: str
    what: str

    @property
    def kind(self) -> str:
        return f"{self.method} {self.what}"

    @property
    def is_write(self) -> bool:
        return self.method not in _READS


class Barrier:
    """Requests of one kind in one namespace, such as ``DELETE pods``: some pass, and all after them are held back.

    Whoever sent a request that is held back gets no answer, until it is killed.
    """

    def __init__(self, namespace: str, kind: str, passing: int) -> None:
        self.reached = threading.Event()
        self._stopped = (namespace, kind)
        self._passing = passing

    def holds(self, request: Request) -> bool:
        if (request.namespace, request.kind) != self._stopped:
            return False
        self._passing -= 1
        if self._passing < 0:
            self.reached.set()
        return self._passing < 0


class Audit:
    """Every request of the operator in order, noted before it is passed on: whoever sees what it did finds it here."""

    def __init__(self) -> None:
        self._requests: list[Request] = []

    def note(self, request: Request) -> None:
        self._requests.append(request)

    def requests(self, namespace: str) -> tuple[Request, ...]:
        return tuple(request for request in tuple(self._requests) if request.namespace == namespace)

    def writes(self, namespace: str) -> Counter[str]:
        """How often each kind of write was tried in a namespace, as in ``{"POST pods": 2}``."""
        return Counter(each.kind for each in self.requests(namespace) if each.is_write)


class AuditingProxy:
    """The API server of ``kubeconfig`` once more, as plain HTTP on a loopback port."""

    def __init__(self, kubeconfig: Path) -> None:
        self.audit = Audit()
        self.server = ""
        self.refusals: list[int] = []
        """Codes with which the next watches of the jobs are answered, instead of being passed on."""
        self.cut_off = False
        """Whether new requests are swallowed: nothing comes back, as from a network that drops packets."""
        self._barrier: Barrier | None = None
        self._connection: Connection = connect(kubeconfig)
        self._upstream: aiohttp.ClientSession | None = None

    @contextmanager
    def stopping(self, namespace: str, kind: str, *, after: int = 0) -> Iterator[Barrier]:
        """Hold requests back for the block, once so many of them have passed."""
        self._barrier = Barrier(namespace, kind, after)
        try:
            yield self._barrier
        finally:
            self._barrier = None

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        connector = aiohttp.TCPConnector(ssl=self._connection.tls or True, limit=0)
        timeout = aiohttp.ClientTimeout(total=None)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout, auto_decompress=False) as session:
            self._upstream = session
            application = web.Application(client_max_size=0)
            application.router.add_route("*", "/{path:.*}", self._forward)
            runner = web.AppRunner(application, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
            await runner.setup()
            try:
                await web.TCPSite(runner, "127.0.0.1", 0).start()
                host, port = runner.addresses[0][:2]
                self.server = f"http://{host}:{port}"
                yield
            finally:
                await runner.cleanup()
                await _end_other_tasks()
        for _ in range(CLOSING_ROUNDS):
            await asyncio.sleep(0)

    def write_kubeconfig(self, path: Path) -> Path:
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "audited", "cluster": {"server": self.server}}],
            "users": [{"name": "anybody", "user": {}}],
            "contexts": [{"name": "audited", "context": {"cluster": "audited", "user": "anybody"}}],
            "current-context": "audited",
        }
        path.write_text(yaml.safe_dump(content), encoding="utf-8")
        return path

    async def _forward(self, request: web.Request) -> web.StreamResponse:
        assert self._upstream is not None
        if self.refusals and request.path.endswith(f"/{names.PLURAL}") and "watch" in request.query:
            code = self.refusals.pop(0)
            return web.json_response({"kind": "Status", "code": code, "message": "as the test wishes"}, status=code)
        if self.cut_off:
            await asyncio.Event().wait()
        named = _namespaced(request)
        if named and self._barrier is not None and self._barrier.holds(named):
            await asyncio.Event().wait()
        if named:
            self.audit.note(named)
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _HOP_BY_HOP}
        if authorization := await self._connection.authorization():
            headers["Authorization"] = authorization
        url = self._connection.server + request.raw_path
        body = await request.read()
        try:
            async with self._upstream.request(request.method, url, headers=headers, data=body or None) as answer:
                return await _pass_on(request, answer)
        except aiohttp.ClientConnectionError as error:
            return web.Response(status=502, text=f"{type(error).__name__}\n")


def _namespaced(request: web.Request) -> Request | None:
    found = _NAMESPACED.search(request.path)
    return found and Request(request.method, found["namespace"], found["resource"] + (found["sub"] or ""))


async def _end_other_tasks() -> None:
    """Handlers of watches that were still open; the server has cancelled them, and does not wait for them."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


async def _pass_on(request: web.Request, answer: aiohttp.ClientResponse) -> web.StreamResponse:
    kept = {name: value for name, value in answer.headers.items() if name.lower() not in _HOP_BY_HOP}
    response = web.StreamResponse(status=answer.status, headers=kept)
    await response.prepare(request)
    async for chunk in answer.content.iter_any():
        await response.write(chunk)
    await response.write_eof()
    return response


@contextmanager
def audited(kubeconfig: Path) -> Iterator[AuditingProxy]:
    """Run a proxy in a thread of its own for the block."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="auditing proxy", daemon=True)
    thread.start()

    def on_loop(work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, loop).result(START_SECONDS)

    proxy = AuditingProxy(kubeconfig)
    serving = proxy.serving()
    try:
        on_loop(serving.__aenter__())
        yield proxy
    finally:
        on_loop(serving.__aexit__(None, None, None))
        loop.call_soon_threadsafe(loop.stop)
        thread.join(START_SECONDS)
        loop.close()
