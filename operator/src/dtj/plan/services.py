"""The headless Service that gives the pods of a job their names."""

from typing import Any

from dtj.api import names, ports
from dtj.api.job import DistributedTrainingJob
from dtj.plan.metadata import job_labels, owner_reference


def headless_service(job: DistributedTrainingJob) -> dict[str, Any]:
    """Names resolve before pods are ready: a gang can only become ready by talking to each other."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": names.service_name(job.metadata.name),
            "namespace": job.metadata.namespace,
            "labels": job_labels(job),
            "ownerReferences": [owner_reference(job)],
        },
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": job_labels(job),
            "ports": [{"name": "rendezvous", "port": ports.RENDEZVOUS, "protocol": "TCP"}],
        },
    }
