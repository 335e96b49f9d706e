"""Asking an agent: bounded in time and size, and what is no agent's answer is no report."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from dtj.kube.agents import TIMEOUT, AgentError, Agents
from dtj.lifecycle.agent_report import MAX_ANSWER
from tests.unit.kube.scripted_server import Answer, ScriptedServer, cut, json, silence, stream, text

TOKEN = "secret"  # noqa: S105 - a test's
ANSWER = {"jobUid": "u", "attempt": 2, "step": 7, "totalSteps": 9, "reportAge": 1.5, "metrics": {"loss": 0.5}}


@pytest.fixture
async def agents(server: ScriptedServer) -> AsyncIterator[Agents]:
    async with Agents(port=int(server.url.rsplit(":", 1)[1])) as asking:
        yield asking


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
