"""The control plane as plain processes of this machine: etcd, API server, controller manager, scheduler."""

import http.client
import json
from pathlib import Path

from tests.cluster import build, processes
from tests.cluster.api_client import ApiClient
from tests.cluster.certificates import Authority
from tests.cluster.console import step
from tests.cluster.processes import Process
from tests.cluster.state import LOOPBACK, State

READY_SECONDS = 60.0
ADMIN_GROUP = "system:masters"
DEFAULT_ACCOUNT = "/api/v1/namespaces/default/serviceaccounts/default"
PORT_NAMES = ("etcd", "etcd-peer", "apiserver", "controller-manager", "scheduler", "dns", "dns-ready")
UNTHROTTLED = ("--kube-api-qps=5000", "--kube-api-burst=10000")
# Every controller asks for a token of its own at the start.
SEVERAL_TOKENS_AT_ONCE = ("--kube-api-qps=200", "--kube-api-burst=400")


def start(state: State) -> None:
    """Start the control plane of `state` and wait until namespaces get their default service account."""
    layout = state.layout
    authority = Authority(layout.certificates)
    with step("certificates"):
        authority.create()
        admin = authority.kubeconfig(layout.kubeconfig, state.server, "bed-admin", ADMIN_GROUP)
    api = ApiClient(admin)
    with step("etcd and API server ready"):
        watched = {}
        for name, command in (("etcd", _etcd(state)), ("kube-apiserver", _apiserver(state, authority))):
            watched[_start(state, name, command)] = layout.logs / f"{name}.log"
        processes.wait_until(api.is_ready, what="the API server", timeout=READY_SECONDS, watched=watched)
    with step("controllers ready"):
        manager = _start(state, "kube-controller-manager", _controller_manager(state, authority))
        if state.nodes or state.for_load:
            _start(state, "kube-scheduler", _scheduler(state, authority))
        processes.wait_until(
            lambda: api.get(DEFAULT_ACCOUNT) is not None,
            what="the default service account",
            timeout=READY_SECONDS,
            watched={manager: layout.logs / "kube-controller-manager.log"},
        )


def http_ok(address: str, port: int, path: str) -> bool:
    """Say whether a plain HTTP health check answers 200."""
    connection = http.client.HTTPConnection(address, port, timeout=2)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _start(state: State, name: str, command: list[str]) -> Process:
    process = processes.start(name, command, state.layout.logs / f"{name}.log")
    state.keep(process)
    return process


def _kube(program: str) -> str:
    return str(build.KUBE.directory() / program)


def _etcd(state: State) -> list[str]:
    client = f"http://{LOOPBACK}:{state.ports['etcd']}"
    peer = f"http://{LOOPBACK}:{state.ports['etcd-peer']}"
    return [
        str(build.ETCD.directory() / "etcd"),
        "--name=bed",
        f"--data-dir={state.layout.directory / 'etcd'}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=bed={peer}",
        "--unsafe-no-fsync",  # a bed's data may be lost with the machine
        "--log-level=warn",
    ]


def _apiserver(state: State, authority: Authority) -> list[str]:
    names = [
        "localhost",
        "kubernetes",
        *(f"kubernetes.default{suffix}" for suffix in ("", ".svc", ".svc.cluster.local")),
    ]
    serving = authority.server("kube-apiserver", [LOOPBACK, state.host_address, state.kubernetes_service], names)
    to_kubelets = authority.client("kube-apiserver-kubelet-client", ADMIN_GROUP)
    arguments = [
        _kube("kube-apiserver"),
        f"--etcd-servers=http://{LOOPBACK}:{state.ports['etcd']}",
        f"--bind-address={state.host_address}",
        f"--advertise-address={state.host_address}",
        f"--secure-port={state.ports['apiserver']}",
        f"--tls-cert-file={serving.certificate}",
        f"--tls-private-key-file={serving.key}",
        f"--client-ca-file={authority.own.certificate}",
        f"--kubelet-certificate-authority={authority.own.certificate}",
        f"--kubelet-client-certificate={to_kubelets.certificate}",
        f"--kubelet-client-key={to_kubelets.key}",
        "--kubelet-preferred-address-types=InternalIP",  # the nodes' names are known to no resolver
        f"--service-account-key-file={authority.service_account_key}",
        f"--service-account-signing-key-file={authority.service_account_key}",
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
        f"--service-cluster-ip-range={state.services}",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--allow-privileged=true",
        "--profiling=false",
        f"--audit-policy-file={_audit_policy(state)}",
        f"--audit-log-path={state.layout.audit_log}",
    ]
    if not state.nodes:
        arguments.append("--endpoint-reconciler-type=none")  # a loopback address can be no Service's endpoint
    return arguments


def _audit_policy(state: State) -> Path:
    """What service accounts of users ask for is written down, without bodies; Kubernetes' own are left out."""
    nobody = {"level": "None"}
    policy = {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [
            {**nobody, "userGroups": ["system:serviceaccounts:kube-system"]},
            {"level": "Metadata", "userGroups": ["system:serviceaccounts"]},
            nobody,
        ],
    }
    path = state.layout.directory / "audit-policy.json"
    path.write_text(json.dumps(policy), encoding="utf-8")
    return path


def _controller_manager(state: State, authority: Authority) -> list[str]:
    kubeconfig = _kubeconfig(state, authority, "kube-controller-manager")
    return [
        _kube("kube-controller-manager"),
        f"--kubeconfig={kubeconfig}",
        f"--bind-address={LOOPBACK}",
        f"--secure-port={state.ports['controller-manager']}",
        f"--root-ca-file={authority.own.certificate}",
        f"--service-account-private-key-file={authority.service_account_key}",
        "--use-service-account-credentials=true",
        *(UNTHROTTLED if state.for_load else SEVERAL_TOKENS_AT_ONCE),
        "--leader-elect=false",
        "--profiling=false",
    ]


def _scheduler(state: State, authority: Authority) -> list[str]:
    kubeconfig = _kubeconfig(state, authority, "kube-scheduler")
    return [
        _kube("kube-scheduler"),
        f"--kubeconfig={kubeconfig}",
        f"--bind-address={LOOPBACK}",
        f"--secure-port={state.ports['scheduler']}",
        *(UNTHROTTLED if state.for_load else ()),
        "--leader-elect=false",
        "--profiling=false",
    ]


def _kubeconfig(state: State, authority: Authority, program: str) -> Path:
    return authority.kubeconfig(state.layout.kubeconfig_of(program), state.server, f"system:{program}")
