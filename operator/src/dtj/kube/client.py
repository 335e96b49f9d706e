"""HTTP to the API server: one session, bounded in time, in retries and in rate."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Mapping
from types import TracebackType
from typing import Any, Final, Self

import aiohttp
import orjson

from dtj.kube.connection import Connection
from dtj.kube.errors import ApiError, NotLeadingError, UnreachableError
from dtj.kube.throttle import Throttle

MERGE_PATCH: Final = "application/merge-patch+json"
JSON: Final = "application/json"

REQUEST_TIMEOUT: Final = 15.0
CONNECT_TIMEOUT: Final = 5.0
WATCH_IDLE_TIMEOUT: Final = 70.0
"""Seconds without a byte after which a watch counts as dead; the server sends a bookmark about once a minute."""

DEFAULT_RATE: Final = 1000.0
DEFAULT_BURST: Final = 2000
"""Requests per second, and at once. The API server shares itself out fairly and answers 429 where it must, which is
obeyed; this only bounds what a fault of this program could do."""

IN_FLIGHT: Final = 128
"""Requests under way at once, and so connections beside those of the watches. Each costs both sides some milliseconds
of processor time to open, and a busy server answers no faster when it is asked more at once."""

NO_ANSWER: Final = "<error>"
"""In place of a status code, as client-go calls it."""

_ATTEMPTS: Final = 4
_LONGEST_RETRY_AFTER: Final = 10.0
_MAX_LINE: Final = 16 * 1024 * 1024
"""Bytes of one watch event; etcd's own limit for an object is 1.5 MiB."""


def _tell_nobody(_method: str, _code: str) -> None:
    pass


class Client:
    """The API server as coroutines. Use it as an asynchronous context manager.

    ``may_write`` is asked before each request that is more than a question. ``on_answer`` is told method and status
    code of each answer, watches included; ``<error>`` where there was none, or a watch broke.
    """

    def __init__(
        self,
        connection: Connection,
        rate: float = DEFAULT_RATE,
        burst: int = DEFAULT_BURST,
        may_write: Callable[[], bool] = lambda: True,
        on_answer: Callable[[str, str], None] = _tell_nobody,
    ) -> None:
        self._connection = connection
        self._may_write = may_write
        self._on_answer = on_answer
        self._throttle = Throttle(rate, burst)
        self._in_flight = asyncio.Semaphore(IN_FLIGHT)
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        connector = aiohttp.TCPConnector(ssl=self._connection.tls or True, limit=0, keepalive_timeout=60)
        timeout = aiohttp.ClientTimeout(total=REQUEST_TIMEOUT, connect=CONNECT_TIMEOUT)
        self._session = aiohttp.ClientSession(connector=connector, timeout=timeout, read_bufsize=256 * 1024)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: dict[str, Any] | None = None,
        content_type: str = JSON,
        accept: str = JSON,
    ) -> bytes:
        """Return the body of a successful answer.

        429 waits as the server asks, at most ten seconds; 5xx and broken connections are tried again with jitter, four
        times in all. Raises ApiError for every other answer, UnreachableError where there is none, NotLeadingError
        where this process may not write. A write may have happened although its answer was lost: the caller must be
        able to repeat it.
        """
        data = orjson.dumps(body) if body is not None else None
        for attempt in range(1, _ATTEMPTS + 1):
            await self._throttle.take()
            try:
                async with self._in_flight:  # who waits here wants no answer yet, so no timeout runs
                    return await self._once(method, path, query, data, {"Content-Type": content_type, "Accept": accept})
            except _Retry as retry:
                if attempt == _ATTEMPTS:
                    raise retry.error from retry.__cause__
                await asyncio.sleep(retry.after if retry.after is not None else _jittered(attempt))
        raise AssertionError("unreachable")

    async def watch(self, path: str, query: Mapping[str, str]) -> AsyncIterator[bytes]:
        """Yield the lines of a watch. Ends when the server ends it; raises ApiError or UnreachableError."""
        timeout = aiohttp.ClientTimeout(total=None, connect=CONNECT_TIMEOUT, sock_read=WATCH_IDLE_TIMEOUT)
        try:
            async with self._open.get(
                self._url(path), params={**query, "watch": "1"}, headers=await self._headers({}), timeout=timeout
            ) as response:
                self._on_answer("GET", str(response.status))
                if response.status >= 400:
                    raise _api_error(response.status, await response.read())
                async for line in _lines(response.content):
                    yield line
        except (aiohttp.ClientError, TimeoutError) as error:
            self._on_answer("GET", NO_ANSWER)
            raise UnreachableError(f"watch of {path}: {error or type(error).__name__}") from error

    async def _once(
        self, method: str, path: str, query: Mapping[str, str] | None, data: bytes | None, headers: dict[str, str]
    ) -> bytes:
        try:
            all_headers = await self._headers(headers)
            if method != "GET" and not self._may_write():
                raise NotLeadingError(f"{method} {path}: not sent, another process may lead by now")
            async with self._open.request(
                method, self._url(path), params=query, data=data, headers=all_headers
            ) as response:
                answer = await response.read()
                retry_after = response.headers.get("Retry-After", "")
        except (aiohttp.ClientError, TimeoutError) as error:
            self._on_answer(method, NO_ANSWER)
            raise _Retry(UnreachableError(f"{method} {path}: {error or type(error).__name__}")) from error
        self._on_answer(method, str(response.status))
        if response.status < 400:
            if not answer.startswith(b"{"):  # a proxy in between, speaking for itself
                raise _Retry(UnreachableError(f"{method} {path}: the answer is no JSON object"))
            return answer
        refusal = _api_error(response.status, answer)
        if response.status == 429 or response.status >= 500:
            raise _Retry(refusal, float(retry_after) if retry_after.isdigit() else None)
        raise refusal

    @property
    def _open(self) -> aiohttp.ClientSession:
        assert self._session is not None, "the client is used as an asynchronous context manager"  # noqa: S101
        return self._session

    def _url(self, path: str) -> str:
        return self._connection.server + path

    async def _headers(self, headers: dict[str, str]) -> dict[str, str]:
        authorization = await self._connection.authorization()
        return {**headers, "Authorization": authorization} if authorization else headers


class _Retry(Exception):  # noqa: N818 - control flow inside this module
    def __init__(self, error: ApiError | UnreachableError, after: float | None = None) -> None:
        super().__init__()
        self.error = error
        self.after = min(after, _LONGEST_RETRY_AFTER) if after is not None else None


def _jittered(attempt: int) -> float:
    return random.uniform(0.5, 1.0) * 0.1 * 2.0**attempt  # noqa: S311 - spreads load, guards nothing


def _api_error(code: int, answer: bytes) -> ApiError:
    """A Status object, or whatever a proxy in between answered."""
    try:
        status = orjson.loads(answer)
    except orjson.JSONDecodeError:
        status = None
    if not isinstance(status, dict):
        return ApiError(code, "Unknown", answer[:500].decode(errors="replace"))
    return ApiError(code, str(status.get("reason", "Unknown")), str(status.get("message", "")))


async def _lines(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """Complete lines of a stream, however it is cut into chunks."""
    rest = b""
    async for chunk in content.iter_any():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            if line:
                yield line
        if len(rest) > _MAX_LINE:
            raise UnreachableError(f"a watch event is longer than {_MAX_LINE} bytes")
