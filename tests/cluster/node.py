"""A node: its files, its namespaces, its daemons (containerd, kubelet, kube-proxy)."""

import contextlib
import json
import os
import sys
from pathlib import Path
from typing import Any

from tests.cluster import build, cgroups, containerd, images, machine, network, paths, processes, requirements
from tests.cluster.api_client import ApiClient
from tests.cluster.certificates import Authority
from tests.cluster.errors import BedError
from tests.cluster.state import State

READY_SECONDS = 90.0
SPAWN_SECONDS = 10.0
DOMAIN = "cluster.local"
GPU_RESOURCE = "nvidia.com/gpu"
INSIDE = Path(machine.NODE)
RUNTIME = containerd.Daemon(root=INSIDE / "containerd", state=Path("/run/containerd"))
NAMESPACES = ("unshare", "--pid", "--fork", "--mount", "--net", "--uts", "--ipc", "--kill-child", "--mount-proc")


def prepare(state: State, name: str) -> None:
    """Write everything a node needs before it first starts: certificates, configurations, images."""
    directory = state.layout.node(name)
    (directory / "logs").mkdir(parents=True)
    (directory / "cni").mkdir()
    authority = Authority(state.layout.certificates)
    authority.kubeconfig(directory / "kubelet.kubeconfig", state.server, f"system:node:{name}", "system:nodes")
    authority.kubeconfig(directory / "kube-proxy.kubeconfig", state.server, "system:kube-proxy")
    _write(directory / "kubelet.json", _kubelet_configuration(state, name, authority))
    _write(directory / "kube-proxy.json", _proxy_configuration(state, name))
    _write(directory / "cni" / "10-pods.conflist", _pod_network(state, name))
    (directory / "resolv.conf").write_text(_resolver(state))
    (directory / "containerd.toml").write_text(containerd.node_configuration(RUNTIME, cni_configuration=INSIDE / "cni"))
    images.give_copy(directory / "containerd", directory)


def start(state: State, name: str) -> None:
    """Start a prepared node; it becomes Ready later, see `wait_ready`."""
    log = state.layout.node(name) / "logs" / "machine.log"
    cgroups.create(state.layout, name)
    reading, writing = os.pipe()
    try:
        with os.fdopen(writing, "w") as instructions:
            unshare = processes.spawn(
                [*NAMESPACES, sys.executable, "-I", machine.__file__], log, standard_input=reading
            )
            first = _first_process(unshare, log)
            state.keep(processes.identify(name, first, log))
            network.connect(state, name, first)
            json.dump(_instructions(state, name), instructions)
    finally:
        os.close(reading)


def stop(state: State, name: str) -> None:
    """Kill a node as a power cut would: every process, mount and interface of it is gone."""
    running = state.process(name)
    if running is not None:
        # First the network: dying processes would close their connections, and peers would know at once.
        network.disconnect(state, name)
        processes.kill([running])


def last_report(state: State, name: str) -> str | None:
    """Return the time at which the node last said that it was Ready, None if it did not."""
    found = ApiClient(state.layout.kubeconfig).get(f"/api/v1/nodes/{name}")
    conditions = found["status"].get("conditions", []) if found else []
    ready = (c for c in conditions if c["type"] == "Ready" and c["status"] == "True")
    return next((str(c["lastHeartbeatTime"]) for c in ready), None)


def wait_ready(state: State, name: str, *, since: str | None = None) -> None:
    """Wait until a node reports that it is Ready, after the report of time `since`; then advertise its GPUs."""
    process = state.process(name)
    log = state.layout.node(name) / "logs" / "kubelet.log"
    processes.wait_until(
        lambda: last_report(state, name) not in (None, since),
        what=f"{name} Ready",
        timeout=READY_SECONDS,
        watched={process: log} if process is not None else {},
    )
    _advertise_gpus(ApiClient(state.layout.kubeconfig), name, state.gpus_per_node)


def store(state: State, name: str) -> images.Store:
    """Return the image store of a running node."""
    process = state.process(name)
    if process is None or not process.is_alive():
        raise BedError(f"{name} of bed {state.name} does not run")
    enter = ("nsenter", f"--target={process.pid}", "--mount")
    ctr = containerd.Ctr(RUNTIME.socket, enter)
    return images.Store(f"bed {state.name}, {name}", state.layout.node(name), lambda: contextlib.nullcontext(ctr))


def _advertise_gpus(api: ApiClient, name: str, count: int) -> None:
    """Say that the node has GPUs, so that the scheduler places pods that ask for one (which get none)."""
    resources = {GPU_RESOURCE: str(count)}
    api.merge(f"/api/v1/nodes/{name}/status", {"status": {"capacity": resources, "allocatable": resources}})


def _first_process(unshare: int, log: Path) -> int:
    """Return the id, as this machine sees it, of the first process in the new namespaces."""
    children = Path(f"/proc/{unshare}/task/{unshare}/children")
    watched = {processes.identify("unshare", unshare, log): log}
    processes.wait_until(
        lambda: bool(children.read_text().strip()), what="the node's namespaces", timeout=SPAWN_SECONDS, watched=watched
    )
    return int(children.read_text().split()[0])


def _instructions(state: State, name: str) -> dict[str, Any]:
    """Return what machine.py reads from its standard input."""
    others = {state.pods(n): state.node_address(n) for n in state.node_names if n != name}
    # No default route: whatever looks for an image registry fails at once, and nothing leaves the machine. A Service's
    # address needs some route before the packet filter gets to see and rewrite it.
    services: dict[str, str | None] = {state.services: None}
    programs = (str(part.directory()) for part in (build.CONTAINERD, build.KUBE))
    return {
        "name": name,
        "directory": str(state.layout.node(name)),
        "cache": str(paths.cache_dir()),
        "resolver": _resolver(state),
        "address": f"{state.node_address(name)}/{state.node_network.prefixlen}",
        "routes": services | others,
        "path": ":".join([*programs, requirements.SYSTEM_PATH]),
        "runtime_socket": str(RUNTIME.socket),
        "daemons": {
            "containerd": ["containerd", "--config", f"{INSIDE}/containerd.toml"],
            "kubelet": [
                "kubelet",
                f"--config={INSIDE}/kubelet.json",
                f"--kubeconfig={INSIDE}/kubelet.kubeconfig",
                f"--root-dir={INSIDE}/kubelet",
                f"--hostname-override={name}",
                f"--node-ip={state.node_address(name)}",
            ],
            "kube-proxy": ["kube-proxy", f"--config={INSIDE}/kube-proxy.json"],
        },
    }


def _kubelet_configuration(state: State, name: str, authority: Authority) -> dict[str, Any]:
    serving = authority.server(f"{name}-kubelet", [state.node_address(name)], [name])
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "tlsCertFile": str(serving.certificate),
        "tlsPrivateKeyFile": str(serving.key),
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(authority.own.certificate)},
        },
        "authorization": {"mode": "Webhook"},
        "containerRuntimeEndpoint": f"unix://{RUNTIME.socket}",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": cgroups.group(state.layout, name),
        "failCgroupV1": False,
        "failSwapOn": False,
        "oomScoreAdj": 0,
        "makeIPTablesUtilChains": False,
        "clusterDNS": [state.dns_service],
        "clusterDomain": DOMAIN,
        "resolvConf": f"{INSIDE}/resolv.conf",
        "podLogsDir": f"{INSIDE}/pod-logs",
        "maxPods": 110,
        "serializeImagePulls": False,
        # The disk is the whole machine's: how full it is says nothing about this node.
        "evictionHard": {
            "memory.available": "100Mi",
            "nodefs.available": "0%",
            "nodefs.inodesFree": "0%",
            "imagefs.available": "0%",
        },
        "imageGCHighThresholdPercent": 100,
    }


def _proxy_configuration(state: State, name: str) -> dict[str, Any]:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "clientConnection": {"kubeconfig": f"{INSIDE}/kube-proxy.kubeconfig"},
        "hostnameOverride": name,
        "clusterCIDR": state.block,
        # The kernel's connection limits are the whole machine's; zero leaves them alone.
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
        "healthzBindAddress": "127.0.0.1:10256",
        "metricsBindAddress": "127.0.0.1:10249",
    }


def _pod_network(state: State, name: str) -> dict[str, Any]:
    addresses = {
        "type": "host-local",
        "dataDir": "/run/cni-addresses",
        "ranges": [[{"subnet": state.pods(name)}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    # A link of its own for each pod, routed: traffic between pods of a node then passes the rules of kube-proxy, which
    # over a bridge takes a kernel module and a setting.
    point_to_point = {"type": "ptp", "ipMasq": False, "ipam": addresses}
    ports = {"type": "portmap", "capabilities": {"portMappings": True}}
    return {"cniVersion": "1.0.0", "name": "pods", "plugins": [point_to_point, ports]}


def _resolver(state: State) -> str:
    return f"nameserver {state.dns_service}\n"


def _write(path: Path, document: dict[str, Any]) -> None:
    path.write_text(json.dumps(document, indent=2) + "\n")
