"""``dtj render``: what the operator would create for a job."""

import sys
from typing import Any

import click
import yaml
from pydantic import ValidationError

from dtj.api import names
from dtj.api.job import DistributedTrainingJob
from dtj.api.spec import NetworkIsolation
from dtj.plan.network_policy import network_policy
from dtj.plan.pods import pod_builder
from dtj.plan.services import headless_service
from dtj.plan.topology import topology_of
from dtj.plan.validation import mistakes_in

RENDERED_UID = "00000000-0000-0000-0000-000000000000"
"""Stands for the UID that the API server gives."""


@click.command()
@click.option(
    "-f", "--filename", type=click.File("rb"), default="-", help="A job's manifest; standard input by default."
)
@click.option("-n", "--namespace", default="default", show_default=True, help="Where the manifest names none.")
@click.option(
    "--operator-namespace",
    default="dtj-system",
    show_default=True,
    help="Where the operator runs; a job with networkIsolation lets it in.",
)
def render(filename: Any, namespace: str, operator_namespace: str) -> None:  # noqa: ANN401 - click's file type
    """Print the Service and the pods that the operator would create for a job, and the NetworkPolicy it asks for.

    The ConfigMap with the agent, the same for all jobs, is left out. Nothing is sent anywhere. All of a manifest is
    checked only by the API server: kubectl apply --dry-run=server.
    """
    job = _read_job(filename.read(), namespace)
    topology = topology_of(job.spec)
    build = pod_builder(job, topology, job.status.attempt)
    isolated = job.spec.network_isolation is NetworkIsolation.JOB
    policies = [network_policy(job, operator_namespace)] if isolated else []
    manifests = [headless_service(job), *policies, *(build(slot) for slot in topology.slots)]
    yaml.safe_dump_all(manifests, sys.stdout, sort_keys=False)


def _read_job(content: bytes, namespace: str) -> DistributedTrainingJob:
    try:
        documents = [each for each in yaml.safe_load_all(content) if each is not None]
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise click.ClickException(f"not YAML: {error}") from error
    found = [each for each in documents if isinstance(each, dict) and each.get("kind", names.KIND) == names.KIND]
    if len(found) != 1:
        raise click.ClickException(
            f"expected one {names.KIND} with apiVersion, kind, metadata and spec; there are {len(found)}"
        )
    [raw] = found
    metadata = raw.get("metadata") or {}
    if not isinstance(metadata, dict) or not metadata.get("name"):
        raise click.ClickException("metadata.name: a name is needed; pods are named after it")
    raw["metadata"] = {"namespace": namespace, "uid": RENDERED_UID, **metadata}
    try:
        job = DistributedTrainingJob.model_validate(raw)
    except ValidationError as error:
        lines = (f"{'.'.join(str(part) for part in each['loc'])}: {each['msg']}" for each in error.errors())
        raise click.ClickException("\n".join(lines)) from error
    if mistakes := mistakes_in(job):
        raise click.ClickException("\n".join(str(mistake) for mistake in mistakes))
    return job
