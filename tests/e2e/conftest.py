"""A cluster with the operator installed by the chart, as a user would."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest

from tests.cluster.pytest_fixtures import OTHER_CLUSTER, temporary_bed
from tests.kubectl import Kubectl

CHART = Path(__file__).parents[2] / "helm" / "dtj-operator"
OPERATOR_NAMESPACE = "dtj-system"
RELEASE = "dtj"
INSTALL_TIMEOUT = 180.0


@dataclass(frozen=True)
class Installed:
    """A cluster in which the operator runs."""

    kubectl: Path
    kubeconfig: Path
    has_bed: bool

    def namespaced(self, namespace: str) -> Kubectl:
        return Kubectl(self.kubectl, self.kubeconfig, namespace)


@pytest.fixture(scope="session")
def installed() -> Iterator[Installed]:
    if given := os.environ.get(OTHER_CLUSTER):
        kubectl, helm = shutil.which("kubectl"), shutil.which("helm")
        assert kubectl, f"{OTHER_CLUSTER} is set: kubectl must be on the PATH"
        assert helm, f"{OTHER_CLUSTER} is set: helm must be on the PATH"
        install(Path(helm), Path(given))
        yield Installed(Path(kubectl), Path(given), has_bed=False)
        return
    with temporary_bed("e2e", nodes=2) as bed:
        install(bed.helm, bed.kubeconfig)
        yield Installed(bed.kubectl, bed.kubeconfig, has_bed=True)


def install(helm: Path, kubeconfig: Path) -> None:
    command = [str(helm), "--kubeconfig", str(kubeconfig), "upgrade", "--install", RELEASE, str(CHART)]
    options = ["--namespace", OPERATOR_NAMESPACE, "--create-namespace", "--wait", "--timeout", "2m"]
    done = subprocess.run([*command, *options], text=True, capture_output=True, timeout=INSTALL_TIMEOUT, check=False)
    assert done.returncode == 0, f"helm install: {done.stderr}"


@pytest.fixture
def kubectl(installed: Installed) -> Iterator[Kubectl]:
    """kubectl in a namespace of this test alone, which enforces the `restricted` Pod Security standard."""
    name = f"dtj-e2e-{uuid4().hex[:8]}"
    in_namespace = installed.namespaced(name)
    in_namespace("create", "namespace", name)
    in_namespace("label", "namespace", name, "pod-security.kubernetes.io/enforce=restricted")
    yield in_namespace
    in_namespace("delete", "namespace", name, "--wait=false")
