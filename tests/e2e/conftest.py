"""A cluster with the operator installed by the chart, as a user would."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.pytest_fixtures import OTHER_CLUSTER, temporary_bed
from tests.e2e.operator import Installed, install
from tests.e2e.storage import claimed
from tests.kubectl import Kubectl


@pytest.fixture(scope="session")
def installed() -> Iterator[Installed]:
    if given := os.environ.get(OTHER_CLUSTER):
        kubectl, helm = shutil.which("kubectl"), shutil.which("helm")
        assert kubectl, f"{OTHER_CLUSTER} is set: kubectl must be on the PATH"
        assert helm, f"{OTHER_CLUSTER} is set: helm must be on the PATH"
        install(Path(helm), Path(given))
        yield Installed(Path(kubectl), Path(given), bed=None)
        return
    with temporary_bed("e2e", nodes=2) as bed:
        install(bed.helm, bed.kubeconfig)
        yield Installed(bed.kubectl, bed.kubeconfig, bed.name)


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
