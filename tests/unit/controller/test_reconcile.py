"""One look at one job: what is sent to the API server, in which order, and when the job is looked at again."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import orjson
import pytest
from aiohttp import web

from dtj.api.reasons import Reason
from dtj.api.status import Condition, JobStatus, Phase
from dtj.controller.event_teller import EventTeller
from dtj.controller.jobs import JobStore
from dtj.controller.reconcile import Outcome, Reconciler
from dtj.controller.training_watch import TrainingWatch
from dtj.kube.agents import Agents
from dtj.kube.children import Children
from dtj.kube.client import Client
from dtj.kube.connection import Connection
from dtj.kube.nodes import Nodes
from dtj.lifecycle.status import COSMETIC_INTERVAL
from dtj.plan.network_policy import network_policy
from tests.builders import JOB_UID, NAMESPACE, NOW, JobBuilder, PodBuilder, a_job, a_pod, a_service
from tests.unit.kube.conftest import no_credentials
from tests.unit.kube.scripted_server import Answer, ScriptedServer, json, refusal


@dataclass
class Desk:
    """A reconciler with its caches and its server."""

    server: ScriptedServer
    children: Children
    store: JobStore
    reconciler: Reconciler
    events: EventTeller

    async def look(self, job: JobBuilder | None = None) -> Outcome:
        if job is not None:
            self.store.put(job.raw())
        key = self.store.key(JOB_UID)
        assert key is not None
        outcome = await self.reconciler.reconcile(key)
        await self.events.tell_waiting()
        return outcome

    def has(self, *pods: PodBuilder) -> None:
        for pod in pods:
            self.children.pods.of(NAMESPACE).write_through(orjson.dumps(pod.raw()))

    @property
    def sent(self) -> list[str]:
        """Method and last word of the path of each request since the last time."""
        lines = [f"{seen.method} {seen.path.rsplit('/', 1)[1]}" for seen in self.server.seen]
        self.server.seen.clear()
        return lines


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    def ignore(before: object, after: object) -> None:
        """Nobody waits for news here."""

    async with ScriptedServer() as server, Client(Connection(server.url, None, no_credentials)) as client:
        children, store = Children(client, ignore, ignore), JobStore()
        nodes = Nodes(client, lambda _: None)
        trainings = TrainingWatch(Agents(), lambda _: None)
        events = EventTeller(client)
        reconciler = Reconciler(client, store, children, nodes, trainings, events, OPERATOR_NAMESPACE)
        yield Desk(server, children, store, reconciler, events)
        await trainings.close()


def patched(job: JobBuilder, version: int = 2) -> Answer:
    """The API server takes the status in."""

    async def answer(request: web.Request) -> web.StreamResponse:
        patch = orjson.loads(await request.read())
        raw = job.raw()
        status = {**raw.get("status", {}), **patch["status"]}
        raw["status"] = {name: value for name, value in status.items() if value is not None}
        raw["metadata"]["resourceVersion"] = str(version)
        return await json(raw)(request)

    return answer


async def created(request: web.Request) -> web.StreamResponse:
    manifest = orjson.loads(await request.read())
    manifest["metadata"] |= {"uid": f"uid-of-{manifest['metadata']['name']}", "resourceVersion": "5"}
    return await json(manifest)(request)


OPERATOR_NAMESPACE = "dtj-system"
JOB = a_job()
BEGUN = JOB.begun()
POD = a_pod(BEGUN.build())


def status_in(desk: Desk) -> JobStatus:
    raw = desk.store.get(JOB_UID)
    assert raw is not None
    return JobStatus.model_validate(raw["status"])


def service_of(job: JobBuilder) -> dict[str, Any]:
    metadata = a_service(job.build()).metadata
    owner = {"uid": JOB_UID, "controller": True}
    place = {"name": metadata.name, "namespace": NAMESPACE}
    return {**place, "uid": metadata.uid, "resourceVersion": "1", "ownerReferences": [owner]}


def listed(*pods: PodBuilder) -> Answer:
    return json({"metadata": {"resourceVersion": "50"}, "items": [pod.raw() for pod in pods]})


SERVICES_LISTED = json({"metadata": {"resourceVersion": "50"}, "items": [{"metadata": service_of(BEGUN)}]})
LISTS = ["GET pods", "GET services"]
"""What pods are there is made sure of before any is created again."""


async def test_the_attempt_is_committed_before_anything_is_created(desk: Desk) -> None:
    desk.server.will(patched(JOB), created, created, created)

    assert await desk.look(JOB) == Outcome()
    assert desk.sent == ["PATCH status", "POST services", "POST pods", "POST events"]
    assert len(desk.children.pods_of(NAMESPACE, JOB_UID)) == 1


async def test_the_isolation_is_there_before_the_pods_and_lets_the_operator_in(desk: Desk) -> None:
    job = JOB.spec(networkIsolation="Job")
    desk.children.services.of(NAMESPACE).write_through(orjson.dumps({"metadata": service_of(job)}))
    desk.server.will(patched(job), refusal(404, "NotFound"), created, created, created)

    assert await desk.look(job) == Outcome()
    policy = next(seen.body for seen in desk.server.seen if seen.path.endswith("/networkpolicies"))
    assert desk.sent == ["PATCH status", "GET digits-workers", "POST networkpolicies", "POST pods", "POST events"]
    assert policy == network_policy(job.build(), OPERATOR_NAMESPACE)


async def test_a_lost_race_creates_nothing(desk: Desk) -> None:
    desk.server.will(refusal(409, "Conflict"))
    outcome = await desk.look(JOB)

    assert outcome.error is not None
    assert desk.sent == ["PATCH status"]


async def test_a_job_that_is_gone_is_dropped(desk: Desk) -> None:
    desk.server.will(refusal(404, "NotFound"))

    assert await desk.look(JOB) == Outcome()
    assert desk.store.get(JOB_UID) is None
    assert desk.sent == ["PATCH status"]


async def test_a_job_that_was_dropped_is_not_looked_at(desk: Desk) -> None:
    key = desk.store.put(JOB.raw())
    desk.store.drop(JOB_UID)

    assert await desk.reconciler.reconcile(key) == Outcome()
    assert desk.sent == []


async def test_a_refused_template_is_told_at_once_and_not_tried_again(desk: Desk) -> None:
    job = BEGUN
    desk.children.services.of(NAMESPACE).write_through(orjson.dumps({"metadata": service_of(job)}))
    invalid = refusal(422, "Invalid", "spec.containers[0].image: Required value")
    desk.server.will(listed(), SERVICES_LISTED, patched(job), invalid, patched(job, 3), created)
    outcome = await desk.look(job)

    assert outcome.error is not None
    assert desk.sent == [*LISTS, "PATCH status", "POST pods", "PATCH status", "POST events"]
    status = status_in(desk)
    assert (status.phase, status.reason) == (Phase.PENDING, Reason.INVALID_TEMPLATE)

    assert (await desk.look()).error is None
    assert desk.sent == []


async def settled(desk: Desk, *pods: PodBuilder) -> None:
    """All of the job exists, and its status says so."""
    desk.children.services.of(NAMESPACE).write_through(orjson.dumps({"metadata": service_of(BEGUN)}))
    desk.has(*pods)
    desk.server.will(patched(BEGUN), created)
    await desk.look(BEGUN)
    desk.server.answers.clear()
    desk.server.seen.clear()


async def test_a_quiet_job_costs_nothing(desk: Desk) -> None:
    await settled(desk, POD.running())

    assert await desk.look() == Outcome()
    assert desk.sent == []


async def test_a_change_that_is_no_transition_waits(desk: Desk) -> None:
    await settled(desk, POD.waiting("ContainerCreating"))
    desk.has(POD.version(2).scheduling_gated())
    outcome = await desk.look()

    assert desk.sent == []
    assert outcome.again_after is not None
    assert outcome.again_after <= COSMETIC_INTERVAL


async def test_a_transition_does_not_wait(desk: Desk) -> None:
    await settled(desk, POD.waiting("ContainerCreating"))
    desk.has(POD.version(2).running())
    desk.server.will(patched(BEGUN, 3), created)

    assert await desk.look() == Outcome()
    assert desk.sent == ["PATCH status", "POST events"]


COUNTED_ANEW = {"from starting to running": (POD.running(), False), "only the reason": (POD.waiting("X"), True)}


@pytest.mark.parametrize(("pod", "echo"), COUNTED_ANEW.values(), ids=COUNTED_ANEW.keys())
async def test_only_a_write_that_was_no_transition_needs_no_second_look(
    desk: Desk, pod: PodBuilder, echo: bool
) -> None:
    desk.children.services.of(NAMESPACE).write_through(orjson.dumps({"metadata": service_of(BEGUN)}))
    desk.has(pod)
    desk.server.will(patched(BEGUN, 7), created)

    await desk.look(BEGUN)

    assert desk.reconciler.is_echo(JOB_UID, "7") is echo
    assert not desk.reconciler.is_echo(JOB_UID, "8")


async def test_an_event_that_cannot_be_written_holds_nothing_up(desk: Desk) -> None:
    await settled(desk, POD.waiting("ContainerCreating"))
    desk.has(POD.version(2).running())
    desk.server.will(patched(BEGUN, 3), refusal(403, "Forbidden"))

    assert await desk.look() == Outcome()
    assert status_in(desk).phase is Phase.RUNNING


async def test_a_pod_that_only_the_cache_misses_is_not_missed(desk: Desk) -> None:
    await settled(desk, POD.running())
    desk.children.pods.of(NAMESPACE).forget(str(POD.metadata["uid"]))
    desk.server.will(listed(POD.version(40).running()), SERVICES_LISTED)

    assert await desk.look() == Outcome()
    assert desk.sent == LISTS


async def test_a_pod_that_is_gone_is_missed_once_that_is_sure(desk: Desk) -> None:
    await settled(desk, POD.running())
    desk.children.pods.of(NAMESPACE).forget(str(POD.metadata["uid"]))
    desk.server.will(listed(), SERVICES_LISTED, patched(BEGUN, 3), created, created)

    assert await desk.look() == Outcome()
    assert desk.sent == [*LISTS, "PATCH status", "POST pods", "POST events"]
    assert status_in(desk).disruptions == 1


async def test_absence_is_made_sure_of_also_by_the_process_that_began_the_attempt(desk: Desk) -> None:
    desk.server.will(patched(JOB), created, created, created)
    await desk.look(JOB)
    begun = JOB.status(status_in(desk))
    desk.has(POD.version(6).running())
    desk.server.will(patched(begun, 3), created)
    await desk.look()
    assert status_in(desk).phase is Phase.RUNNING
    desk.children.pods.of(NAMESPACE).forget(desk.children.pods.all()[0].metadata.uid)
    desk.server.seen.clear()
    desk.server.will(listed(POD.version(60).running()), SERVICES_LISTED)

    assert await desk.look() == Outcome()
    assert desk.sent == LISTS


async def test_a_trouble_that_comes_again_is_counted_in_its_event(desk: Desk) -> None:
    await settled(desk, POD.unschedulable())
    told = BEGUN.status(status_in(desk))
    desk.has(POD.version(2).running())
    desk.server.will(patched(told, 3), created)
    await desk.look()
    running = status_in(desk).model_copy(update={"conditions": (), "reason": Reason.PODS_STARTING})
    again = BEGUN.status(running).raw()
    again["metadata"]["resourceVersion"] = "9"
    desk.store.put(again)
    desk.has(POD.version(4).unschedulable())
    desk.server.seen.clear()
    desk.server.will(patched(BEGUN.status(running), 10), json({}))

    await desk.look()

    event = desk.server.seen[-1]
    assert (event.method, event.body["count"]) == ("PATCH", 2)


async def test_nothing_is_decided_on_absence_while_nobody_answers(desk: Desk) -> None:
    await settled(desk, POD.running())
    desk.children.pods.of(NAMESPACE).forget(str(POD.metadata["uid"]))
    desk.server.will(refusal(403, "Forbidden"))

    assert (await desk.look()).error is not None
    assert desk.sent == ["GET pods"]


TWO = JOB.replicas(2).begun()
FIRST, SECOND = (a_pod(TWO.build(), index) for index in range(2))


async def test_a_success_is_remembered_when_its_pod_is_removed_before_it_was_told(desk: Desk) -> None:
    desk.children.services.of(NAMESPACE).write_through(orjson.dumps({"metadata": service_of(TWO)}))
    desk.has(FIRST.running(), SECOND.running())
    desk.server.will(patched(TWO), created)
    await desk.look(TWO)
    desk.has(FIRST.version(2).succeeded())
    assert (await desk.look()).again_after is not None, "a count is told later"
    desk.reconciler.remember(FIRST.succeeded().build())
    desk.children.pods.of(NAMESPACE).forget(str(FIRST.metadata["uid"]))
    desk.has(SECOND.version(2).succeeded())
    desk.server.seen.clear()
    desk.server.will(patched(TWO, 3), created)

    await desk.look()

    assert status_in(desk).phase is Phase.SUCCEEDED
    assert status_in(desk).roles[0].succeeded == 2


async def test_half_a_gang_that_the_quota_refuses_again_is_given_back(desk: Desk) -> None:
    desk.children.services.of(NAMESPACE).write_through(orjson.dumps({"metadata": service_of(TWO)}))
    desk.has(FIRST.running())
    quota = refusal(403, "Forbidden", "exceeded quota: gpus")
    desk.server.will(listed(FIRST.running()), SERVICES_LISTED, patched(TWO), quota, patched(TWO, 3), created)
    assert (await desk.look(TWO)).error is not None
    assert status_in(desk).reason == Reason.QUOTA_EXCEEDED
    desk.server.seen.clear()

    told = TWO.status(status_in(desk))
    live = told.raw()
    live["metadata"]["resourceVersion"] = "3"
    answers = (listed(FIRST.running()), SERVICES_LISTED, json(live), quota)
    desk.server.will(*answers, patched(told, 4), json({"kind": "Status"}), json({}))
    assert (await desk.look()).error is not None

    event = desk.server.seen[-1]
    assert desk.sent[:-1] == [*LISTS, "GET digits", "POST pods", "PATCH status", "DELETE digits-worker-0"]
    assert event.method == "PATCH"
    assert event.body["message"].startswith("exceeded quota: gpus; restarting as attempt 1 in ")
    status = status_in(desk)
    assert (status.attempt, status.reason, status.restarts) == (1, Reason.QUOTA_EXCEEDED, 0)
    assert (await desk.look()).error is None
    assert desk.sent == [], "the backoff"


async def test_where_writes_were_refused_one_is_tried_before_all(desk: Desk) -> None:
    many = JOB.replicas(9).begun()
    desk.children.services.of(NAMESPACE).write_through(orjson.dumps({"metadata": service_of(many)}))
    quota = refusal(403, "Forbidden", "exceeded quota: gpus")
    desk.server.will(listed(), SERVICES_LISTED, patched(many), *[quota] * 9, patched(many, 3), created)
    await desk.look(many)
    assert desk.sent.count("POST pods") == 9
    live = many.status(status_in(desk)).raw()
    live["metadata"]["resourceVersion"] = "3"

    desk.server.will(listed(), SERVICES_LISTED, json(live), quota, patched(many, 4))
    await desk.look()

    assert desk.sent.count("POST pods") == 1


async def test_after_a_lost_race_the_job_is_read(desk: Desk) -> None:
    """Word of the change may be lost as well."""
    desk.server.will(refusal(409, "Conflict"))
    await desk.look(JOB)
    desk.server.seen.clear()
    desk.server.will(
        json(JOB.spec(suspend=True).raw() | {"metadata": JOB.raw()["metadata"] | {"resourceVersion": "7"}})
    )
    desk.server.will(patched(JOB, 8), created)

    assert (await desk.look()).error is None
    assert desk.sent == ["GET digits", "PATCH status", "POST events"]
    assert status_in(desk).phase is Phase.SUSPENDED


async def test_a_pod_that_had_started_and_is_gone_is_not_made_again_alone(desk: Desk) -> None:
    """Its peers may be waiting for it in a collective."""
    desk.children.services.of(NAMESPACE).write_through(orjson.dumps({"metadata": service_of(TWO)}))
    desk.has(SECOND)
    desk.store.put(TWO.raw())
    desk.reconciler.remember(FIRST.running().build())
    desk.server.will(listed(SECOND), SERVICES_LISTED, patched(TWO), json({"kind": "Status"}), created, created, created)

    assert (await desk.look()).error is None
    assert desk.sent[2:] == ["PATCH status", "DELETE digits-worker-1", "POST pods", "POST pods", "POST events"]
    assert status_in(desk).disruptions == 1


async def test_a_pod_that_had_not_started_and_is_gone_is_made_again(desk: Desk) -> None:
    desk.children.services.of(NAMESPACE).write_through(orjson.dumps({"metadata": service_of(TWO)}))
    desk.has(SECOND)
    desk.store.put(TWO.raw())
    desk.reconciler.remember(FIRST.waiting("ContainerCreating").build())
    desk.server.will(listed(SECOND), SERVICES_LISTED, patched(TWO), created)

    assert (await desk.look()).error is None
    assert desk.sent[2:] == ["PATCH status", "POST pods"]


FOUND: dict[str, tuple[JobBuilder, list[str]]] = {
    "as it was": (BEGUN, ["POST pods"]),
    "finished": (
        BEGUN.status(
            JobStatus(
                conditions=(Condition(type="Complete", status="True", reason="Succeeded", last_transition_time=NOW),)
            )
        ),
        [],
    ),
    "resumed by another process": (BEGUN.begun(attempt=1), ["POST pods"]),
    "being deleted": (BEGUN.being_deleted(), []),
    "another job of its name": (BEGUN.uid("another"), []),
}


@pytest.mark.parametrize(("found", "sent"), FOUND.values(), ids=FOUND.keys())
async def test_what_no_status_guards_is_decided_on_the_job_as_it_is(
    desk: Desk, found: JobBuilder, sent: list[str]
) -> None:
    """A pod is missing, and the status has nothing new to tell: the view of the job may be from before its end."""
    await settled(desk, POD.waiting("ContainerCreating"))
    desk.children.pods.of(NAMESPACE).forget(str(POD.metadata["uid"]))
    raw = found.raw()
    raw["metadata"]["resourceVersion"] = "9"
    desk.server.will(listed(), SERVICES_LISTED, json(raw), created)

    assert (await desk.look()).error is None
    assert desk.sent == [*LISTS, "GET digits", *sent]


async def test_nothing_is_done_unguarded_while_nobody_answers(desk: Desk) -> None:
    await settled(desk, POD.waiting("ContainerCreating"))
    desk.children.pods.of(NAMESPACE).forget(str(POD.metadata["uid"]))
    desk.server.will(listed(), SERVICES_LISTED, refusal(403, "Forbidden"))

    assert (await desk.look()).error is not None
    assert desk.sent == [*LISTS, "GET digits"]


UNREADABLE = JOB.spec(replicas=0)


async def test_a_spec_that_this_version_cannot_read_is_told_once(desk: Desk) -> None:
    desk.server.will(patched(UNREADABLE))

    assert (await desk.look(UNREADABLE)).error is None
    assert desk.server.seen[0].body["status"]["reason"] == "InvalidSpec"
    assert "spec.replicas" in desk.server.seen[0].body["status"]["conditions"][0]["message"]
    desk.server.seen.clear()

    assert await desk.look() == Outcome()
    assert desk.sent == []


LEFT_ALONE: dict[str, tuple[JobBuilder, dict[str, Any]]] = {
    "its attempt has begun": (BEGUN.spec(replicas=0), {}),
    "its status has a phase of a later version": (BEGUN, {"phase": "Draining"}),
    "somebody else manages it": (UNREADABLE.spec(managedBy="example.com/other"), {}),
    "it is being deleted": (UNREADABLE.being_deleted(), {}),
}


@pytest.mark.parametrize(("job", "status"), LEFT_ALONE.values(), ids=LEFT_ALONE.keys())
async def test_a_job_that_this_version_cannot_read_is_left_alone(
    desk: Desk, job: JobBuilder, status: dict[str, Any]
) -> None:
    raw = job.raw()
    desk.store.put({**raw, "status": {**raw.get("status", {}), **status}})

    assert await desk.look() == Outcome()
    assert desk.sent == []


async def test_a_finished_job_whose_spec_cannot_be_read_stays_finished(desk: Desk) -> None:
    await settled(desk, POD.succeeded())
    finished = UNREADABLE.status(status_in(desk))
    raw = finished.raw()
    raw["metadata"]["resourceVersion"] = "9"
    desk.store.put(raw)

    assert await desk.look() == Outcome()
    assert desk.sent == []
