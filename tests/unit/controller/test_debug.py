"""The debug pages: all that is known of a job, nothing that is secret, and nothing changed by looking."""

import copy
import json
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Any

import aiohttp
import orjson
import pytest
from yarl import URL

from dtj.controller.debug import MAX_JOBS, MAX_LINES, DebugPages, debug_server
from dtj.controller.event_teller import EventTeller
from dtj.controller.jobs import JobStore
from dtj.controller.queue import WorkQueue
from dtj.controller.reconcile import Reconciler
from dtj.controller.training_watch import TrainingWatch
from dtj.kube.agents import Agents
from dtj.kube.children import Children
from dtj.kube.client import Client
from dtj.kube.nodes import Nodes
from dtj.plan.agent_access import agent_token
from tests.builders import JOB_UID, JobBuilder, PodBuilder, a_job, a_pod
from tests.unit.controller.test_health import free_port
from tests.unit.controller.test_reconcile import created, patched
from tests.unit.kube.conftest import connection_to
from tests.unit.kube.scripted_server import ScriptedServer, refusal

CANARY = "canary-of-a-secret"
JOB = a_job().container(env=[{"name": "TOKEN", "value": CANARY}]).begun()


@dataclass
class Desk:
    """The debug pages of a reconciler, and its server: what is not lined up there fails."""

    server: ScriptedServer
    children: Children
    store: JobStore
    queue: WorkQueue
    reconciler: Reconciler
    pages: DebugPages

    def job(self) -> dict[str, Any]:
        """As it is told, after it was sent."""
        found = self.pages.job("team-a", "digits")
        assert found is not None
        told: dict[str, Any] = orjson.loads(orjson.dumps(found))
        return told

    def knows(self, job: JobBuilder, *pods: PodBuilder) -> None:
        self.store.put(job.raw())
        for pod in pods:
            self.children.pods.of(pod.raw()["metadata"]["namespace"]).write_through(orjson.dumps(pod.raw()))


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    def ignore(before: object, after: object) -> None:
        """Nobody waits for news here."""

    async with ScriptedServer() as server, Client(connection_to(server)) as client:
        children, store, queue = Children(client, ignore, ignore), JobStore(), WorkQueue()
        trainings = TrainingWatch(Agents(), lambda _: None)
        reconciler = Reconciler(client, store, children, Nodes(client, lambda _: None), trainings, EventTeller(client))
        yield Desk(server, children, store, queue, reconciler, DebugPages(store, queue, reconciler, lambda: True))
        await trainings.close()


async def test_a_job_with_its_pods_and_the_decision(desk: Desk) -> None:
    desk.knows(JOB.replicas(3), a_pod(JOB.build(), 0).running(), a_pod(JOB.build(), 1).on(""))
    told = desk.job()
    assert (told["namespace"], told["name"], told["uid"], told["leading"]) == ("team-a", "digits", JOB_UID, True)
    assert told["status"]["phase"] == "Starting"
    assert told["status"]["attempt"] == 0
    assert told["pods"] == {
        "pending": {"count": 1, "names": ["digits-worker-1"]},
        "running": {"count": 1, "names": ["digits-worker-0 on node-1"]},
    }
    assert "create pod digits-worker-2" in told["decision"]
    assert told["memory"] == {
        "committedAttempt": None,
        "distrusted": False,
        "statusWrittenSecondsAgo": None,
        "complaint": "",
        "obstacle": None,
    }


async def test_what_only_this_process_knows(desk: Desk) -> None:
    new = a_job()
    desk.knows(new)
    desk.server.will(patched(new), refusal(403, "Forbidden", "exceeded quota: pods"), patched(new, 3), created)
    (key,) = desk.store.all_keys()
    await desk.reconciler.reconcile(key)
    desk.queue.add_after(key, 20)
    told = desk.job()
    assert told["memory"]["obstacle"] == {
        "reason": "QuotaExceeded",
        "message": "exceeded quota: pods",
        "untilSpecChanges": False,
        "lasts": False,
    }
    assert told["memory"]["committedAttempt"] == 0
    queue = told["queue"]
    assert 19 < queue.pop("dueInSeconds") <= 20
    assert queue == {"waiting": False, "inWork": False, "failures": 0}


async def test_nothing_secret_is_told(desk: Desk) -> None:
    annotated = replace(
        JOB, content={**JOB.content, "metadata": {**JOB.content["metadata"], "annotations": {"a": CANARY}}}
    )
    said = a_pod(JOB.build(), 0).failed(1, lines=f"key: {CANARY}\nended\n")
    desk.knows(annotated.replicas(2), said, a_pod(JOB.build(), 1))
    text = json.dumps(desk.job())
    assert "NonZeroExit" in text
    assert CANARY not in text
    assert agent_token(JOB_UID, 0) not in text


async def test_looking_changes_nothing(desk: Desk) -> None:
    desk.knows(JOB.begun(1))
    desk.reconciler.remember(a_pod(JOB.build(), 0).failed(1).build())
    before = copy.deepcopy(vars(desk.reconciler)["_memories"])
    assert desk.job() == desk.job()
    assert vars(desk.reconciler)["_memories"] == before
    desk.knows(JOB.uid("another").name("letters"))
    assert desk.pages.job("team-a", "letters") is not None
    assert "another" not in vars(desk.reconciler)["_memories"]
    assert desk.queue.depths == (0, 0)
    assert desk.server.seen == []


async def test_a_job_that_cannot_be_read_says_where_and_not_what(desk: Desk) -> None:
    desk.knows(JOB.spec(replicas=CANARY))
    told = desk.job()
    assert told["error"].startswith("it can't be read: spec.replicas: ")
    assert CANARY not in json.dumps(told)


async def test_of_two_jobs_under_one_name_the_newer_is_told(desk: Desk) -> None:
    newer, older = JOB.uid("newer").raw(), JOB.raw()
    newer["metadata"]["resourceVersion"], older["metadata"]["resourceVersion"] = "10", "9"
    for raw in (newer, older):
        desk.store.put(raw)
    assert desk.job()["uid"] == "newer"


async def test_lists_are_of_bounded_length(desk: Desk) -> None:
    job = JOB.replicas(MAX_LINES + 5)
    desk.knows(job, *(a_pod(job.build(), index).running() for index in range(MAX_LINES + 5)))
    running = desk.job()["pods"]["running"]
    assert (running["count"], len(running["names"])) == (MAX_LINES + 5, MAX_LINES)
    for number in range(MAX_JOBS + 5):
        desk.knows(JOB.name(f"job-{number}").uid(f"uid-{number}"))
    index = desk.pages.index()
    assert (index["jobs"], len(index["names"])) == (MAX_JOBS + 6, MAX_JOBS)


async def test_which_jobs_there_are(desk: Desk) -> None:
    desk.knows(JOB)
    desk.knows(JOB.name("letters").namespace("team-b").uid("another"))
    desk.queue.add(next(desk.store.all_keys()))
    assert desk.pages.index() == {
        "leading": True,
        "queue": {"urgent": 0, "normal": 1, "inWork": 0},
        "jobs": 2,
        "names": ["team-a/digits", "team-b/letters"],
    }


QUESTIONS = {
    "a job": ("/debug/jobs/team-a/digits", 200),
    "all jobs": ("/debug/", 200),
    "a job that is not there": ("/debug/jobs/team-a/letters", 404),
    "a name that none can have": ("/debug/jobs/team-a/DIGITS", 400),
    "a name of two lines": ("/debug/jobs/team-a/digits%0A", 400),
    "a path": ("/debug/jobs/team-a/..%2F..%2Fetc", 400),
    "a name that is too long": (f"/debug/jobs/team-a/{'x' * 254}", 400),
    "another page": ("/metrics", 404),
}


@pytest.mark.parametrize(("path", "code"), QUESTIONS.values(), ids=QUESTIONS.keys())
async def test_answers(desk: Desk, path: str, code: int) -> None:
    desk.knows(JOB)
    port = free_port()
    async with debug_server(port, desk.pages), aiohttp.ClientSession() as session:
        url = URL(f"http://127.0.0.1:{port}{path}", encoded=True)
        async with session.get(url) as response:
            assert response.status == code
        async with session.post(url) as response:
            assert response.status in {404, 405}


async def test_nobody_outside_of_the_pod_is_answered(desk: Desk) -> None:
    port = free_port()
    async with debug_server(port, desk.pages):
        with socket.create_server(("127.0.0.2", port)):
            pass  # its own address alone is taken
        with pytest.raises(OSError, match="already in use"), socket.create_server(("127.0.0.1", port)):
            pass
