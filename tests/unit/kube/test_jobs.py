"""Reads and writes of the job resource itself."""

from typing import Any

import pytest

from dtj.api import names
from dtj.api.reasons import Reason
from dtj.api.status import JobStatus, Phase
from dtj.kube import jobs
from dtj.kube.client import MERGE_PATCH, Client
from dtj.kube.errors import ApiError
from dtj.lifecycle.decision import DeleteJob, Event, EventType
from tests.builders import JOB_UID, NAMESPACE, NOW, a_job
from tests.unit.kube.scripted_server import Answer, ScriptedServer, cut, json, refusal

SERVED: dict[str, tuple[Answer, bool]] = {
    "installed": (json({"resources": [{"name": names.PLURAL}]}), True),
    "another resource of the group": (json({"resources": [{"name": "others"}]}), False),
    "nothing of the group": (refusal(404, "NotFound"), False),
    "not yet discovered": (json({}), False),
}


@pytest.mark.parametrize(("answer", "served"), SERVED.values(), ids=SERVED.keys())
async def test_is_served(server: ScriptedServer, client: Client, answer: Answer, served: bool) -> None:
    server.will(answer)

    assert await jobs.is_served(client) is served


async def test_a_refusal_is_no_answer_to_whether_it_is_served(server: ScriptedServer, client: Client) -> None:
    server.will(refusal(403, "Forbidden"))

    with pytest.raises(ApiError, match="403"):
        await jobs.is_served(client)


async def test_versions_of_all_pages(server: ScriptedServer, client: Client) -> None:
    def page(uid: str, version: str, more: str = "") -> Answer:
        return json(
            {
                "metadata": {"continue": more},
                "items": [{"metadata": {"name": uid, "uid": uid, "resourceVersion": version}}],
            }
        )

    server.will(page("a", "1", "next"), page("b", "2"))

    assert await jobs.list_versions(client) == jobs.Versions({"a": "1", "b": "2"})
    assert [seen.query.get("continue") for seen in server.seen] == [None, "next"]
    assert "PartialObjectMetadataList" in server.seen[0].headers["Accept"]


FORBIDDEN = refusal(403, "Forbidden", "cannot list resource")


def listing(uid: str) -> Answer:
    return json({"metadata": {}, "items": [{"metadata": {"name": uid, "uid": uid, "resourceVersion": "1"}}]})


async def test_a_namespace_that_may_not_be_read_hides_no_other(server: ScriptedServer, client: Client) -> None:
    server.will(listing("a"), FORBIDDEN, listing("c"))

    found = await jobs.list_versions(client, ("team-a", "team-b", "team-c"))

    assert found == jobs.Versions({"a": "1", "c": "1"}, frozenset({"team-b"}))
    assert [seen.path.split("/")[5] for seen in server.seen] == ["team-a", "team-b", "team-c"]


@pytest.mark.parametrize("namespaces", [(), ("team-a",), ("team-a", "team-b")])
async def test_where_nothing_may_be_read_that_is_an_error(
    server: ScriptedServer, client: Client, namespaces: tuple[str, ...]
) -> None:
    server.will(*[FORBIDDEN] * max(1, len(namespaces)))
    with pytest.raises(ApiError, match="cannot list resource"):
        await jobs.list_versions(client, namespaces)


async def test_the_status_is_swapped_only_if_the_job_is_as_it_was_read(server: ScriptedServer, client: Client) -> None:
    old = JobStatus(phase=Phase.STARTING, ready="0/1", start_time=NOW)
    new = old.model_copy(update={"phase": Phase.RUNNING, "ready": None})
    job = a_job().status(old)
    written: dict[str, Any] = {"metadata": {"resourceVersion": "2"}}
    server.will(json(written))

    assert await jobs.write_status(client, job.build(), new) == written
    (seen,) = server.seen
    assert seen.method == "PATCH"
    assert seen.path == f"/apis/dtj.dev/v1alpha1/namespaces/{NAMESPACE}/{names.PLURAL}/digits/status"
    assert seen.headers["Content-Type"] == MERGE_PATCH
    assert seen.body == {
        "metadata": {"resourceVersion": "1", "uid": JOB_UID},
        "status": {"phase": "Running", "ready": None},
    }


async def test_the_first_status_is_written_whole(server: ScriptedServer, client: Client) -> None:
    new = JobStatus(phase=Phase.PENDING)
    server.will(json({}))

    await jobs.write_status(client, a_job().build(), new)

    assert server.seen[0].body["status"] == new.to_wire()


async def test_a_lost_race_is_told(server: ScriptedServer, client: Client) -> None:
    server.will(refusal(409, "Conflict"))

    with pytest.raises(ApiError, match="409"):
        await jobs.write_status(client, a_job().build(), JobStatus(phase=Phase.PENDING))


DELETE = DeleteJob("digits", JOB_UID, "7")
DELETED = json({"kind": "Status", "status": "Success"})


async def test_a_job_is_deleted_only_as_it_was_seen(server: ScriptedServer, client: Client) -> None:
    server.will(DELETED)

    await jobs.delete_job(client, NAMESPACE, DELETE)

    (seen,) = server.seen
    assert seen.method == "DELETE"
    assert seen.path == f"/apis/dtj.dev/v1alpha1/namespaces/{NAMESPACE}/{names.PLURAL}/digits"
    assert seen.body == {
        "preconditions": {"uid": JOB_UID, "resourceVersion": "7"},
        "propagationPolicy": "Background",
    }


NO_JOB_LEFT: dict[str, tuple[Answer, ...]] = {
    "somebody was faster": (refusal(404, "NotFound"),),
    "the answer was lost": (cut(), refusal(404, "NotFound")),
}


@pytest.mark.parametrize("answers", NO_JOB_LEFT.values(), ids=NO_JOB_LEFT.keys())
async def test_a_job_that_is_gone_needs_no_deletion(
    server: ScriptedServer, client: Client, answers: tuple[Answer, ...]
) -> None:
    server.will(*answers)

    await jobs.delete_job(client, NAMESPACE, DELETE)

    assert [seen.method for seen in server.seen] == ["DELETE"] * len(answers)


KEPT: dict[str, tuple[Answer, str]] = {
    "the job changed since": (refusal(409, "Conflict", "ResourceVersion in precondition: 7"), "409 Conflict"),
    "the operator may not": (refusal(403, "Forbidden"), "403 Forbidden"),
}


@pytest.mark.parametrize(("answer", "message"), KEPT.values(), ids=KEPT.keys())
async def test_a_job_that_was_not_deleted_is_told(
    server: ScriptedServer, client: Client, answer: Answer, message: str
) -> None:
    server.will(answer)

    with pytest.raises(ApiError, match=message):
        await jobs.delete_job(client, NAMESPACE, DELETE)

    assert len(server.seen) == 1


def an_event(reason: Reason = Reason.UNSCHEDULABLE, message: str = "0/2 nodes") -> Event:
    return Event(EventType.WARNING, reason, message)


async def write(client: Client, event: Event, attempt: int = 0, count: int = 1) -> None:
    await jobs.write_event(client, a_job().build().metadata, event, attempt, "2030-01-02T12:00:00Z", count)


async def test_an_event(server: ScriptedServer, client: Client) -> None:
    server.will(json({}))

    await write(client, an_event(message="x" * 5_000))

    (seen,) = server.seen
    assert seen.path == f"/api/v1/namespaces/{NAMESPACE}/events"
    assert (seen.body["type"], seen.body["reason"], seen.body["message"]) == ("Warning", "Unschedulable", "x" * 1024)
    assert seen.body["involvedObject"]["uid"] == JOB_UID


async def test_an_event_that_was_written_before_is_none(server: ScriptedServer, client: Client) -> None:
    server.will(json({}), refusal(409, "AlreadyExists"), json({}), json({}))

    for reason, attempt in ((Reason.EVICTED, 0), (Reason.EVICTED, 0), (Reason.EVICTED, 1), (Reason.OOM_KILLED, 0)):
        await write(client, an_event(reason), attempt)

    first, again, next_attempt, other_reason = (seen.body["metadata"]["name"] for seen in server.seen)
    assert first == again
    assert len({first, next_attempt, other_reason}) == 3


async def test_a_repetition_is_counted_in_the_event_that_is_there(server: ScriptedServer, client: Client) -> None:
    server.will(json({}), json({}))

    await write(client, an_event(message="0/2 nodes"))
    await write(client, an_event(message="0/3 nodes"), count=2)

    first, again = server.seen
    assert (again.method, again.path) == ("PATCH", f"{first.path}/{first.body['metadata']['name']}")
    assert again.body == {"message": "0/3 nodes", "lastTimestamp": "2030-01-02T12:00:00Z", "count": 2}


async def test_a_repetition_of_an_event_that_is_gone_is_a_new_one(server: ScriptedServer, client: Client) -> None:
    server.will(refusal(404, "NotFound"), json({}))

    await write(client, an_event(), count=3)

    assert [seen.method for seen in server.seen] == ["PATCH", "POST"]
    assert server.seen[1].body["count"] == 3


async def test_an_event_that_is_refused_is_told(server: ScriptedServer, client: Client) -> None:
    server.will(refusal(403, "Forbidden"))

    with pytest.raises(ApiError, match="403"):
        await write(client, an_event())
