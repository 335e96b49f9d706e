"""The NetworkPolicy of a job that wants to be alone (``spec.networkIsolation``)."""

from typing import Any

from dtj.api import labels, names, ports
from dtj.api.job import DistributedTrainingJob
from dtj.plan.metadata import job_labels, owner_reference


def network_policy(job: DistributedTrainingJob, operator_namespace: str | None) -> dict[str, Any]:
    """Lets in the job's own pods at every port, and the operator at the agent's; nobody limits what goes out.

    ``operator_namespace`` None: the operator runs outside of the cluster, where no selector finds it.
    """
    from_gang = {"from": [{"podSelector": {"matchLabels": job_labels(job)}}]}
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {
            "name": names.network_policy_name(job.metadata.name),
            "namespace": job.metadata.namespace,
            "labels": job_labels(job),
            "ownerReferences": [owner_reference(job)],
        },
        "spec": {
            "podSelector": {"matchLabels": job_labels(job)},
            "policyTypes": ["Ingress"],
            "ingress": [from_gang, *([_from_operator(operator_namespace)] if operator_namespace else [])],
        },
    }


def _from_operator(namespace: str) -> dict[str, Any]:
    operator = {
        "namespaceSelector": {"matchLabels": {labels.NAMESPACE_NAME: namespace}},
        "podSelector": {"matchLabels": {labels.DTJ_COMPONENT: labels.OPERATOR_COMPONENT}},
    }
    return {"from": [operator], "ports": [{"port": ports.AGENT, "protocol": "TCP"}]}
