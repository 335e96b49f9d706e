"""What all tiers share: the beds they run on, and how a machine without one is told."""

from collections.abc import Generator

import pytest

from tests.cluster.errors import BedError

pytest_plugins = ["tests.cluster.pytest_fixtures"]


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup() -> Generator[None, object, object]:
    """Say what is missing on this machine in a sentence; a traceback through the bed helps nobody."""
    try:
        return (yield)
    except BedError as error:
        pytest.fail(str(error), pytrace=False)
