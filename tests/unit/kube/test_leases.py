"""The Lease as it is read and written."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from dtj.kube.client import Client
from dtj.kube.errors import ApiError, UnreachableError
from dtj.kube.leases import Lease, Leases
from tests.unit.kube.scripted_server import ScriptedServer, json, refusal, text

COLLECTION = "/apis/coordination.k8s.io/v1/namespaces/dtj-system/leases"
OWN = f"{COLLECTION}/dtj-operator"
NOW = datetime(2026, 11, 21, 10, 0, 0, 1500, tzinfo=UTC)
THEN = "2026-11-21T09:00:00.000000Z"
HELD = Lease("7", "a", THEN, 3)


def stored(version: str, **spec: object) -> dict[str, Any]:
    return {"kind": "Lease", "metadata": {"name": "dtj-operator", "resourceVersion": version}, "spec": spec}


@pytest.fixture
def leases(client: Client) -> Leases:
    return Leases(client, "dtj-system", "dtj-operator")


READ: dict[str, tuple[dict[str, Any], Lease]] = {
    "held": (stored("7", holderIdentity="a", acquireTime=THEN, leaseTransitions=3), HELD),
    "given back": (stored("8", holderIdentity="", acquireTime=THEN), Lease("8", "", THEN, 0)),
    "made by hand, empty": ({"metadata": {"resourceVersion": "1"}}, Lease("1", "", "", 0)),
    "with nulls": (stored("9", holderIdentity=None, leaseTransitions=None), Lease("9", "", "", 0)),
}


@pytest.mark.parametrize(("document", "lease"), READ.values(), ids=READ.keys())
async def test_what_is_read(server: ScriptedServer, leases: Leases, document: dict[str, Any], lease: Lease) -> None:
    server.will(json(document))
    assert await leases.read() == lease
    assert server.seen[0].path == OWN


async def test_there_is_none(server: ScriptedServer, leases: Leases) -> None:
    server.will(refusal(404, "NotFound"))
    assert await leases.read() is None


async def test_a_refusal_is_told(server: ScriptedServer, leases: Leases) -> None:
    server.will(refusal(403, "Forbidden", "cannot get resource"))
    with pytest.raises(ApiError, match="cannot get resource"):
        await leases.read()


async def test_an_answer_without_sense_is_no_lease(server: ScriptedServer, leases: Leases) -> None:
    server.will(text(b'{"metadata": 1}'))
    with pytest.raises(UnreachableError, match="the answer is no Lease"):
        await leases.read()


CLAIMS: dict[str, tuple[Lease | None, str, str, dict[str, Any]]] = {
    "where there was none": (None, "POST", COLLECTION, {"acquireTime": "2026-11-21T10:00:00.001500Z"}),
    "after another": (
        Lease("7", "b", THEN, 3),
        "PUT",
        OWN,
        {"acquireTime": "2026-11-21T10:00:00.001500Z", "leaseTransitions": 4},
    ),
    "renewed": (HELD, "PUT", OWN, {"acquireTime": THEN, "leaseTransitions": 3}),
}


@pytest.mark.parametrize(("before", "method", "path", "differs"), CLAIMS.values(), ids=CLAIMS.keys())
async def test_a_claim(
    server: ScriptedServer, leases: Leases, before: Lease | None, method: str, path: str, differs: dict[str, Any]
) -> None:
    server.will(json(stored("8", holderIdentity="a")))

    assert (await leases.claim(before, "a", NOW.astimezone(timezone(timedelta(hours=2))))).version == "8"

    (seen,) = server.seen
    version = {"resourceVersion": before.version} if before else {}
    assert (seen.method, seen.path) == (method, path)
    assert seen.body["metadata"] == {"name": "dtj-operator", "namespace": "dtj-system", **version}
    assert seen.body["spec"] == {
        "holderIdentity": "a",
        "leaseDurationSeconds": 15,
        "renewTime": "2026-11-21T10:00:00.001500Z",
        "leaseTransitions": 0,
        **differs,
    }


async def test_it_is_given_back(server: ScriptedServer, leases: Leases) -> None:
    server.will(json(stored("8", holderIdentity="")))
    await leases.give_back(HELD, NOW)
    (seen,) = server.seen
    assert (seen.method, seen.body["metadata"]["resourceVersion"]) == ("PUT", "7")
    assert (seen.body["spec"]["holderIdentity"], seen.body["spec"]["leaseDurationSeconds"]) == ("", 1)
