"""Asks the agents in the pods how far the training is: one small request, bounded in time and size.

A thousand jobs are asked a hundred times a second, each over a connection of its own: an agent serves few of them, and
the other ranks want theirs. So this speaks as much of HTTP/1.1 itself as that takes (RFC 9112): one request, and an
answer as long as its Content-Length says, or until the connection ends. A client for everything that HTTP knows costs
three times as much (`tests.bench.polling`).
"""

import asyncio
import ipaddress
import re
from functools import lru_cache
from typing import Final

import msgspec

from dtj.api import ports
from dtj.lifecycle.agent_report import MAX_ANSWER, AgentReport
from dtj.lifecycle.last_words import printable

TIMEOUT: Final = 2.0
IN_FLIGHT: Final = 100
PATH: Final = "/v1/progress"

_MAX_HEAD: Final = 4096
"""Bytes of status line and headers; an agent's are a hundred."""
_CONTENT_LENGTH: Final = re.compile(rb"\r\ncontent-length:[ \t]*(\d{1,18})[ \t]*(?:\r\n|$)", re.IGNORECASE)


class AgentError(Exception):
    """No report: nobody answers, or not an agent of this job."""


class Agents:
    """The agents of all jobs."""

    def __init__(self, port: int = ports.AGENT) -> None:
        self._port = port
        self._turns = asyncio.Semaphore(IN_FLIGHT)

    async def ask(self, address: str, token: str) -> AgentReport:
        """The report of the agent at a pod's IP address. Raises AgentError."""
        where = f"{address}:{self._port}"
        try:
            async with self._turns, asyncio.timeout(TIMEOUT):
                status, answer = await self._get(address, token)
        except (TimeoutError, OSError, ValueError) as error:
            raise AgentError(f"{where} does not answer: {printable(str(error)) or type(error).__name__}") from error
        if status != "200" or len(answer) > MAX_ANSWER:
            raise AgentError(f"{where} answers, but not as an agent of this job (status {status})")
        try:
            return msgspec.json.decode(answer, type=AgentReport)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise AgentError(f"{where} answers with something else than a report: {printable(str(error))}") from error

    async def _get(self, address: str, token: str) -> tuple[str, bytes]:
        """Status code and body, of which at most one byte more is read than may be.

        Raises OSError, and ValueError for an address that is none.
        """
        host = _host(address)
        reader, writer = await asyncio.open_connection(address, self._port)
        try:
            writer.write(
                f"GET {PATH} HTTP/1.1\r\nHost: {host}:{self._port}\r\nAuthorization: Bearer {token}\r\n"
                "Accept: application/json\r\nConnection: close\r\n\r\n".encode()
            )
            head, body = await _read_head(reader)
            expected = min(_length(head), MAX_ANSWER + 1)
            while len(body) < expected and (part := await reader.read(expected - len(body))):
                body += part
        finally:
            writer.transport.abort()
        return _status(head), body


async def _read_head(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """Everything before the empty line, and as much of the body as came with it. Raises ConnectionError."""
    received = b""
    while b"\r\n\r\n" not in received:
        part = await reader.read(_MAX_HEAD)
        if not part:
            raise ConnectionError("the connection ended")
        received += part
        if len(received) > 2 * _MAX_HEAD:
            raise ConnectionError("what it says is no HTTP")
    head, _, body = received.partition(b"\r\n\r\n")
    return head, body


def _length(head: bytes) -> int:
    """Bytes of the body; without a number it goes on until the connection ends."""
    found = _CONTENT_LENGTH.search(head)
    return int(found[1]) if found else MAX_ANSWER + 1


def _status(head: bytes) -> str:
    """The code in the first line of an answer. Raises ConnectionError for something else than HTTP."""
    protocol, _, rest = head.partition(b" ")
    code = rest[:3]
    if not protocol.startswith(b"HTTP/1.") or not code.isdigit():
        raise ConnectionError("what it says is no HTTP")
    return code.decode()


@lru_cache(maxsize=4096)
def _host(address: str) -> str:
    """The address as it stands in URLs. Raises ValueError: names are not looked up."""
    return f"[{address}]" if ipaddress.ip_address(address).version == 6 else address
