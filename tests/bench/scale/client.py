"""A bare asynchronous client in a process of its own, so that what it costs can be told from what measuring costs."""

import asyncio
import multiprocessing
import signal
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import orjson
import uvloop

from dtj.kube.connection import Connection, connect

IN_FLIGHT = 64
REQUEST_SECONDS = 120.0
END_SECONDS = 10.0
_JSON = {"Content-Type": "application/json"}
_MERGE_PATCH = {"Content-Type": "application/merge-patch+json"}


class Call(NamedTuple):
    """One request. A PATCH is a merge patch."""

    method: str
    path: str
    body: dict[str, Any] | None = None


class Client:
    """The process as whoever started it sees it."""

    def __init__(self, process: multiprocessing.process.BaseProcess, pipe: Pipe) -> None:
        assert process.pid is not None
        self.pid = process.pid
        self._pipe = pipe

    def load(self, calls: Iterable[Call]) -> None:
        """Take these over, to be sent by ``go`` without delay."""
        self._pipe.send(list(calls))
        self._answer()

    def go(self) -> None:
        """Send what was loaded in order, 64 in flight, and wait for all answers.

        Raises RuntimeError for the first refusal.
        """
        self._pipe.send(None)
        self._answer()

    def send(self, calls: Iterable[Call]) -> None:
        self.load(calls)
        self.go()

    def _answer(self) -> None:
        if refusal := self._pipe.recv():
            raise RuntimeError(refusal)


@contextmanager
def started(kubeconfig: Path) -> Iterator[Client]:
    """A client that has its connections, for the block."""
    context = multiprocessing.get_context("spawn")
    near, far = context.Pipe()
    process = context.Process(target=_serve, args=(far, kubeconfig), daemon=True)
    process.start()
    try:
        client = Client(process, near)
        client.send([Call("GET", "/version")] * IN_FLIGHT)
        yield client
    finally:
        process.terminate()
        process.join(END_SECONDS)


def _serve(pipe: Pipe, kubeconfig: Path) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever started it ends it, after its last work
    uvloop.run(_answer(pipe, connect(kubeconfig)))


async def _answer(pipe: Pipe, connection: Connection) -> None:
    connector = aiohttp.TCPConnector(ssl=connection.tls or True, limit=IN_FLIGHT, keepalive_timeout=3600)
    timeout = aiohttp.ClientTimeout(total=REQUEST_SECONDS)
    authorization = await connection.authorization()
    headers = {"Authorization": authorization} if authorization else {}
    async with aiohttp.ClientSession(
        connection.server, connector=connector, timeout=timeout, headers=headers
    ) as session:
        loaded: Sequence[Call] = ()
        while True:
            if (calls := await asyncio.to_thread(pipe.recv)) is None:
                pipe.send(await _refusal(session, loaded))
            else:
                loaded = calls
                pipe.send("")


async def _refusal(session: aiohttp.ClientSession, calls: Sequence[Call]) -> str:
    """Send all; what was wrong with the first that failed, empty where all went well."""
    waiting = iter(calls)

    async def work() -> list[str]:
        return [refusal for call in waiting if (refusal := await _send(session, call))]

    refusals = await asyncio.gather(*(work() for _ in range(min(IN_FLIGHT, len(calls)))))
    return next((refusal for each in refusals for refusal in each), "")


async def _send(session: aiohttp.ClientSession, call: Call) -> str:
    data = None if call.body is None else orjson.dumps(call.body)
    headers = _MERGE_PATCH if call.method == "PATCH" else _JSON
    try:
        async with session.request(call.method, call.path, data=data, headers=headers) as response:
            content = await response.read()
    except (aiohttp.ClientError, TimeoutError) as error:
        return f"{call.method} {call.path}: {error or type(error).__name__}"
    return "" if response.ok else f"{call.method} {call.path}: {response.status} {content.decode()[:500]}"
