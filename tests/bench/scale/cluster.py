"""What is measured on: a control plane on this machine, and nodes that KWOK plays."""

import http.client
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from dtj.api import crd
from tests.api.client import Client as Api
from tests.api.client import Object, connected
from tests.api.resource import REPOSITORY
from tests.bench.scale import client, kwok, requests
from tests.bench.scale.client import Client
from tests.bench.scale.requests import Requests
from tests.cluster import bed as beds
from tests.cluster import build, processes, state
from tests.cluster.processes import Process

PATIENCE_SECONDS = 600.0
START_SECONDS = 60.0
POLL_SECONDS = 0.1
QUIET_SECONDS = 2.0
"""Without a write after which whatever was started counts as done."""


@dataclass(frozen=True)
class Cluster:
    """One running cluster. ``directory`` is for files of those who are measured on it."""

    bed: beds.Bed
    api: Api
    client: Client
    kwok: Process
    directory: Path

    @property
    def kubeconfig(self) -> Path:
        return self.bed.kubeconfig

    def pids(self) -> dict[str, int]:
        """Of every process that serves the cluster, and of the client."""
        known = state.load(self.bed.name)
        assert known is not None
        own = {process.name: process.pid for process in known.processes}
        return {**own, "kwok": self.kwok.pid, "client": self.client.pid}

    def get(self, path: str) -> Object:
        answer = self.api.request("GET", path)
        assert answer.accepted, f"GET {path}: {answer.code} {answer.message}"
        return answer.body

    def served(self) -> Requests:
        """All requests since the start of the API server."""
        return requests.served(str(self.get("/metrics")["message"]))

    def version(self, namespace: str) -> str:
        """The resourceVersion of the namespace's pods now."""
        return str(self.get(f"/api/v1/namespaces/{namespace}/pods?limit=1")["metadata"]["resourceVersion"])

    def new_namespace(self, name: str) -> str:
        self.api.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        until("service account", lambda: self._exists(f"/api/v1/namespaces/{name}/serviceaccounts/default"))
        return name

    def fullest_node(self, namespace: str) -> tuple[str, int]:
        """The node with the most pods of the namespace, and how many these are."""
        pods = self.get(f"/api/v1/namespaces/{namespace}/pods")["items"]
        [fullest] = Counter(str(pod["spec"]["nodeName"]) for pod in pods).most_common(1)
        return fullest

    @contextmanager
    def silent_node(self, name: str) -> Iterator[None]:
        """A node that the control plane believes to be silent for the block, which begins when that is written."""
        path, now = f"/api/v1/nodes/{name}", datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        try:
            # KWOK renews the lease of a node for ever, so nobody would notice by himself.
            self.client.send([_played_by(path, "nobody")])
            self.client.send([client.Call("PATCH", f"{path}/status", {"status": kwok.silence(now)})])
            yield
        finally:
            self.client.send([_played_by(path, "fake")])
            until(f"{name} is back", lambda: _takes_pods(self.get(path)))

    def settle(self) -> None:
        """Wait until nobody has written for a while."""
        before, since = requests.writes(self.served()), time.monotonic()
        deadline = since + PATIENCE_SECONDS
        while time.monotonic() - since < QUIET_SECONDS:
            assert time.monotonic() < deadline, "somebody never stops writing"
            time.sleep(POLL_SECONDS * 5)
            now = requests.writes(self.served())
            if now != before:
                before, since = now, time.monotonic()

    def _exists(self, path: str) -> bool:
        return self.api.request("GET", path).code != http.client.NOT_FOUND


@contextmanager
def running(name: str, nodes: int) -> Iterator[Cluster]:
    """A cluster for the block, with so many nodes and with the project's definition."""
    build.require((*build.CONTROL_PLANE_PARTS, build.KWOK))
    with (
        TemporaryDirectory() as folder,
        beds.running(name, nodes=0, for_load=True) as bed,
        connected(bed.kubectl, bed.kubeconfig) as api,
        client.started(bed.kubeconfig) as own,
        _kubelets(bed.kubeconfig, Path(folder)) as kubelets,
    ):
        api.kubectl_output("apply", "-f", str(REPOSITORY / crd.CRD_FILE))
        cluster = Cluster(bed, api, own, kubelets, Path(folder))
        _join(cluster, [f"node-{number}" for number in range(nodes)])
        yield cluster


def until(what: str, holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < deadline, f"not within {PATIENCE_SECONDS:.0f} s: {what}"
        time.sleep(POLL_SECONDS)


@contextmanager
def _kubelets(kubeconfig: Path, directory: Path) -> Iterator[Process]:
    process = kwok.start(kubeconfig, directory)
    try:
        yield process
    finally:
        processes.kill([process])


def _join(cluster: Cluster, names: list[str]) -> None:
    cluster.client.send(client.Call("POST", "/api/v1/nodes", kwok.node(name)) for name in names)
    processes.wait_until(
        lambda: all(map(_takes_pods, cluster.get("/api/v1/nodes")["items"])),
        what="nodes that take pods",
        timeout=START_SECONDS,
        watched={cluster.kwok: cluster.directory / kwok.LOG},
    )


def _played_by(node: str, player: str) -> client.Call:
    return client.Call("PATCH", node, {"metadata": {"annotations": {kwok.MANAGED: player}}})


def _takes_pods(node: Object) -> bool:
    return _is_ready(node) and not node["spec"].get("taints")


def _is_ready(node: Object) -> bool:
    return any(each["type"] == "Ready" and each["status"] == "True" for each in node["status"].get("conditions", ()))
