"""Reads and writes of the job resource itself."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import msgspec
import orjson

from dtj.api import names
from dtj.api.job import DistributedTrainingJob
from dtj.api.job import ObjectMeta as JobMeta
from dtj.api.status import JobStatus
from dtj.kube import paths
from dtj.kube.client import MERGE_PATCH, Client
from dtj.kube.errors import ApiError
from dtj.kube.reflector import PAGE_SIZE
from dtj.kube.status_patch import merge_patch
from dtj.lifecycle.children import ObjectMeta
from dtj.lifecycle.decision import DeleteJob, Event

COMPONENT = "dtj-operator"
_METADATA_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"


async def is_served(client: Client) -> bool:
    """Whether the API server knows the resource, that is, whether the CRD is installed."""
    try:
        found = orjson.loads(await client.request("GET", paths.RESOURCES))
    except ApiError as error:
        if error.code == 404:
            return False
        raise
    return any(resource["name"] == names.PLURAL for resource in found.get("resources", []))


@dataclass(frozen=True)
class Versions:
    """Resource version of each job that exists, by UID. ``forbidden``: namespaces of which nothing may be known."""

    by_uid: Mapping[str, str]
    forbidden: frozenset[str] = frozenset()


async def list_versions(client: Client, namespaces: Sequence[str] = ()) -> Versions:
    """Read which jobs exist in these namespaces, without their specs. No namespaces: in all.

    Raises ApiError 403 where not one of them may be read.
    """
    versions: dict[str, str] = {}
    forbidden: dict[str, ApiError] = {}
    for namespace in namespaces or ("",):
        try:
            versions.update(await _list_versions(client, paths.jobs(namespace)))
        except ApiError as error:
            if error.code != 403:
                raise
            forbidden[namespace] = error
    if forbidden and len(forbidden) == max(1, len(namespaces)):
        raise next(iter(forbidden.values()))
    return Versions(versions, frozenset(forbidden))


async def _list_versions(client: Client, path: str) -> dict[str, str]:
    versions: dict[str, str] = {}
    query = {"limit": str(PAGE_SIZE)}
    while True:
        answer = await client.request("GET", path, query=query, accept=_METADATA_ONLY)
        page = msgspec.json.decode(answer, type=_MetadataList)
        versions.update({item.metadata.uid: item.metadata.resource_version for item in page.items or ()})
        if not page.metadata.continue_:
            return versions
        query = {**query, "continue": page.metadata.continue_}


async def read_job(client: Client, namespace: str, name: str, uid: str) -> dict[str, Any] | None:
    """The job as it is now; None if it is gone, also where another one has taken its name."""
    try:
        found: dict[str, Any] = orjson.loads(await client.request("GET", paths.job(namespace, name)))
    except ApiError as error:
        if error.code != 404:
            raise
        return None
    return found if found["metadata"]["uid"] == uid else None


async def write_status(client: Client, job: DistributedTrainingJob, new: JobStatus) -> dict[str, Any]:
    """Compare-and-swap the status: the write fails with ApiError 409 if anybody changed the job since it was read.

    Returns the whole job as it is now.
    """
    patch = {
        "metadata": {"resourceVersion": job.metadata.resource_version, "uid": job.metadata.uid},
        "status": merge_patch(job.status.to_wire() if job.status.phase else {}, new.to_wire()),
    }
    path = paths.job_status(job.metadata.namespace, job.metadata.name)
    written: dict[str, Any] = orjson.loads(await client.request("PATCH", path, body=patch, content_type=MERGE_PATCH))
    return written


async def delete_job(client: Client, namespace: str, write: DeleteJob) -> None:
    """Delete the job as it was seen; what it owns goes with it. One that is gone already is no error.

    Raises ApiError 409 if the job was changed since, or another one has taken its name: then look again.
    """
    options = {
        "preconditions": {"uid": write.uid, "resourceVersion": write.resource_version},
        "propagationPolicy": "Background",
    }
    try:
        await client.request("DELETE", paths.job(namespace, write.name), body=options)
    except ApiError as error:
        if error.code != 404:
            raise


async def write_event(client: Client, job: JobMeta, event: Event, attempt: int, time: str, count: int) -> None:
    """One object per job, attempt and reason: its name is derived from them, and a repetition is counted in it.

    ``count``: how often this process has told it, this time included. ``time`` is RFC 3339.
    """
    digest = sha256(f"{job.uid}/{attempt}/{event.reason}".encode()).hexdigest()[:16]
    name, namespace = f"{job.name}.{digest}", job.namespace
    latest = {"message": event.message[:1024], "lastTimestamp": time, "count": count}
    manifest = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": namespace},
        "involvedObject": {
            "apiVersion": names.API_VERSION,
            "kind": names.KIND,
            "name": job.name,
            "namespace": namespace,
            "uid": job.uid,
        },
        "type": event.type,
        "reason": event.reason,
        "source": {"component": COMPONENT},
        "reportingComponent": COMPONENT,
        "firstTimestamp": time,
        **latest,
    }
    try:
        if count > 1:
            await client.request("PATCH", paths.event(namespace, name), body=latest, content_type=MERGE_PATCH)
            return
    except ApiError as error:
        if error.code != 404:  # events are deleted after an hour
            raise
    try:
        await client.request("POST", paths.events(namespace), body=manifest)
    except ApiError as error:
        if error.code != 409:  # told by an earlier process
            raise


class _ListMeta(msgspec.Struct):
    continue_: str = msgspec.field(name="continue", default="")


class _Item(msgspec.Struct):
    metadata: ObjectMeta


class _MetadataList(msgspec.Struct):
    metadata: _ListMeta
    items: list[_Item] | None = None  # null where there is no job at all
