"""A node without a machine, which is heard of for as long as a test wants."""

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from tests.api.client import Client, Object

HEARTBEAT_SECONDS = 5.0
"""Far less than the grace period of the control plane, which takes a silent node for lost."""
STOP_SECONDS = 90.0
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"


class FakeNode:
    """A node of the cluster, by its name."""

    def __init__(self, client: Client, name: str) -> None:
        self.name = name
        self._client = client
        self._silent = threading.Event()
        self._heart = threading.Thread()

    def register(self) -> None:
        """Make the node known and heard of; no real scheduler places anything on it."""
        node = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": self.name},
            "spec": {"unschedulable": True, "taints": [{"key": "dtj.dev/tests", "effect": "NoSchedule"}]},
        }
        self._ensure("POST", "/api/v1/nodes", node)
        self._ensure("POST", LEASES, {"metadata": {"name": self.name}, "spec": {"holderIdentity": self.name}})
        self.be_heard()

    def be_heard(self) -> None:
        """Report that the node is ready, now and for as long as it is not lost."""
        self._say_ready("True", "KubeletReady", "kubelet is posting ready status")
        self._silent.clear()
        self._heart = threading.Thread(target=self._beat, name=f"heart of {self.name}", daemon=True)
        self._heart.start()

    def be_lost(self) -> None:
        """Fall silent, and let the control plane have noticed it at once instead of after its grace period."""
        self._fall_silent()
        self._say_ready("Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status.")

    def unregister(self) -> None:
        self._fall_silent()
        for path in (f"/api/v1/nodes/{self.name}", f"{LEASES}/{self.name}"):
            self._ensure("DELETE", path, None, or_code=http.client.NOT_FOUND)

    def _say_ready(self, status: str, reason: str, message: str) -> None:
        now = _timestamp()
        ready = {"type": "Ready", "status": status, "reason": reason, "message": message}
        condition = {**ready, "lastHeartbeatTime": now, "lastTransitionTime": now}
        change = {"status": {"conditions": [condition]}}
        self._ensure("PATCH", f"/api/v1/nodes/{self.name}/status", change, kind=STRATEGIC_MERGE_PATCH)

    def _fall_silent(self) -> None:
        self._silent.set()
        self._heart.join(STOP_SECONDS)

    def _beat(self) -> None:
        while not self._silent.wait(HEARTBEAT_SECONDS):
            change = {"spec": {"renewTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")}}
            try:
                self._client.request("PATCH", f"{LEASES}/{self.name}", change, STRATEGIC_MERGE_PATCH)
            except OSError:
                continue  # tests stop the API server; the heart beats on, as a kubelet's does

    def _ensure(
        self, method: str, path: str, body: Object | None, *, kind: str = "application/json", or_code: int = 0
    ) -> None:
        answer = self._client.request(method, path, body, kind)
        assert answer.accepted or answer.code == or_code, f"{answer.code}: {answer.message}"


@contextmanager
def a_node(client: Client, name: str) -> Iterator[FakeNode]:
    """A new node for the block."""
    node = FakeNode(client, name)
    node.register()
    try:
        yield node
    finally:
        node.unregister()


def _timestamp() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
