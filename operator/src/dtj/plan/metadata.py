"""What every object of a job carries: labels that find it, an owner reference that ends it with the job."""

from typing import Any

from dtj.api import labels, names
from dtj.api.job import DistributedTrainingJob


def job_labels(job: DistributedTrainingJob) -> dict[str, str]:
    return {labels.JOB_NAME: job.metadata.name, labels.JOB_UID: job.metadata.uid}


def worker_selector(job: DistributedTrainingJob) -> str:
    """Label selector of the worker pods, as ``kubectl scale`` and autoscalers read it from the status."""
    return f"{labels.JOB_UID}={job.metadata.uid},{labels.ROLE}={names.WORKER_ROLE}"


def owner_reference(job: DistributedTrainingJob) -> dict[str, Any]:
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "name": job.metadata.name,
        "uid": job.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": False,
    }
