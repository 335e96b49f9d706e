"""What a pod can ask of its node: changes to a pod's spec, and the words in which they are refused."""

from typing import Any, NamedTuple

from tests.api.client import Object

TRAINER: Object = {"name": "trainer", "image": "a"}
SECURITY = "containers.0.securityContext"
REQUESTS_ELSEWHERE = "requests of the kubelet to other hosts"


class Asked(NamedTuple):
    changes: dict[str, Any]
    words: str


def _container(**security: object) -> Object:
    return {"name": "another", "image": "a", "securityContext": security}


HOST_ACCESS: dict[str, Asked] = {
    "processes of the node": Asked({"hostPID": True}, "the processes of the node (hostPID)"),
    "memory of the node": Asked({"hostIPC": True}, "the memory of the node (hostIPC)"),
    "files of the node": Asked(
        {"volumes": [{"name": "a", "emptyDir": {}}, {"name": "root", "hostPath": {"path": "/"}}]},
        "files of the node (hostPath)",
    ),
    "a port of the node": Asked(
        {"containers.0.ports": [{"containerPort": 1}, {"containerPort": 2, "hostPort": 2}]},
        "a port of the node (hostPort)",
    ),
    "a privileged container": Asked({f"{SECURITY}.privileged": True}, "privileged containers"),
    "a privileged sidecar": Asked({"containers": [TRAINER, _container(privileged=True)]}, "privileged containers"),
    "a privileged init container": Asked({"initContainers": [_container(privileged=True)]}, "privileged containers"),
    "a dangerous capability": Asked({f"{SECURITY}.capabilities": {"add": ["SYS_ADMIN"]}}, "further capabilities"),
    "all capabilities": Asked({f"{SECURITY}.capabilities": {"add": ["ALL"]}}, "further capabilities"),
    "a capability by its long name": Asked(
        {f"{SECURITY}.capabilities": {"add": ["CAP_SYS_PTRACE"]}}, "further capabilities"
    ),
    "locked memory": Asked({f"{SECURITY}.capabilities": {"add": ["IPC_LOCK"]}}, "further capabilities"),
    "the whole /proc": Asked({f"{SECURITY}.procMount": "Unmasked", "hostUsers": False}, "an unmasked /proc"),
    "no seccomp profile": Asked({f"{SECURITY}.seccompProfile": {"type": "Unconfined"}}, "no seccomp profile"),
    "no seccomp profile for the pod": Asked(
        {"securityContext.seccompProfile": {"type": "Unconfined"}}, "no seccomp profile"
    ),
    "no AppArmor profile": Asked({f"{SECURITY}.appArmorProfile": {"type": "Unconfined"}}, "no AppArmor profile"),
    "another type of SELinux": Asked({f"{SECURITY}.seLinuxOptions": {"type": "spc_t"}}, "SELinux options"),
    "a sysctl that others feel": Asked(
        {"securityContext.sysctls": [{"name": "kernel.msgmax", "value": "1"}]}, "unsafe sysctls"
    ),
    "a probe of another host": Asked(
        {"containers.0.readinessProbe": {"httpGet": {"host": "10.0.0.1", "port": 80}}}, REQUESTS_ELSEWHERE
    ),
    "a hook that calls another host": Asked(
        {"containers.0.lifecycle": {"preStop": {"httpGet": {"host": "10.0.0.1", "port": 80}}}}, REQUESTS_ELSEWHERE
    ),
}
