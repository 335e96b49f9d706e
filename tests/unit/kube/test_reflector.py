"""The local copy of a set of objects, against a real server that pages, breaks off and forgets."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import orjson
import pytest

from dtj.kube.client import Client
from dtj.kube.reflector import Reflector
from dtj.lifecycle.children import Pod
from tests.builders import JOB_UID, a_pod
from tests.unit.kube.scripted_server import Answer, ScriptedServer, json, refusal, silence, stream, text, when

Change = tuple[str, str]


def pod(index: int, version: int, phase: str = "Pending") -> dict[str, Any]:
    return a_pod(index=index).version(version).in_phase(phase).raw()


def listed(*items: dict[str, Any], version: int, more: str = "") -> Answer:
    metadata = {"resourceVersion": str(version), **({"continue": more} if more else {})}
    return json({"kind": "PodList", "metadata": metadata, "items": list(items)})


def event(kind: str, content: dict[str, Any]) -> bytes:
    return orjson.dumps({"type": kind, "object": content}) + b"\n"


def bookmark(version: int) -> bytes:
    return event("BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": str(version), "creationTimestamp": None}})


def expired(code: int = 410) -> bytes:
    return event("ERROR", {"kind": "Status", "code": code, "reason": "Expired", "message": "too old"})


class Followed:
    """A reflector at work, with all it told."""

    def __init__(self, client: Client, server: ScriptedServer) -> None:
        self.changes: list[Change] = []
        self.server = server
        self.pods = Reflector(client, "/pods", "app", Pod, lambda pod: pod.metadata.controller_uid or "", self._told)

    def _told(self, before: Pod | None, after: Pod | None) -> None:
        pod = after or before
        assert pod is not None
        kind = "changed" if before and after else "added" if after else "removed"
        self.changes.append((kind, pod.name.removeprefix("digits-worker-")))

    @property
    def names(self) -> list[str]:
        return sorted(pod.name.removeprefix("digits-worker-") for pod in self.pods.group(JOB_UID))

    async def until_answers_are_used_up(self) -> None:
        """Wait until the server has nothing more to say; the last answer should end in ``silence``."""
        async with asyncio.timeout(600):
            await self.server.used_up.wait()
        await asyncio.sleep(1)


@asynccontextmanager
async def followed(client: Client, server: ScriptedServer, *answers: Answer) -> AsyncIterator[Followed]:
    server.will(*answers)
    following = Followed(client, server)
    task = asyncio.create_task(following.pods.run())
    try:
        await following.until_answers_are_used_up()
        yield following
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_pages_are_listed_to_the_end(server: ScriptedServer, client: Client) -> None:
    pages = (listed(pod(0, 1), version=5, more="next"), listed(pod(1, 2), version=5))
    async with followed(client, server, *pages, silence()) as following:
        assert following.names == ["0", "1"]
        assert following.pods.synced.is_set()

    first, second, watch = server.seen
    assert first.query == {"labelSelector": "app", "limit": "500"}
    assert second.query == {"labelSelector": "app", "limit": "500", "continue": "next"}
    assert watch.query.items() >= {"watch": "1", "resourceVersion": "5", "allowWatchBookmarks": "true"}.items()


async def test_without_a_selector_all_are_read(server: ScriptedServer, client: Client) -> None:
    def ignore(before: object, after: object) -> None:
        """Only the requests matter here."""

    server.will(listed(version=5), silence())
    task = asyncio.create_task(Reflector(client, "/pods", None, Pod, lambda pod: pod.name, ignore).run())
    async with asyncio.timeout(600):
        await server.used_up.wait()

    assert ["labelSelector" in seen.query for seen in server.seen] == [False, False]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_it_is_not_synced_before_the_last_page(server: ScriptedServer, client: Client) -> None:
    async with followed(client, server, listed(pod(0, 1), version=5, more="next"), silence()) as following:
        assert not following.pods.synced.is_set()


async def test_events_are_taken_in_and_told(server: ScriptedServer, client: Client) -> None:
    events = [
        event("ADDED", pod(1, 6)),
        event("MODIFIED", pod(0, 7, "Running")),
        event("DELETED", pod(1, 8)),
    ]
    async with followed(client, server, listed(pod(0, 1), version=5), stream(events, then=silence())) as following:
        assert following.names == ["0"]
        assert following.changes == [("added", "0"), ("added", "1"), ("changed", "0"), ("removed", "1")]
        assert following.pods.group(JOB_UID)[0].status.phase == "Running"


async def test_a_watch_that_ends_is_renewed_from_where_it_stood(server: ScriptedServer, client: Client) -> None:
    events = stream([event("ADDED", pod(1, 6)), bookmark(9)])
    async with followed(client, server, listed(version=5), events, silence()):
        pass

    assert [seen.query.get("resourceVersion") for seen in server.seen] == [None, "5", "9"]


async def test_a_watch_that_ends_at_once_is_not_renewed_without_a_pause(server: ScriptedServer, client: Client) -> None:
    async with followed(client, server, listed(version=5), *[stream([])] * 6, silence()):
        pass

    watches = server.seen[1:]
    assert watches[-1].at - watches[0].at > 0.5


async def test_a_broken_watch_is_renewed_from_where_it_stood(server: ScriptedServer, client: Client) -> None:
    broken = stream([event("ADDED", pod(1, 6)), event("ADDED", pod(2, 7))[:30]])
    async with followed(client, server, listed(version=5), broken, silence()) as following:
        assert following.names == ["1"]

    assert server.seen[-1].query["resourceVersion"] == "6"


GONE: dict[str, Answer] = {
    "in the stream": stream([expired()]),
    "as an answer": refusal(410, "Expired"),
}


@pytest.mark.parametrize("gone", GONE.values(), ids=GONE.keys())
async def test_after_410_all_is_listed_again_and_missed_deletions_are_told(
    server: ScriptedServer, client: Client, gone: Answer
) -> None:
    before = listed(pod(0, 1), pod(1, 2), version=5)
    after = listed(pod(1, 2), pod(2, 7), version=8)
    async with followed(client, server, before, gone, after, silence()) as following:
        assert following.names == ["1", "2"]
        assert following.changes == [("added", "0"), ("added", "1"), ("added", "2"), ("removed", "0")]

    assert server.seen[-1].query["resourceVersion"] == "8"


async def test_a_pod_made_anew_under_the_same_name_is_another(server: ScriptedServer, client: Client) -> None:
    anew = pod(0, 7)
    anew["metadata"]["uid"] = "another"
    answers = (listed(pod(0, 1), version=5), stream([expired()]), listed(anew, version=8), silence())
    async with followed(client, server, *answers) as following:
        assert following.changes == [("added", "0"), ("added", "0"), ("removed", "0")]
        assert [each.metadata.uid for each in following.pods.group(JOB_UID)] == ["another"]


async def test_a_page_that_expired_starts_the_listing_anew(server: ScriptedServer, client: Client) -> None:
    answers = (listed(pod(0, 1), version=5, more="next"), refusal(410, "Expired"), listed(pod(1, 6), version=7))
    async with followed(client, server, *answers, silence()) as following:
        assert following.names == ["1"]


TROUBLES: dict[str, Answer] = {
    "the server is broken": stream([event("ERROR", {"code": 500, "reason": "InternalError", "message": "etcd"})]),
    "the operator may not": refusal(403, "Forbidden"),
    "a proxy answers in its own words": stream([b"<html>\n"]),
    "an event without a type": stream([b"{}\n"]),
    "a pod without metadata": stream([event("ADDED", {"kind": "Pod"})]),
}


@pytest.mark.parametrize("trouble", TROUBLES.values(), ids=TROUBLES.keys())
async def test_trouble_in_a_watch_is_outlived(server: ScriptedServer, client: Client, trouble: Answer) -> None:
    healed = stream([event("ADDED", pod(1, 6))], then=silence())
    async with followed(client, server, listed(pod(0, 1), version=5), trouble, trouble, healed) as following:
        assert following.names == ["0", "1"]


LIST_TROUBLES: dict[str, Answer] = {
    "the operator may not": refusal(403, "Forbidden"),
    "a proxy answers in its own words": text(b"<html>"),
    "a list of another kind": json({"kind": "Status", "metadata": []}),
}


@pytest.mark.parametrize("trouble", LIST_TROUBLES.values(), ids=LIST_TROUBLES.keys())
async def test_trouble_in_a_list_is_outlived(server: ScriptedServer, client: Client, trouble: Answer) -> None:
    async with followed(client, server, trouble, trouble, listed(pod(0, 1), version=5), silence()) as following:
        assert following.names == ["0"]


async def test_trouble_is_tried_again_later_each_time_and_at_least_twice_a_minute(
    server: ScriptedServer, client: Client
) -> None:
    async with followed(client, server, *[refusal(403, "Forbidden")] * 12, listed(version=5), silence()):
        pass

    waits = [later.at - earlier.at for earlier, later in zip(server.seen, server.seen[1:12], strict=False)]
    assert waits[0] < 1
    assert waits[-1] >= 14
    assert max(waits) <= 31


async def test_an_older_version_that_comes_late_is_passed_over(server: ScriptedServer, client: Client) -> None:
    events = stream([event("MODIFIED", pod(0, 6, "Pending"))], then=silence())
    async with followed(client, server, listed(pod(0, 7, "Running"), version=7), events) as following:
        assert following.pods.group(JOB_UID)[0].status.phase == "Running"
        assert following.changes == [("added", "0")]


async def test_versions_are_numbers_not_words(server: ScriptedServer, client: Client) -> None:
    events = stream([event("MODIFIED", pod(0, 10, "Running"))], then=silence())
    async with followed(client, server, listed(pod(0, 9), version=9), events) as following:
        assert following.pods.group(JOB_UID)[0].status.phase == "Running"


async def test_own_writes_are_seen_at_once_and_told_once(server: ScriptedServer, client: Client) -> None:
    written = orjson.dumps(pod(1, 6))
    async with followed(client, server, listed(pod(0, 1), version=5), silence()) as following:
        following.pods.write_through(written)
        following.pods.write_through(written)

        assert following.names == ["0", "1"]
        assert following.changes == [("added", "0"), ("added", "1")]


async def test_the_answer_to_an_own_write_that_comes_after_the_deletion_raises_no_ghost(
    server: ScriptedServer, client: Client
) -> None:
    events = stream([event("ADDED", pod(1, 6)), event("DELETED", pod(1, 8))], then=silence())
    async with followed(client, server, listed(version=5), events) as following:
        following.pods.write_through(orjson.dumps(pod(1, 6)))
        following.pods.write_through(orjson.dumps(pod(1, 8)))

        assert following.names == []


async def test_what_was_written_while_it_listed_is_not_taken_for_deleted(
    server: ScriptedServer, client: Client
) -> None:
    written = asyncio.Event()
    pages = (listed(pod(0, 1), version=5, more="next"), when(written, listed(version=5)))
    async with followed(client, server, *pages) as following:
        following.pods.write_through(orjson.dumps(pod(1, 6)))
        server.will(silence())
        written.set()
        await following.until_answers_are_used_up()

        assert following.names == ["0", "1"]
        assert following.changes == [("added", "0"), ("added", "1")]


async def test_what_is_forgotten_is_told_once(server: ScriptedServer, client: Client) -> None:
    async with followed(client, server, listed(pod(0, 1), version=5), silence()) as following:
        for _ in range(2):
            following.pods.forget("uid-of-digits-worker-0")
        following.pods.forget("unknown")

        assert following.changes == [("added", "0"), ("removed", "0")]
        assert following.pods.group(JOB_UID) == ()


async def test_objects_are_kept_by_their_group(server: ScriptedServer, client: Client) -> None:
    other = pod(1, 2)
    other["metadata"]["ownerReferences"][0]["uid"] = "other-job"
    async with followed(client, server, listed(pod(0, 1), other, version=5), silence()) as following:
        assert len(following.pods.group("other-job")) == 1
        assert following.names == ["0"]
        assert following.pods.group("unknown") == ()


async def test_an_object_that_changes_its_group_is_in_one_group_only(server: ScriptedServer, client: Client) -> None:
    moved = pod(0, 7)
    moved["metadata"]["ownerReferences"][0]["uid"] = "other-job"
    events = stream([event("MODIFIED", moved)], then=silence())
    async with followed(client, server, listed(pod(0, 1), version=5), events) as following:
        assert following.names == []
        assert len(following.pods.group("other-job")) == 1


async def test_it_tells_when_it_last_heard_of_the_server(server: ScriptedServer, client: Client) -> None:
    begin = asyncio.get_running_loop().time()
    quiet_then_bookmark = stream([bookmark(6)], then=silence())
    async with followed(client, server, listed(version=5), quiet_then_bookmark) as following:
        heard = following.pods.heard_at
        assert begin < heard
        await asyncio.sleep(30)
        assert following.pods.heard_at == heard


@pytest.mark.parametrize("may_be_forbidden", [True, False])
async def test_a_refusal_is_an_answer_only_where_it_may_come(
    server: ScriptedServer, client: Client, may_be_forbidden: bool
) -> None:
    def ignore(before: object, after: object) -> None:
        """Only the state matters here."""

    server.will(refusal(403, "Forbidden", "no"), refusal(403, "Forbidden", "no"), silence())
    pods = Reflector(client, "/pods", None, Pod, lambda pod: pod.name, ignore, may_be_forbidden=may_be_forbidden)
    began = pods.heard_at
    task = asyncio.create_task(pods.run())
    async with asyncio.timeout(600):
        await server.used_up.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert pods.synced.is_set() is may_be_forbidden
    assert (pods.heard_at > began) is may_be_forbidden


async def test_after_a_refusal_it_asks_again(server: ScriptedServer, client: Client) -> None:
    async with followed(
        client, server, refusal(403, "Forbidden", "no"), listed(pod(0, 1), version=5), silence()
    ) as now:
        assert now.names == ["0"]
