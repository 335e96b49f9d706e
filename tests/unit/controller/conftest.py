"""Tests of the controller wait for seconds and minutes that never pass; fastest where no sockets are involved."""

from collections.abc import Callable, Mapping
from functools import partial

import pytest

from tests.unit.virtual_time import VirtualTimeLoop


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], VirtualTimeLoop]]:
    without_sockets = getattr(item.getparent(pytest.Module).obj, "WITHOUT_SOCKETS", False)  # type: ignore[union-attr]
    return {"virtual time": partial(VirtualTimeLoop, grace=0) if without_sockets else VirtualTimeLoop}
