"""What the kubelet and Prometheus are told."""

import asyncio
import socket
import time

import aiohttp
import pytest

from dtj.controller.health import BEAT, BEATS, Heartbeat, health_server


async def metrics() -> bytes:
    return b"up 1\n"


def free_port() -> int:
    with socket.create_server(("", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


@pytest.mark.parametrize("alive", [False, True])
@pytest.mark.parametrize("ready", [False, True])
async def test_the_two_questions_are_answered_apart(alive: bool, ready: bool) -> None:
    port = free_port()
    async with (
        health_server(port, alive=lambda: alive, ready=lambda: ready, metrics=metrics),
        aiohttp.ClientSession() as session,
    ):
        answers = {}
        for path in ("healthz", "readyz", "else"):
            async with session.get(f"http://127.0.0.1:{port}/{path}") as response:
                answers[path] = response.status

    assert answers == {"healthz": 200 if alive else 503, "readyz": 200 if ready else 503, "else": 404}


async def test_metrics_are_told_as_text_in_whatever_state() -> None:
    port = free_port()
    async with (
        health_server(port, alive=lambda: False, ready=lambda: False, metrics=metrics),
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{port}/metrics") as response,
    ):
        assert (response.status, await response.read()) == (200, b"up 1\n")
        assert response.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"


async def test_afterwards_the_port_is_free() -> None:
    port = free_port()
    for _ in range(2):
        async with health_server(port, alive=lambda: True, ready=lambda: True, metrics=metrics):
            pass


async def test_a_port_in_use_is_told() -> None:
    with socket.create_server(("", 0)) as taken, pytest.raises(OSError, match="address already in use"):
        async with health_server(taken.getsockname()[1], alive=lambda: True, ready=lambda: True, metrics=metrics):
            pass


async def test_how_late_the_loop_was_is_remembered_for_a_minute() -> None:
    heartbeat = Heartbeat()
    assert heartbeat.worst_lag == 0.0
    beating = asyncio.create_task(heartbeat.beat_for_ever())
    await asyncio.sleep(2.5 * BEAT)
    usual = heartbeat.worst_lag
    time.sleep(BEAT + 0.3)  # noqa: ASYNC251 - keeps the loop from its work
    await asyncio.sleep(BEAT)
    assert usual < 0.2 <= heartbeat.worst_lag
    await asyncio.sleep((BEATS + 2) * BEAT)
    assert heartbeat.worst_lag < 0.2
    beating.cancel()
