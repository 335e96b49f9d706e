"""What the contestants create for the same jobs."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from dtj.api import names
from dtj.api.job import DistributedTrainingJob
from dtj.plan.pods import pod_builder
from dtj.plan.services import headless_service
from dtj.plan.topology import topology_of
from tests.bench.scale import kwok

Object = dict[str, Any]

TIME = "2026-01-01T00:00:00Z"
MANY = 10_000
UID = "00000000-0000-0000-0000-000000000000"
_TRAINER = {
    "name": "trainer",
    "image": "dtj/pytorch:dev",
    "command": ["python", "/examples/digits_ddp.py"],
    "resources": {"requests": {"cpu": "10m", "memory": "10Mi"}},
}


@dataclass(frozen=True)
class Shape:
    """So many jobs of so many workers each."""

    jobs: int
    workers: int

    @property
    def pods(self) -> int:
        return self.jobs * self.workers

    def __str__(self) -> str:
        return f"{self.jobs} x {self.workers}"

    def job_names(self) -> Iterator[str]:
        return (f"job-{number}" for number in range(self.jobs))


def training_job(name: str, workers: int) -> Object:
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "metadata": {"name": name},
        "spec": {
            "framework": "PyTorch",
            "replicas": workers,
            "agent": {"mode": "Disabled"},  # no container runs, so nobody could be asked how far it is
            "template": {"spec": {"containers": [_TRAINER]}},
        },
    }


def service_and_pods(name: str, workers: int, namespace: str, attempt: int = 0) -> tuple[Object, list[Object]]:
    """What the operator creates for the job, owned by nobody: the garbage collector would miss the job."""
    raw = training_job(name, workers)
    raw["metadata"] |= {"namespace": namespace, "uid": UID}
    job = DistributedTrainingJob.model_validate(raw)
    topology = topology_of(job.spec)
    build = pod_builder(job, topology, attempt)
    return _unowned(headless_service(job)), [_unowned(build(slot)) for slot in topology.slots]


def indexed_job(name: str, workers: int) -> tuple[Object, Object]:
    """The headless Service, and the Job that names its pods after it."""
    labels = {"job": name}
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": labels,
            "ports": [{"name": "rendezvous", "port": 29500}],
        },
    }
    pod = {"subdomain": name, "restartPolicy": "Never", "containers": [_TRAINER]}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {
            "completionMode": "Indexed",
            "completions": workers,
            "parallelism": workers,
            "backoffLimit": 0,
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }
    return service, job


def finished_job(name: str) -> Object:
    """Complete for long, with the status that says so."""
    complete = {"type": "Complete", "status": "True", "reason": "AllPodsSucceeded", "message": ""}
    conditions = [{**complete, "lastTransitionTime": TIME}]
    status = {"phase": "Succeeded", "startTime": TIME, "completionTime": TIME, "conditions": conditions}
    return {**training_job(name, 1), "status": status}


def refused_job(name: str) -> Object:
    """One whose pods the API server refuses: they ask for more than they may have."""
    job = training_job(name, 1)
    resources = {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}
    job["spec"]["template"] = {"spec": {"containers": [{**_TRAINER, "resources": resources}]}}
    return job


def crashing_job(name: str) -> Object:
    """One whose pods KWOK lets fail as soon as they run, and that is started again without end."""
    job = training_job(name, 1)
    job["spec"]["template"]["metadata"] = {"labels": kwok.CRASHES}
    job["spec"]["failurePolicy"] = {"maxRestarts": MANY}
    return job


def _unowned(content: Object) -> Object:
    content["metadata"].pop("ownerReferences")
    return content
