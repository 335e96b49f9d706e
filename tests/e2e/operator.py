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
LEASE = "dtj-operator"
HELM_TIMEOUT = 180.0
CONTAINER = "operator"
RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}


@dataclass(frozen=True)
class Installed:
    """A cluster in which the operator runs; ``bed`` is the name of the test bed, None on another cluster."""

    kubectl: Path
    helm: Path
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
        kubectl.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": RESTRICTED}})
        try:
            yield kubectl
        finally:
            kubectl("delete", "namespace", name, "--wait=false")

    @property
    def own(self) -> Kubectl:
        """kubectl in the operator's namespace."""
        return self.namespaced(OPERATOR_NAMESPACE)

    def leader(self) -> Object:
        """The pod that leads, once one does that is there and ready."""
        return eventually(self._leaders, lambda found: len(found) == 1 and _is_ready(found[0]))[0]

    def kill_leader(self) -> Object:
        """SIGKILL from outside: no grace, no chance to say goodbye. Returns the pod that leads after it.

        The killed pod is deleted, because its kubelet would start it again at once, and it would lead on.
        """
        pod = self.leader()
        if self.has_bed:
            host.kill(pod, CONTAINER)
        self.own("delete", "pod", pod["metadata"]["name"], "--grace-period=0", "--force")
        after = self.leader()
        assert after["metadata"]["name"] != pod["metadata"]["name"]
        return after

    def leader_after(self, earlier: Object) -> Object:
        """The pod that leads once the earlier one does not."""
        name = earlier["metadata"]["name"]
        return eventually(self._leaders, lambda found: len(found) == 1 and found[0]["metadata"]["name"] != name)[0]

    def is_ready(self, name: str) -> bool:
        return _is_ready(self.own.get("pod", name))

    def api_server_address(self) -> str:
        """Where the pods of the cluster find the API server."""
        return str(self.namespaced("default").get("service", "kubernetes")["spec"]["clusterIP"])

    def pods(self) -> list[Object]:
        return self.own.all("pods", "app.kubernetes.io/name=dtj-operator")

    def run_helm(self, *arguments: str) -> str:
        return run_helm(self.helm, self.kubeconfig, *arguments)

    def install(self, *options: str, chart: Path = CHART) -> None:
        """Install or upgrade the release, and wait until all replicas of the operator are ready."""
        install(self.helm, self.kubeconfig, *options, chart=chart)

    def _leaders(self) -> list[Object]:
        holder = self.own.get("lease", LEASE)["spec"].get("holderIdentity", "")
        return [pod for pod in self.pods() if pod["metadata"]["name"] == holder]


def install(helm: Path, kubeconfig: Path, *options: str, chart: Path = CHART) -> None:
    wait = ("--create-namespace", "--wait", "--timeout", "2m")
    run_helm(helm, kubeconfig, "upgrade", "--install", RELEASE, str(chart), *wait, *options)


def run_helm(helm: Path, kubeconfig: Path, *arguments: str) -> str:
    command = [str(helm), "--kubeconfig", str(kubeconfig), "--namespace", OPERATOR_NAMESPACE, *arguments]
    done = subprocess.run(command, text=True, capture_output=True, timeout=HELM_TIMEOUT, check=False)
    assert done.returncode == 0, f"helm {' '.join(arguments)}: {done.stderr}"
    return done.stdout


def prepare_namespace(kubectl: Kubectl) -> None:
    """The operator's own namespace enforces the `restricted` Pod Security standard as well."""
    manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": OPERATOR_NAMESPACE, "labels": RESTRICTED}}
    kubectl.apply(manifest)


def _is_ready(pod: Object) -> bool:
    return any(status["ready"] for status in pod["status"].get("containerStatuses", []))
