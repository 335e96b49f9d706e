"""The operator as a user installs it, and what tests do to it."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from tests.e2e import host
from tests.kubectl import Kubectl, Object, eventually

CHART = Path(__file__).parents[2] / "helm" / "dtj-operator"
OPERATOR_NAMESPACE = "dtj-system"
RELEASE = "dtj"
INSTALL_TIMEOUT = 180.0
CONTAINER = "operator"


@dataclass(frozen=True)
class Installed:
    """A cluster in which the operator runs; ``bed`` is the name of the test bed, None on another cluster."""

    kubectl: Path
    kubeconfig: Path
    bed: str | None

    @property
    def has_bed(self) -> bool:
        return self.bed is not None

    def namespaced(self, namespace: str) -> Kubectl:
        return Kubectl(self.kubectl, self.kubeconfig, namespace)

    @contextmanager
    def own_namespace(self) -> Iterator[Kubectl]:
        """A namespace for the block alone, which enforces the `restricted` Pod Security standard."""
        name = f"dtj-e2e-{uuid4().hex[:8]}"
        kubectl = self.namespaced(name)
        kubectl("create", "namespace", name)
        kubectl("label", "namespace", name, "pod-security.kubernetes.io/enforce=restricted")
        try:
            yield kubectl
        finally:
            kubectl("delete", "namespace", name, "--wait=false")

    def operator_pod(self) -> Object:
        """The pod of the operator once it is ready."""
        pods = eventually(self._operator_pods, lambda found: len(found) == 1 and _is_ready(found[0]))
        return pods[0]

    def kill_operator(self) -> None:
        """SIGKILL from outside: no grace, no chance to say goodbye. Returns when another pod of it is ready.

        The killed pod is deleted, because its kubelet would hold each further restart back for longer.
        """
        pod = self.operator_pod()
        if self.has_bed:
            host.kill(pod, CONTAINER)
        name = pod["metadata"]["name"]
        self.namespaced(OPERATOR_NAMESPACE)("delete", "pod", name, "--grace-period=0", "--force")
        assert self.operator_pod()["metadata"]["name"] != name

    def _operator_pods(self) -> list[Object]:
        return self.namespaced(OPERATOR_NAMESPACE).all("pods", "app.kubernetes.io/name=dtj-operator")


def install(helm: Path, kubeconfig: Path) -> None:
    command = [str(helm), "--kubeconfig", str(kubeconfig), "upgrade", "--install", RELEASE, str(CHART)]
    options = ["--namespace", OPERATOR_NAMESPACE, "--create-namespace", "--wait", "--timeout", "2m"]
    done = subprocess.run([*command, *options], text=True, capture_output=True, timeout=INSTALL_TIMEOUT, check=False)
    assert done.returncode == 0, f"helm install: {done.stderr}"


def _is_ready(pod: Object) -> bool:
    return any(status["ready"] for status in pod["status"].get("containerStatuses", []))
