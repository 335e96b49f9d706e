"""URL paths of the API server, one function each."""

from dtj.api import names

NODES = "/api/v1/nodes"
RESOURCES = f"/apis/{names.API_VERSION}"


def pods(namespace: str) -> str:
    """An empty ``namespace``: those of all."""
    return f"/api/v1/namespaces/{namespace}/pods" if namespace else "/api/v1/pods"


def pod(namespace: str, name: str) -> str:
    return f"{pods(namespace)}/{name}"


def services(namespace: str) -> str:
    """An empty ``namespace``: those of all."""
    return f"/api/v1/namespaces/{namespace}/services" if namespace else "/api/v1/services"


def service(namespace: str, name: str) -> str:
    return f"{services(namespace)}/{name}"


def config_maps(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps"


def network_policies(namespace: str) -> str:
    return f"/apis/networking.k8s.io/v1/namespaces/{namespace}/networkpolicies"


def network_policy(namespace: str, name: str) -> str:
    return f"{network_policies(namespace)}/{name}"


def events(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/events"


def event(namespace: str, name: str) -> str:
    return f"{events(namespace)}/{name}"


def leases(namespace: str) -> str:
    return f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"


def lease(namespace: str, name: str) -> str:
    return f"{leases(namespace)}/{name}"


def jobs(namespace: str) -> str:
    """An empty ``namespace``: those of all."""
    return f"{RESOURCES}/namespaces/{namespace}/{names.PLURAL}" if namespace else f"{RESOURCES}/{names.PLURAL}"


def job(namespace: str, name: str) -> str:
    return f"{jobs(namespace)}/{name}"


def job_status(namespace: str, name: str) -> str:
    return f"{job(namespace, name)}/status"
