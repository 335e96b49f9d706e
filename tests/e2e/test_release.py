"""The operator's release is upgraded beside running jobs: nothing of that touches their pods."""

from collections.abc import Iterator

import pytest

from tests.e2e.jobs import job, status_when
from tests.e2e.operator import Installed
from tests.e2e.steady import Steady
from tests.kubectl import Kubectl, eventually

pytestmark = [pytest.mark.e2e, pytest.mark.alone]


@pytest.fixture
def steady(installed: Installed, kubectl: Kubectl) -> Iterator[Steady]:
    """A running job; after the test the operator is installed as before."""
    try:
        yield Steady(kubectl)
    finally:
        installed.install()


def test_a_rolling_upgrade(installed: Installed, kubectl: Kubectl, steady: Steady) -> None:
    before = {pod["metadata"]["uid"] for pod in installed.pods()}

    installed.install("--set-string=podAnnotations.rolled=1")
    kubectl.apply(job("meanwhile", ["true"], replicas=1))
    status_when(kubectl, "meanwhile", "Succeeded")

    eventually(lambda: {pod["metadata"]["uid"] for pod in installed.pods()}, lambda now: not now & before)
    steady.assert_untouched()
    assert steady.end()["attempt"] == 0
