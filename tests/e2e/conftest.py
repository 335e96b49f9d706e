"""A cluster with the operator installed by the chart, as a user would."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster import bed as beds
from tests.cluster import locking
from tests.cluster.pytest_fixtures import OTHER_CLUSTER, temporary_bed
from tests.e2e.operator import Installed, prepare_namespace
from tests.e2e.storage import claimed
from tests.kubectl import Kubectl

SHARED_BED = "DTJ_E2E_BED"
"""Name of a running bed on which to run the tests, for several processes at once; without it they start their own."""
INSTALLING_SECONDS = 180.0


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.get_closest_marker("conclusion") is not None)


@pytest.fixture(scope="session")
def installed() -> Iterator[Installed]:
    if given := os.environ.get(OTHER_CLUSTER):
        kubectl, helm = shutil.which("kubectl"), shutil.which("helm")
        assert kubectl, f"{OTHER_CLUSTER} is set: kubectl must be on the PATH"
        assert helm, f"{OTHER_CLUSTER} is set: helm must be on the PATH"
        yield _installed(Path(kubectl), Path(helm), Path(given), None)
        return
    if shared := os.environ.get(SHARED_BED):
        yield _on_bed(beds.find(shared))
        return
    with temporary_bed("e2e", nodes=2) as own:
        yield _on_bed(own)


def _on_bed(bed: beds.Bed) -> Installed:
    # Helm does one thing at a time, and workers that share a bed all come here at first.
    with locking.held(bed.logs / "install.lock", purpose="installing the operator", timeout=INSTALLING_SECONDS):
        return _installed(bed.kubectl, bed.helm, bed.kubeconfig, bed.name)


def _installed(kubectl: Path, helm: Path, kubeconfig: Path, bed: str | None) -> Installed:
    installed = Installed(kubectl, helm, kubeconfig, bed)
    prepare_namespace(installed.own)
    installed.install()
    return installed


@pytest.fixture
def kubectl(installed: Installed) -> Iterator[Kubectl]:
    """kubectl in a namespace of this test alone, which enforces the `restricted` Pod Security standard."""
    with installed.own_namespace() as in_namespace:
        yield in_namespace


@pytest.fixture(scope="session")
def bed(installed: Installed) -> str:
    """The bed's name, for tests that act on nodes and processes from outside of Kubernetes."""
    if installed.bed is None:
        pytest.skip("it kills processes or nodes, counts GPUs or mounts a directory of this machine: bed only")
    return installed.bed


@pytest.fixture
def claim(bed: str, kubectl: Kubectl) -> Iterator[str]:
    """A claim on storage that pods on all nodes share, for checkpoints."""
    with claimed(bed, kubectl) as name:
        yield name
