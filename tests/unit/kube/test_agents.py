"""Asking an agent: bounded in time and size, and what is no agent's answer is no report."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import cast

import pytest

from dtj.kube.agents import IN_FLIGHT, TIMEOUT, AgentError, Agents
from dtj.lifecycle.agent_report import MAX_ANSWER, AgentReport
from tests.unit.kube.scripted_server import Answer, ScriptedServer, cut, json, silence, stream, text

TOKEN = "secret"  # noqa: S105 - a test's
ANSWER = {"jobUid": "u", "attempt": 2, "step": 7, "totalSteps": 9, "reportAge": 1.5, "metrics": {"loss": 0.5}}


@pytest.fixture
async def agents(server: ScriptedServer) -> Agents:
    return Agents(port=int(server.url.rsplit(":", 1)[1]))


async def test_a_report_is_read_with_the_token_of_the_attempt(server: ScriptedServer, agents: Agents) -> None:
    server.will(json(ANSWER | {"newer": "field"}))

    report = await agents.ask("127.0.0.1", TOKEN)

    assert (report.job_uid, report.attempt, report.step, report.total_steps) == ("u", 2, 7, 9)
    assert (report.report_age, report.metrics, report.running) == (1.5, {"loss": 0.5}, True)
    (seen,) = server.seen
    assert (seen.method, seen.path, seen.headers["Authorization"]) == ("GET", "/v1/progress", f"Bearer {TOKEN}")


NO_REPORT: dict[str, tuple[Answer, str]] = {
    "garbage": (text(b"\x00\xff<html>"), "something else than a report"),
    "half a report": (text(b'{"jobUid": "u", "att'), "something else than a report"),
    "a list": (json([]), "something else than a report"),
    "no name": (json({"attempt": 0}), "something else than a report"),
    "a step of less than nothing": (json(ANSWER | {"step": -1}), "something else than a report"),
    "a step beyond all numbers": (text(b'{"jobUid":"u","attempt":0,"step":1' + b"0" * 400 + b"}"), "something else"),
    "too many metrics": (json(ANSWER | {"metrics": {str(n): n for n in range(17)}}), "something else than a report"),
    "an age of centuries": (json(ANSWER | {"reportAge": 1e12}), "something else than a report"),
    "nested without end": (text(b'{"jobUid":"u","attempt":0,"x":' + b"[" * 50_000), "something else than a report"),
    "a source of two lines": (json(ANSWER | {"source": "keras\n"}), "something else than a report"),
    "refused": (json({}, status=401), r"not as an agent of this job \(status 401\)"),
    "sent elsewhere": (json({}, status=302, headers={"Location": "http://192.0.2.1/"}), r"\(status 302\)"),
    "more than fits": (text(b" " * (MAX_ANSWER + 1)), "not as an agent of this job"),
    "nothing": (text(b""), "something else than a report"),
    "an answer without an end": (stream([b" " * 65_536] * 300, then=silence()), "not as an agent of this job"),
    "hung up": (cut(), "does not answer"),
}


@pytest.mark.parametrize(("answer", "said"), NO_REPORT.values(), ids=NO_REPORT.keys())
async def test_what_is_no_report_is_told(server: ScriptedServer, agents: Agents, answer: Answer, said: str) -> None:
    server.will(answer)

    with pytest.raises(AgentError, match=said):
        await agents.ask("127.0.0.1", TOKEN)


async def test_nobody_is_waited_for_longer_than_a_moment(server: ScriptedServer, agents: Agents) -> None:
    server.will(silence())
    began = asyncio.get_running_loop().time()

    with pytest.raises(AgentError, match="does not answer"):
        await agents.ask("127.0.0.1", TOKEN)
    assert asyncio.get_running_loop().time() - began < TIMEOUT + 1


@pytest.mark.parametrize("address", ["", "not-an-address", "127.0.0.1/../x"])
async def test_what_is_no_address_is_not_asked(agents: Agents, address: str) -> None:
    with pytest.raises(AgentError, match="does not answer"):
        await agents.ask(address, TOKEN)


Speaker = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def served(speaker: Speaker, address: str = "127.0.0.1") -> AsyncIterator[Agents]:
    """For the block, whoever connects is served like that."""
    serving: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving.add(cast("asyncio.Task[None]", asyncio.current_task()))
        with suppress(ConnectionError):
            await reader.read(4096)
            await speaker(reader, writer)
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()

    async with await asyncio.start_server(serve, address, 0, backlog=1024) as server:
        try:
            yield Agents(port=server.sockets[0].getsockname()[1])
        finally:
            await asyncio.gather(*serving)


OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n"
REPORT = b'{"jobUid":"u","attempt":2}'
NO_HTTP = {
    "a banner": ([b"SSH-2.0-OpenSSH_9.2\r\n"], False, "does not answer: the connection ended"),
    "a banner, and waits": ([b"SSH-2.0-OpenSSH_9.2\r\n"], True, "does not answer: TimeoutError"),
    "a banner and an empty line": ([b"* OK IMAP ready\r\n\r\n"], False, "does not answer: what it says is no HTTP"),
    "a status that is none": ([b"HTTP/1.1 abc\r\n\r\n"], False, "does not answer: what it says is no HTTP"),
    "a flood": ([b"\x00" * 4096] * 300, True, "does not answer: what it says is no HTTP"),
    "headers without end": ([b"HTTP/1.1 200 OK\r\n", *[b"X: y\r\n" * 500] * 30], True, "what it says is no HTTP"),
    "hung up in the headers": ([OK[:30]], False, "does not answer: the connection ended"),
    "hung up in the report": ([OK, REPORT[:20]], False, "something else than a report"),
    "waits after half a report": ([OK, REPORT[:20]], True, "does not answer: TimeoutError"),
    "another version of HTTP": ([b"HTTP/2 200\r\n\r\n" + REPORT], False, "does not answer: what it says is no HTTP"),
}


async def asked(address: str, *parts: bytes, then_waits: bool = False) -> AgentReport:
    """What is made of an answer that comes like that."""

    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for part in parts:
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(0)
        if then_waits:
            await reader.read()

    async with served(speak, address) as agents:
        return await agents.ask(address, TOKEN)


@pytest.mark.parametrize(("parts", "then_waits", "said"), NO_HTTP.values(), ids=NO_HTTP.keys())
async def test_whoever_has_the_address_now(parts: list[bytes], then_waits: bool, said: str) -> None:
    with pytest.raises(AgentError, match=said):
        await asked("127.0.0.1", *parts, then_waits=then_waits)


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
async def test_an_answer_in_pieces(size: int) -> None:
    whole = OK + REPORT
    report = await asked("127.0.0.1", *(whole[start : start + size] for start in range(0, len(whole), size)))
    assert (report.job_uid, report.attempt) == ("u", 2)


LENGTHS = {
    "as an agent says it": b"Content-Length: %d",
    "in small letters, as proxies do": b"content-length:%d",
    "in between": b"X-A: b\r\nCONTENT-LENGTH:  %d \r\nX-C: d",
}


@pytest.mark.parametrize("header", LENGTHS.values(), ids=LENGTHS.keys())
async def test_an_answer_of_known_length_needs_no_end(header: bytes) -> None:
    head = b"HTTP/1.1 200 OK\r\n" + header % len(REPORT) + b"\r\n\r\n"
    assert (await asked("127.0.0.1", head, REPORT, then_waits=True)).attempt == 2


async def test_a_length_beyond_all_bounds() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 999999999999999999\r\n\r\n"
    with pytest.raises(AgentError, match="not as an agent of this job"):
        await asked("127.0.0.1", head, *[b" " * 4096] * 17, then_waits=True)


async def test_an_address_of_ipv6() -> None:
    assert (await asked("::1", OK + REPORT)).job_uid == "u"


async def test_so_many_are_asked_at_a_time() -> None:
    under_way = most = 0

    async def slow(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0.05)
        under_way -= 1
        writer.write(OK + REPORT)

    async with served(slow) as agents:
        found = await asyncio.gather(*(agents.ask("127.0.0.1", TOKEN) for _ in range(3 * IN_FLIGHT)))
    assert (most, len(found)) == (IN_FLIGHT, 3 * IN_FLIGHT)
