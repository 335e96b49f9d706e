"""The Lease by which several processes of the operator agree on who leads."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime

import msgspec

from dtj.kube import paths
from dtj.kube.client import Client
from dtj.kube.errors import ApiError, UnreachableError

LEASE_SECONDS = 15
"""How long a leader that is not heard of keeps its place; the default of Kubernetes' own components."""


@dataclass(frozen=True)
class Lease:
    """What the API server has on record. ``holder`` empty: it was given back."""

    version: str
    holder: str
    acquired_at: str
    transitions: int


class Leases:
    """One Lease object, named so in its namespace."""

    def __init__(self, client: Client, namespace: str, name: str) -> None:
        self._client = client
        self._namespace = namespace
        self.name = name

    async def read(self) -> Lease | None:
        """Return what is on record, None where nothing is. Raises KubeError."""
        try:
            return _decoded(await self._client.request("GET", paths.lease(self._namespace, self.name)))
        except ApiError as error:
            if error.code == 404:
                return None
            raise

    async def claim(self, before: Lease | None, holder: str, now: datetime) -> Lease:
        """Put ``holder`` on record in place of what was read. Raises ApiError 409 if somebody else was faster."""
        if before is None:
            return await self._write("POST", Lease("", holder, _micro_time(now), 0), now)
        if before.holder == holder:
            return await self._write("PUT", before, now)
        taken = replace(before, holder=holder, acquired_at=_micro_time(now), transitions=before.transitions + 1)
        return await self._write("PUT", taken, now)

    async def give_back(self, held: Lease, now: datetime) -> None:
        """Say that nobody leads. Raises KubeError."""
        await self._write("PUT", replace(held, holder=""), now)

    async def _write(self, method: str, lease: Lease, now: datetime) -> Lease:
        version = {"resourceVersion": lease.version} if lease.version else {}
        body = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self.name, "namespace": self._namespace, **version},
            "spec": {
                "holderIdentity": lease.holder,
                "leaseDurationSeconds": LEASE_SECONDS if lease.holder else 1,
                "acquireTime": lease.acquired_at or None,
                "renewTime": _micro_time(now),
                "leaseTransitions": lease.transitions,
            },
        }
        collection, own = paths.leases(self._namespace), paths.lease(self._namespace, self.name)
        return _decoded(await self._client.request(method, collection if method == "POST" else own, body=body))


class _Spec(msgspec.Struct, rename="camel"):
    holder_identity: str | None = None
    acquire_time: str | None = None
    lease_transitions: int | None = None


class _Metadata(msgspec.Struct, rename="camel"):
    resource_version: str


class _Object(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec = msgspec.field(default_factory=_Spec)


def _decoded(document: bytes) -> Lease:
    try:
        found = msgspec.json.decode(document, type=_Object)
    except msgspec.MsgspecError as error:
        raise UnreachableError(f"the answer is no Lease: {error}") from error
    spec = found.spec
    return Lease(
        found.metadata.resource_version,
        spec.holder_identity or "",
        spec.acquire_time or "",
        spec.lease_transitions or 0,
    )


def _micro_time(now: datetime) -> str:
    """MicroTime of Kubernetes' API: RFC 3339 in UTC with six digits after the point."""
    return now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
