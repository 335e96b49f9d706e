"""Who competes."""

import importlib
from collections.abc import Callable, Mapping
from typing import Final, Protocol, runtime_checkable

from dtj.api import names
from tests.api.operator.process import Operator
from tests.bench.scale import manifests
from tests.bench.scale.client import Call
from tests.bench.scale.cluster import Cluster
from tests.bench.scale.manifests import Object, Shape

FLOOR: Final = "floor"
OURS: Final = "ours"


class Contestant(Protocol):
    """Something that makes pods of jobs. Made for one measurement, with the cluster that it takes place on."""

    @property
    def name(self) -> str: ...

    def prepare(self, namespace: str, shape: Shape) -> None:
        """Be ready for these jobs: start, install what is missing, plan what to send. Not measured."""

    def pids(self) -> Mapping[str, int]:
        """Processes of its own, by name, that run from ``prepare`` to ``end``."""

    def submit(self) -> None:
        """Ask for the jobs' pods; return once all that was sent is accepted. The clock runs."""

    def end(self) -> None:
        """End what ``prepare`` started, also where that failed. The cluster goes next, with all that is in it."""


@runtime_checkable
class Restarting(Protocol):
    """A contestant that replaces all pods of a job when one fails."""

    def prepare_restart(self) -> None:
        """Plan what to send. Not measured."""

    def restart(self) -> None:
        """Let a worker of the first job fail. The clock runs."""


Maker = Callable[[Cluster], Contestant]


class Ours:
    """The operator of this project, from this working tree."""

    name = OURS

    def __init__(self, cluster: Cluster, *options: str) -> None:
        self._cluster = cluster
        self.operator = Operator(cluster.kubeconfig, cluster.directory / "operator.log", *options)

    def prepare(self, namespace: str, shape: Shape) -> None:
        self._namespace, self._shape = namespace, shape
        self.operator.start()
        self.operator.wait_until_ready()
        path = jobs_path(namespace)
        jobs = (manifests.training_job(name, shape.workers) for name in shape.job_names())
        self._cluster.client.load(Call("POST", path, job) for job in jobs)

    def pids(self) -> Mapping[str, int]:
        return {"operator": self.operator.pid}

    def submit(self) -> None:
        self._cluster.client.go()

    def prepare_restart(self) -> None:
        last = names.pod_name(next(self._shape.job_names()), names.WORKER_ROLE, self._shape.workers - 1, 0)
        self._cluster.client.load([end_of(self._namespace, last, exit_code=1)])

    def restart(self) -> None:
        self._cluster.client.go()

    def end(self) -> None:
        self.operator.terminate()


class Floor:
    """A bare client that creates what the operator would, and nothing else: nobody can be much faster."""

    name = FLOOR

    def __init__(self, cluster: Cluster) -> None:
        self._client = cluster.client

    def prepare(self, namespace: str, shape: Shape) -> None:
        self._namespace, self._shape = namespace, shape
        planned = [manifests.service_and_pods(name, shape.workers, namespace) for name in shape.job_names()]
        services = [Call("POST", core_path(namespace, "services"), service) for service, _ in planned]
        pods = [Call("POST", core_path(namespace, "pods"), pod) for _, own in planned for pod in own]
        self._client.load(self._in_order(services, pods))

    def _in_order(self, services: list[Call], pods: list[Call]) -> list[Call]:
        return [*services, *pods]

    def pids(self) -> Mapping[str, int]:
        return {}

    def submit(self) -> None:
        self._client.go()

    def prepare_restart(self) -> None:
        path = core_path(self._namespace, "pods")
        _, before = self._planned(attempt=0)
        _, after = self._planned(attempt=1)
        deletions = [Call("DELETE", f"{path}/{pod['metadata']['name']}") for pod in before]
        self._client.load([*deletions, *(Call("POST", path, pod) for pod in after)])

    def restart(self) -> None:
        self._client.go()

    def end(self) -> None:
        """Nothing was started."""

    def _planned(self, attempt: int) -> tuple[Object, list[Object]]:
        first = next(self._shape.job_names())
        return manifests.service_and_pods(first, self._shape.workers, self._namespace, attempt)


class IndexedJob:
    """What Kubernetes itself has: batch/v1 Jobs in Indexed mode, run by the controller manager."""

    name = "indexed-job"

    def __init__(self, cluster: Cluster) -> None:
        self._client = cluster.client

    def prepare(self, namespace: str, shape: Shape) -> None:
        self._path = f"/apis/batch/v1/namespaces/{namespace}/jobs"
        planned = [manifests.indexed_job(name, shape.workers) for name in shape.job_names()]
        services = [Call("POST", core_path(namespace, "services"), service) for service, _ in planned]
        self._client.load([*services, *(Call("POST", self._path, job) for _, job in planned)])

    def pids(self) -> Mapping[str, int]:
        return {}

    def submit(self) -> None:
        self._client.go()

    def end(self) -> None:
        """The controller manager belongs to the cluster."""


USUAL: Final[tuple[str, ...]] = (OURS, FLOOR, IndexedJob.name)
_OTHERS: Final[Mapping[str, Maker]] = {FLOOR: Floor, IndexedJob.name: IndexedJob}


def maker(name: str, operator_options: tuple[str, ...] = ()) -> Maker:
    """Who is called so, or the class at ``package.module:Class``. Raises ValueError."""
    if name == OURS:
        return lambda cluster: Ours(cluster, *operator_options)
    if name in _OTHERS:
        return _OTHERS[name]
    module, colon, attribute = name.partition(":")
    if not colon:
        raise ValueError(f"contestant {name!r}: use {', '.join(USUAL)} or package.module:Class")
    try:
        found: Maker = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"contestant {name!r}: {error}") from error
    return found


def jobs_path(namespace: str) -> str:
    return f"/apis/{names.API_VERSION}/namespaces/{namespace}/{names.PLURAL}"


def core_path(namespace: str, resource: str) -> str:
    return f"/api/v1/namespaces/{namespace}/{resource}"


def end_of(namespace: str, pod: str, exit_code: int) -> Call:
    """Say as the kubelet that the trainer of a pod, and so the pod, has ended."""
    terminated = {"exitCode": exit_code, "reason": "Error" if exit_code else "Completed"}
    container = {"name": names.TRAINER_CONTAINER, "image": "i", "imageID": "", "ready": False, "restartCount": 0}
    status = {
        "phase": "Failed" if exit_code else "Succeeded",
        "containerStatuses": [{**container, "state": {"terminated": terminated}}],
    }
    return Call("PATCH", f"{core_path(namespace, 'pods')}/{pod}/status", {"status": status})
