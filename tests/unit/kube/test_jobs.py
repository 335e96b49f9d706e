"""Reads and writes of the job resource itself."""

from typing import Any

import pytest

from dtj.api import names
from dtj.api.reasons import Reason
from dtj.api.status import JobStatus, Phase
from dtj.kube import jobs
from dtj.kube.client import MERGE_PATCH, Client
from dtj.kube.errors import ApiError
from dtj.lifecycle.decision import Event, EventType
from tests.builders import JOB_UID, NAMESPACE, NOW, a_job
from tests.unit.kube.scripted_server import Answer, ScriptedServer, json, refusal

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


async def test_uids_of_all_pages(server: ScriptedServer, client: Client) -> None:
    def page(uid: str, more: str = "") -> Answer:
        return json({"metadata": {"continue": more}, "items": [{"metadata": {"name": uid, "uid": uid}}]})

    server.will(page("a", "next"), page("b"))

    assert await jobs.list_uids(client) == {"a", "b"}
    assert [seen.query.get("continue") for seen in server.seen] == [None, "next"]
    assert "PartialObjectMetadataList" in server.seen[0].headers["Accept"]


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


def an_event(reason: Reason = Reason.UNSCHEDULABLE, message: str = "0/2 nodes") -> Event:
    return Event(EventType.WARNING, reason, message)


async def write(client: Client, event: Event, attempt: int = 0) -> None:
    await jobs.write_event(client, a_job().build(), event, attempt, "2030-01-02T12:00:00Z")


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


async def test_an_event_that_is_refused_is_told(server: ScriptedServer, client: Client) -> None:
    server.will(refusal(403, "Forbidden"))

    with pytest.raises(ApiError, match="403"):
        await write(client, an_event())
