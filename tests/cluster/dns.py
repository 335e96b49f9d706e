"""The cluster's DNS: one CoreDNS process beside the control plane, reached by pods through the Service kube-dns."""

from typing import Any

from tests.cluster import build, control_plane, processes
from tests.cluster.api_client import ApiClient
from tests.cluster.certificates import Authority
from tests.cluster.console import step
from tests.cluster.node import DOMAIN
from tests.cluster.state import State

READY_SECONDS = 30.0
USER = "system:coredns"
NAMESPACE = "kube-system"
SERVICE = "kube-dns"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
RECORD_TTL_SECONDS = 5


def start(state: State) -> None:
    """Start CoreDNS, make its Service, and wait until it has seen the cluster."""
    layout = state.layout
    api = ApiClient(layout.kubeconfig)
    with step("cluster DNS ready"):
        for path, manifest in _objects(state):
            api.create(path, manifest)
        kubeconfig = Authority(layout.certificates).kubeconfig(layout.kubeconfig_of("coredns"), state.server, USER)
        corefile = layout.directory / "Corefile"
        corefile.write_text(_corefile(state, str(kubeconfig)))
        log = layout.logs / "coredns.log"
        process = processes.start("coredns", [str(build.COREDNS.directory() / "coredns"), "-conf", str(corefile)], log)
        state.keep(process)
        processes.wait_until(
            lambda: control_plane.http_ok(state.host_address, state.ports["dns-ready"], "/ready"),
            what="cluster DNS",
            timeout=READY_SECONDS,
            watched={process: log},
        )


def _corefile(state: State, kubeconfig: str) -> str:
    return f""".:{state.ports["dns"]} {{
    bind {state.host_address}
    errors
    ready {state.host_address}:{state.ports["dns-ready"]}
    cache {RECORD_TTL_SECONDS}
    kubernetes {DOMAIN} in-addr.arpa {{
        kubeconfig {kubeconfig}
        pods insecure
        ttl {RECORD_TTL_SECONDS}
    }}
}}
"""


def _objects(state: State) -> list[tuple[str, dict[str, Any]]]:
    """Return (collection, object) of what lets CoreDNS read the cluster and pods find CoreDNS."""
    reads = [
        {"apiGroups": [""], "resources": ["services", "pods", "namespaces"], "verbs": ["list", "watch"]},
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]},
    ]
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": USER}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": USER}
    protocols = ("UDP", "TCP")
    ports = [{"name": f"dns-{p.lower()}", "protocol": p, "port": 53} for p in protocols]
    endpoint_ports = [{"name": f"dns-{p.lower()}", "protocol": p, "port": state.ports["dns"]} for p in protocols]
    service = {"metadata": {"name": SERVICE}, "spec": {"clusterIP": state.dns_service, "ports": ports}}
    endpoints = {
        "metadata": {"name": f"{SERVICE}-bed", "labels": {"kubernetes.io/service-name": SERVICE}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [state.host_address]}],
        "ports": endpoint_ports,
    }
    return [
        (f"{RBAC}/clusterroles", {"metadata": {"name": USER}, "rules": reads}),
        (f"{RBAC}/clusterrolebindings", {"metadata": {"name": USER}, "roleRef": role, "subjects": [subject]}),
        (f"/api/v1/namespaces/{NAMESPACE}/services", service),
        (f"/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices", endpoints),
    ]
