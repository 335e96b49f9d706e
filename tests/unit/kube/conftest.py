"""Tests of the client wait for seconds and minutes that never pass."""

from collections.abc import AsyncIterator, Callable, Mapping

import pytest

from dtj.kube.client import Client
from dtj.kube.connection import Connection
from tests.unit.kube.scripted_server import ScriptedServer
from tests.unit.virtual_time import VirtualTimeLoop


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], VirtualTimeLoop]]:
    return {"virtual time": VirtualTimeLoop}


@pytest.fixture
async def server() -> AsyncIterator[ScriptedServer]:
    async with ScriptedServer() as running:
        yield running


async def no_credentials() -> str | None:
    return None


def connection_to(server: ScriptedServer) -> Connection:
    return Connection(server.url, None, no_credentials)


@pytest.fixture
async def client(server: ScriptedServer) -> AsyncIterator[Client]:
    async with Client(connection_to(server)) as running:
        yield running
