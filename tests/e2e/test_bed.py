"""The test bed itself: what jobs rely on works in pods on two nodes, and nothing of a bed outlives it."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.cluster import bed, build, network, node, oci, paths, state
from tests.cluster.pytest_fixtures import OTHER_CLUSTER, temporary_bed
from tests.kubectl import Kubectl, eventually

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(OTHER_CLUSTER in os.environ, reason="another cluster is used, so there is no bed to test"),
    pytest.mark.xdist_group("bed"),  # one bed more is enough for all of them
]

PROBE = "docker.io/dtj-bed/probe:1"
SPARE = "docker.io/dtj-bed/spare:1"
DATA = b"original\n"
GPU = "nvidia.com/gpu"
TIMEOUT = 60.0
REPOSITORY = Path(__file__).parents[2]
RESTRICTED_POD = {"runAsNonRoot": True, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}}
RESTRICTED_CONTAINER = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
}

Pod = dict[str, Any]


def load_probe(directory: Path, name: str) -> None:
    oci.write_program_image(directory, name, build.PROBE.directory() / "probe", {"data": DATA, "name": name.encode()})
    bed.load(directory, [name])


@dataclass(frozen=True)
class Cluster:
    """A bed and a namespace of one test in it."""

    bed: bed.Bed
    namespace: str

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        return Kubectl(self.bed.kubectl, self.bed.kubeconfig, self.namespace)(*arguments, stdin=stdin)

    def create(self, *objects: Pod) -> None:
        for item in objects:
            self.kubectl("create", "-f", "-", stdin=json.dumps(item))

    def pod(self, name: str) -> Pod:
        found: Pod = json.loads(self.kubectl("get", "pod", name, "-o", "json"))
        return found

    def pod_when(self, name: str, condition: Callable[[Pod], bool]) -> Pod:
        return eventually(lambda: self.pod(name), condition)

    def finished(self, name: str) -> Pod:
        """Return the state in which the pod's container ended."""
        ended = self.pod_when(name, lambda p: p["status"]["phase"] in ("Succeeded", "Failed"))
        terminated: Pod = ended["status"]["containerStatuses"][0]["state"]["terminated"]
        return terminated

    def running(self, name: str) -> Pod:
        return self.pod_when(name, lambda p: p["status"]["phase"] == "Running")


def pod(name: str, *arguments: str, on: str | None = None, container: Pod | None = None, **spec: object) -> Pod:
    main = {"name": "main", "image": PROBE, "imagePullPolicy": "Never", "args": list(arguments), **(container or {})}
    placed = {"nodeName": on} if on else {}
    base = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [main]}
    metadata = {"name": name, "labels": {"app": "probe"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": base | placed | spec}


@pytest.fixture(scope="module")
def two_nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[bed.Bed]:
    load_probe(tmp_path_factory.mktemp("probe"), PROBE)
    with temporary_bed("bed-tests", nodes=2) as own:
        yield own


@pytest.fixture
def cluster(two_nodes: bed.Bed) -> Iterator[Cluster]:
    mine = Cluster(two_nodes, f"test-{uuid4().hex[:8]}")
    mine.kubectl("create", "namespace", mine.namespace)
    eventually(lambda: mine.kubectl("get", "serviceaccounts", "-o", "name"), lambda out: "default" in out)
    yield mine
    mine.kubectl("delete", "namespace", mine.namespace, "--wait=false")


def test_pods_on_two_nodes_meet_by_the_names_of_a_headless_service(cluster: Cluster) -> None:
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "peers"},
        "spec": {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": {"app": "probe"}},
    }
    never_ready = {"readinessProbe": {"exec": {"command": ["/probe", "exit", "1"]}}}
    cluster.create(
        service,
        pod("one", "serve", "9000", on="node-1", hostname="one", subdomain="peers", container=never_ready),
        pod("two", "dial", "one.peers:9000", on="node-2", hostname="two", subdomain="peers"),
        pod("far", "dial", f"one.peers.{cluster.namespace}.svc.cluster.local:9000", on="node-1"),
    )
    for client in ("two", "far"):
        assert cluster.finished(client)["exitCode"] == 0, cluster.kubectl("logs", client)
        assert cluster.kubectl("logs", client) == "hello from one\n"


@pytest.mark.parametrize("where", ["node-1", "node-2"])
def test_a_pod_reaches_the_api_server_by_its_service(cluster: Cluster, where: str) -> None:
    cluster.create(pod("client", "api-version", on=where))
    cluster.finished("client")
    assert json.loads(cluster.kubectl("logs", "client"))["gitVersion"] == build.KUBERNETES_VERSION


@pytest.mark.parametrize("backend", ["node-1", "node-2"])
def test_a_service_address_leads_to_a_pod_wherever_it_runs(cluster: Cluster, backend: str) -> None:
    ports = [{"port": 80, "targetPort": 9000}]
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web"},
        "spec": {"selector": {"app": "probe"}, "ports": ports},
    }
    client = pod("client", "dial", "web:80", on="node-1")
    client["metadata"]["labels"] = {}
    cluster.create(service, pod("server", "serve", "9000", on=backend), client)
    assert cluster.finished("client")["exitCode"] == 0, cluster.kubectl("logs", "client")


def test_exec_and_port_forward_work(cluster: Cluster) -> None:
    cluster.create(pod("server", "serve", "9000"))
    cluster.running("server")
    assert cluster.kubectl("exec", "server", "--", "/probe", "dial", "localhost:9000") == "hello from server\n"
    command = [str(cluster.bed.kubectl), "--kubeconfig", str(cluster.bed.kubeconfig), "-n", cluster.namespace]
    with subprocess.Popen(
        [*command, "port-forward", "pod/server", ":9000"], stdout=subprocess.PIPE, text=True
    ) as tunnel:
        try:
            assert tunnel.stdout is not None
            local = tunnel.stdout.readline().split()[2]
            probe = [str(build.PROBE.directory() / "probe"), "dial", local]
            said = subprocess.run(probe, text=True, capture_output=True, timeout=TIMEOUT, check=True)
        finally:
            tunnel.kill()
    assert said.stdout == "hello from server\n"


def test_pods_that_ask_for_gpus_are_placed_as_long_as_there_are_some(cluster: Cluster) -> None:
    def asking(count: int) -> Pod:
        return {"resources": {"limits": {GPU: count}}}

    cluster.create(
        pod("fits", "exit", "0", container=asking(bed.DEFAULT_GPUS)),
        pod("too-many", "exit", "0", container=asking(bed.DEFAULT_GPUS + 1)),
    )
    assert cluster.finished("fits")["exitCode"] == 0
    pending = cluster.pod_when("too-many", lambda p: "conditions" in p["status"])
    assert f"Insufficient {GPU}" in pending["status"]["conditions"][0]["message"]


def test_a_container_beyond_its_memory_is_reported_as_such(cluster: Cluster) -> None:
    cluster.create(pod("greedy", "eat", "100", container={"resources": {"limits": {"memory": "32Mi"}}}))
    ended = cluster.finished("greedy")
    assert (ended["reason"], ended["exitCode"]) == ("OOMKilled", 137)


def test_a_restricted_pod_runs_and_cannot_write(cluster: Cluster) -> None:
    cluster.kubectl("label", "namespace", cluster.namespace, "pod-security.kubernetes.io/enforce=restricted")
    container = {"securityContext": RESTRICTED_CONTAINER}
    cluster.create(
        pod("ends", "exit", "3", container=container, securityContext=RESTRICTED_POD),
        pod("writes", "write", "/data", container=container, securityContext=RESTRICTED_POD),
    )
    assert cluster.finished("ends")["exitCode"] == 3
    cluster.finished("writes")
    assert "read-only file system" in cluster.kubectl("logs", "writes")


def test_an_unknown_image_fails_at_once_and_leaves_the_machine_alone(cluster: Cluster) -> None:
    unknown = {"image": "registry.invalid/no/such:1", "imagePullPolicy": "IfNotPresent"}
    cluster.create(pod("unknown", container=unknown))

    def reason(seen: Pod) -> str:
        statuses = seen["status"].get("containerStatuses", [{"state": {}}])
        return str(statuses[0]["state"].get("waiting", {}).get("reason"))

    cluster.pod_when("unknown", lambda p: reason(p) in ("ErrImagePull", "ImagePullBackOff"))


def test_a_container_cannot_change_the_layers_that_nodes_share(cluster: Cluster) -> None:
    as_root = {"securityContext": {"runAsUser": 0}}
    cluster.create(pod("writes", "write", "/data", on="node-1", container=as_root))
    assert cluster.finished("writes")["exitCode"] == 0
    cluster.create(*(pod(f"reads-{n}", "read", "/data", on=n) for n in ("node-1", "node-2")))
    for name in ("reads-node-1", "reads-node-2"):
        cluster.finished(name)
        assert cluster.kubectl("logs", name).encode() == DATA
    shared = paths.seed_dir().glob("containerd/*overlayfs/snapshots/*/fs/data")
    assert {file.read_bytes() for file in shared} == {DATA}


def test_an_image_deleted_on_one_node_stays_on_the_others(cluster: Cluster, tmp_path: Path) -> None:
    load_probe(tmp_path, SPARE)
    known = state.load(cluster.bed.name)
    assert known is not None
    with node.store(known, "node-1").open() as ctr:
        ctr.remove(SPARE)
        assert SPARE not in ctr.images()
    cluster.create(pod("spare", "read", "/name", on="node-2", container={"image": SPARE}))
    cluster.finished("spare")
    assert cluster.kubectl("logs", "spare") == SPARE


def test_a_node_comes_back_with_its_pods_and_gpus(cluster: Cluster) -> None:
    cluster.create(pod("stays", "sleep", on="node-1", restartPolicy="Always"))
    cluster.running("stays")
    bed.stop_node(cluster.bed.name, "node-1")
    bed.start_node(cluster.bed.name, "node-1")

    def restarts(seen: Pod) -> int:
        return int(seen["status"]["containerStatuses"][0]["restartCount"])

    cluster.pod_when("stays", lambda p: restarts(p) == 1 and "running" in p["status"]["containerStatuses"][0]["state"])
    status = json.loads(cluster.kubectl("get", "node", "node-1", "-o", "json"))["status"]
    assert status["allocatable"][GPU] == str(bed.DEFAULT_GPUS)


def test_two_beds_run_beside_each_other_and_one_leaves_nothing(two_nodes: bed.Bed) -> None:
    name = f"bed-tests-beside-{os.getpid()}"
    mounts = Path("/proc/self/mounts").read_text()
    with bed.running(name, nodes=1) as other:
        assert bed.is_running(two_nodes.name)
        first, second = state.load(two_nodes.name), state.load(other.name)
        assert first is not None
        assert second is not None
        assert first.block != second.block
        assert not set(first.ports.values()) & set(second.ports.values())
    assert remains(second) == []
    assert Path("/proc/self/mounts").read_text() == mounts
    assert bed.is_running(two_nodes.name)
    assert bed.down(name) is False


def test_up_removes_first_what_a_killed_up_left() -> None:
    name = f"bed-tests-killed-{os.getpid()}"
    up = [sys.executable, "-m", "tests.cluster", "up", "--name", name, "--nodes", "1"]
    with subprocess.Popen(up, cwd=REPOSITORY, stdout=subprocess.DEVNULL) as killed:

        def has_node() -> state.State | None:
            known = state.load(name)
            return known if known is not None and known.process("node-1") is not None else None

        left = eventually(has_node, lambda known: known is not None)
        killed.send_signal(signal.SIGKILL)
    assert left is not None
    assert not bed.is_running(name)
    try:
        bed.up(name, nodes=1)
        assert bed.is_running(name)
        assert not any(process.is_alive() for process in left.processes)
    finally:
        bed.down(name)
    assert remains(left) == []


def remains(gone: state.State) -> list[str]:
    """Return everything on this machine that still belongs to a bed."""
    listed = subprocess.run(["ip", "-json", "link"], check=True, text=True, capture_output=True, timeout=TIMEOUT)
    links = [link["ifname"] for link in json.loads(listed.stdout)]
    routes = subprocess.run(["ip", "route"], check=True, text=True, capture_output=True, timeout=TIMEOUT).stdout
    alive = [process.name for process in gone.processes if process.is_alive()]
    groups = [str(path) for path in Path("/sys/fs/cgroup").glob(f"**/dtj-{gone.layout.digest}")]
    files = [str(path) for path in (gone.layout.directory, gone.layout.lock) if path.exists()]
    commands = [path for path in Path("/proc").glob("[0-9]*/cmdline") if str(gone.layout.directory) in _read(path)]
    own_links = [name for name in links if name.startswith(network.bridge_name(gone.layout))]
    own_routes = [line for line in routes.splitlines() if network.bridge_name(gone.layout) in line]
    return [*alive, *groups, *files, *map(str, commands), *own_links, *own_routes]


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""
