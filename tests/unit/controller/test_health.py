"""What the kubelet is told."""

import socket

import aiohttp
import pytest

from dtj.controller.health import health_server


def free_port() -> int:
    with socket.create_server(("", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


@pytest.mark.parametrize("alive", [False, True])
@pytest.mark.parametrize("ready", [False, True])
async def test_the_two_questions_are_answered_apart(alive: bool, ready: bool) -> None:
    port = free_port()
    async with health_server(port, alive=lambda: alive, ready=lambda: ready), aiohttp.ClientSession() as session:
        answers = {}
        for path in ("healthz", "readyz", "metrics"):
            async with session.get(f"http://127.0.0.1:{port}/{path}") as response:
                answers[path] = response.status

    assert answers == {"healthz": 200 if alive else 503, "readyz": 200 if ready else 503, "metrics": 404}


async def test_afterwards_the_port_is_free() -> None:
    port = free_port()
    for _ in range(2):
        async with health_server(port, alive=lambda: True, ready=lambda: True):
            pass


async def test_a_port_in_use_is_told() -> None:
    with socket.create_server(("", 0)) as taken, pytest.raises(OSError, match="address already in use"):
        async with health_server(taken.getsockname()[1], alive=lambda: True, ready=lambda: True):
            pass
