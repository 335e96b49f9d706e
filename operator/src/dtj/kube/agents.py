"""Asks the agents in the pods how far the training is: one small request, bounded in time and size."""

import ipaddress
from types import TracebackType
from typing import Final, Self

import aiohttp
import msgspec

from dtj.api import ports
from dtj.lifecycle.agent_report import MAX_ANSWER, AgentReport
from dtj.lifecycle.last_words import printable

TIMEOUT: Final = 2.0
IN_FLIGHT: Final = 100
PATH: Final = "/v1/progress"


class AgentError(Exception):
    """No report: nobody answers, or not an agent of this job."""


class Agents:
    """The agents of all jobs. Use it as an asynchronous context manager."""

    def __init__(self, port: int = ports.AGENT) -> None:
        self._port = port
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        # Nothing is kept open between two requests: an agent serves few connections, and other ranks want them too.
        connector = aiohttp.TCPConnector(limit=IN_FLIGHT, force_close=True)
        self._session = aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=TIMEOUT))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()

    async def ask(self, address: str, token: str) -> AgentReport:
        """The report of the agent at a pod's IP address. Raises AgentError."""
        where = f"{address}:{self._port}"
        assert self._session is not None, "the agents are used as an asynchronous context manager"  # noqa: S101
        try:
            url = f"http://{_in_url(address)}:{self._port}{PATH}"
            headers = {"Authorization": f"Bearer {token}"}
            async with self._session.get(url, headers=headers, allow_redirects=False) as response:
                answer = await _read_up_to(response.content, MAX_ANSWER + 1)
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise AgentError(f"{where} does not answer: {printable(str(error)) or type(error).__name__}") from error
        if response.status != 200 or len(answer) > MAX_ANSWER:
            raise AgentError(f"{where} answers, but not as an agent of this job (status {response.status})")
        try:
            return msgspec.json.decode(answer, type=AgentReport)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise AgentError(f"{where} answers with something else than a report: {printable(str(error))}") from error


async def _read_up_to(content: aiohttp.StreamReader, limit: int) -> bytes:
    parts: list[bytes] = []
    left = limit
    while left > 0 and (part := await content.read(left)):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def _in_url(address: str) -> str:
    return f"[{address}]" if ipaddress.ip_address(address).version == 6 else address
