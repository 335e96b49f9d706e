"""URL paths of the API server, one function each."""

from dtj.api import names

PODS = "/api/v1/pods"
SERVICES = "/api/v1/services"
NODES = "/api/v1/nodes"
JOBS = f"/apis/{names.API_VERSION}/{names.PLURAL}"
RESOURCES = f"/apis/{names.API_VERSION}"


def pods(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods"


def pod(namespace: str, name: str) -> str:
    return f"{pods(namespace)}/{name}"


def services(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/services"


def service(namespace: str, name: str) -> str:
    return f"{services(namespace)}/{name}"


def config_maps(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps"


def events(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/events"


def event(namespace: str, name: str) -> str:
    return f"{events(namespace)}/{name}"


def job(namespace: str, name: str) -> str:
    return f"/apis/{names.API_VERSION}/namespaces/{namespace}/{names.PLURAL}/{name}"


def job_status(namespace: str, name: str) -> str:
    return f"{job(namespace, name)}/status"
