"""Tests of the queue wait for seconds and minutes that never pass."""

from collections.abc import Callable, Mapping

import pytest

from tests.unit.virtual_time import VirtualTimeLoop


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], VirtualTimeLoop]]:
    return {"virtual time": VirtualTimeLoop}
