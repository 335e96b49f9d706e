"""Writes of children: idempotent, in order, never at the cost of an object that is not ours."""

import asyncio
from typing import Any, get_args

import orjson
import pytest
from aiohttp import web

from dtj.api import names
from dtj.kube import paths
from dtj.kube.children import BATCHES, IN_FLIGHT, Children
from dtj.kube.client import Client
from dtj.kube.connection import Connection
from dtj.kube.errors import ApiError, NameTakenError
from dtj.lifecycle.decision import (
    CreateConfigMap,
    CreateNetworkPolicy,
    CreatePod,
    CreateService,
    DeleteJob,
    DeletePod,
    DeleteService,
    Write,
)
from dtj.plan.agent_archive import agent_config_map
from dtj.plan.network_policy import network_policy
from dtj.plan.pods import pod_builder
from dtj.plan.services import headless_service
from dtj.plan.topology import topology_of
from tests.builders import JOB_UID, NAMESPACE, a_job, a_pod
from tests.unit.kube.scripted_server import Answer, ScriptedServer, cut, json, refusal, silence, stream, when

JOB = a_job().replicas(100).build()
SERVICE = headless_service(JOB)
BUILD = pod_builder(JOB, topology_of(JOB.spec), 0)
PODS = [BUILD(slot) for slot in topology_of(JOB.spec).slots]
EXISTS = refusal(409, "AlreadyExists", 'pods "digits-worker-0" already exists')
PODS_PATH = f"/api/v1/namespaces/{NAMESPACE}/pods"
SERVICES_PATH = f"/api/v1/namespaces/{NAMESPACE}/services"


def stored(manifest: dict[str, Any], uid: str = "u1", version: str = "10", owner: str = JOB_UID) -> dict[str, Any]:
    """The object as the API server keeps it."""
    references = [{"uid": owner, "kind": names.KIND, "name": "digits", "controller": True}] if owner else []
    metadata = {**manifest["metadata"], "uid": uid, "resourceVersion": version, "ownerReferences": references}
    return {**manifest, "metadata": metadata}


@pytest.fixture
async def children(client: Client) -> Children:
    def ignore(before: object, after: object) -> None:
        """What is told of changes is the reflector's matter."""

    return Children(client, ignore, ignore)


async def apply(children: Children, *writes: Write) -> None:
    await children.apply(NAMESPACE, JOB_UID, writes)


def names_of(children: Children) -> list[str]:
    return [pod.name for pod in children.pods_of(NAMESPACE, JOB_UID)]


async def test_what_was_created_is_known_at_once(server: ScriptedServer, children: Children) -> None:
    server.will(json(stored(SERVICE)), json(stored(PODS[0])))

    await apply(children, CreatePod(PODS[0]), CreateService(SERVICE))

    assert names_of(children) == ["digits-worker-0"]
    assert [service.metadata.name for service in children.services_of(NAMESPACE, JOB_UID)] == ["digits-workers"]
    assert [(seen.method, seen.path, seen.body) for seen in server.seen] == [
        ("POST", SERVICES_PATH, SERVICE),
        ("POST", PODS_PATH, PODS[0]),
    ]


AGENT = CreateConfigMap(agent_config_map(NAMESPACE))
NO_RIGHT = refusal(403, "Forbidden", 'User "dtj" cannot create resource "configmaps"')
AGENT_THERE = refusal(409, "AlreadyExists", 'configmaps "dtj-agent" already exists')


@pytest.mark.parametrize("answer", [json({}), AGENT_THERE], ids=["it is new there", "it is there"])
async def test_the_agent_is_brought_to_a_namespace_once_and_nothing_is_read(
    server: ScriptedServer, children: Children, answer: Answer
) -> None:
    server.will(answer, json(stored(PODS[0])), json(stored(PODS[1])))

    await apply(children, CreatePod(PODS[0]), AGENT)
    await apply(children, AGENT, CreatePod(PODS[1]))

    assert [(seen.method, seen.path) for seen in server.seen] == [
        ("POST", f"/api/v1/namespaces/{NAMESPACE}/configmaps"),
        ("POST", PODS_PATH),
        ("POST", PODS_PATH),
    ]


async def test_of_many_jobs_that_begin_at_once_one_brings_the_agent(server: ScriptedServer, children: Children) -> None:
    server.will(json({}))

    await asyncio.gather(*(children.apply(NAMESPACE, f"job-{number}", (AGENT,)) for number in range(9)))

    assert [seen.method for seen in server.seen] == ["POST"]


async def test_who_waited_for_an_agent_that_was_refused_is_refused_too(
    server: ScriptedServer, children: Children
) -> None:
    server.will(NO_RIGHT)

    met = await asyncio.gather(
        *(children.apply(NAMESPACE, f"job-{number}", (AGENT,)) for number in range(3)), return_exceptions=True
    )

    assert [type(each) for each in met] == [ApiError] * 3
    assert len(server.seen) == 1


async def test_a_fault_of_who_brings_the_agent_is_met_by_those_who_wait_and_ends_none_of_them(
    server: ScriptedServer,
) -> None:
    async def credentials() -> str | None:
        await asyncio.sleep(1)
        raise OSError("no token there")

    def ignore(before: object, after: object) -> None:
        """Nobody waits for news here."""

    async with Client(Connection(server.url, None, credentials)) as client:
        children = Children(client, ignore, ignore)
        met = await asyncio.gather(
            *(children.apply(NAMESPACE, f"job-{number}", (AGENT,)) for number in range(3)), return_exceptions=True
        )

    faults = [error for each in met if isinstance(each, ExceptionGroup) for error in each.exceptions]
    assert [type(error) for error in faults] == [OSError] * 3


QUOTA = refusal(403, "Forbidden", 'configmaps "dtj-agent" is forbidden: exceeded quota: few')


async def test_an_agent_that_cannot_be_brought_lets_no_pod_start(server: ScriptedServer, children: Children) -> None:
    server.will(NO_RIGHT, json({}))

    with pytest.raises(ApiError, match="cannot create"):
        await apply(children, AGENT, CreatePod(PODS[0]))
    await apply(children, AGENT)

    assert [seen.path.rsplit("/", 1)[-1] for seen in server.seen] == ["configmaps", "configmaps"], "tried again"


async def test_a_quota_says_nothing_about_an_agent_that_may_be_there(
    server: ScriptedServer, children: Children
) -> None:
    server.will(QUOTA, json(stored(PODS[0])), QUOTA)

    await apply(children, AGENT, CreatePod(PODS[0]))
    with pytest.raises(ApiError, match="exceeded quota"):
        await apply(children, CreateConfigMap(AGENT.manifest, may_be_gone=True))

    assert [seen.path.rsplit("/", 1)[-1] for seen in server.seen] == ["configmaps", "pods", "configmaps"]


async def test_the_agent_may_have_been_deleted_since(server: ScriptedServer, children: Children) -> None:
    doubted = CreateConfigMap(AGENT.manifest, may_be_gone=True)
    server.will(json({}), json({}), json({}))

    for wait, write, sent in ((0, AGENT, 1), (0, doubted, 1), (31, AGENT, 1), (0, doubted, 2), (301, AGENT, 3)):
        await asyncio.sleep(wait)
        await apply(children, write)
        assert len(server.seen) == sent


async def test_what_an_earlier_try_created_is_ours(server: ScriptedServer, children: Children) -> None:
    server.will(EXISTS, json(stored(PODS[0])))

    await apply(children, CreatePod(PODS[0]))

    assert names_of(children) == ["digits-worker-0"]
    assert (server.seen[1].method, server.seen[1].path) == ("GET", f"{PODS_PATH}/digits-worker-0")


async def test_a_creation_whose_answer_was_lost_is_ours(server: ScriptedServer, children: Children) -> None:
    server.will(cut(), EXISTS, json(stored(PODS[0])))

    await apply(children, CreatePod(PODS[0]))

    assert names_of(children) == ["digits-worker-0"]


def owned_by(*references: dict[str, Any]) -> dict[str, Any]:
    return {**PODS[0], "metadata": {**PODS[0]["metadata"], "ownerReferences": list(references)}}


OTHER = {"kind": "ReplicaSet", "name": "web", "uid": "another", "controller": True}
EARLIER = {"kind": names.KIND, "name": "digits", "uid": "another", "controller": True}
NOT_OURS = "Pod digits-worker-0 exists and does not belong to this job"
FOREIGN: dict[str, tuple[dict[str, Any], str]] = {
    "of another controller": (owned_by(OTHER), NOT_OURS),
    "of nobody": (owned_by(), NOT_OURS),
    "owned by us, but managed by another": (
        owned_by({**EARLIER, "uid": JOB_UID, "controller": False}, OTHER),
        NOT_OURS,
    ),
    "ours, but its label was taken away": (
        {**stored(PODS[0]), "metadata": {**stored(PODS[0])["metadata"], "labels": {}}},
        "Pod digits-worker-0 ",
    ),
    "of an earlier job of this name": (owned_by(EARLIER), "Pod digits-worker-0 of an earlier job of this name"),
    "of a job of another name": (owned_by({**EARLIER, "name": "digits-worker"}), NOT_OURS),
}


@pytest.mark.parametrize(("found", "message"), FOREIGN.values(), ids=FOREIGN.keys())
async def test_a_pod_that_is_not_ours_is_never_adopted(
    server: ScriptedServer, children: Children, found: dict[str, Any], message: str
) -> None:
    server.will(EXISTS, json(found))

    with pytest.raises(NameTakenError, match=message):
        await apply(children, CreatePod(PODS[0]))

    assert names_of(children) == []
    assert {seen.method for seen in server.seen} == {"POST", "GET"}


async def test_a_pod_that_went_away_while_we_looked_is_created_after_all(
    server: ScriptedServer, children: Children
) -> None:
    server.will(EXISTS, refusal(404, "NotFound"), json(stored(PODS[0])))

    await apply(children, CreatePod(PODS[0]))

    assert names_of(children) == ["digits-worker-0"]


async def test_a_pod_that_cannot_be_looked_at_is_an_error(server: ScriptedServer, children: Children) -> None:
    server.will(EXISTS, refusal(403, "Forbidden"))

    with pytest.raises(ApiError, match="403"):
        await apply(children, CreatePod(PODS[0]))


async def test_a_service_that_is_not_ours_is_never_adopted_and_no_pod_is_created(
    server: ScriptedServer, children: Children
) -> None:
    server.will(EXISTS, json(stored(SERVICE, owner="")))

    with pytest.raises(NameTakenError, match="Service digits-workers"):
        await apply(children, CreateService(SERVICE), CreatePod(PODS[0]))

    assert [seen.path for seen in server.seen] == [SERVICES_PATH, f"{SERVICES_PATH}/digits-workers"]


POLICY = network_policy(JOB, "dtj-system")
POLICIES_PATH = f"/apis/networking.k8s.io/v1/namespaces/{NAMESPACE}/networkpolicies"
ISOLATE = CreateNetworkPolicy(POLICY)


async def test_an_isolation_that_is_not_there_is_made_before_the_pods(
    server: ScriptedServer, children: Children
) -> None:
    server.will(refusal(404, "NotFound"), json(stored(POLICY)), json(stored(PODS[0])))

    await apply(children, CreatePod(PODS[0]), ISOLATE)

    assert [(seen.method, seen.path) for seen in server.seen] == [
        ("GET", f"{POLICIES_PATH}/digits-workers"),
        ("POST", POLICIES_PATH),
        ("POST", PODS_PATH),
    ]
    assert server.seen[1].body == POLICY


async def test_an_isolation_that_is_there_costs_no_write(server: ScriptedServer, children: Children) -> None:
    server.will(*[json(stored(POLICY))] * 2)

    await apply(children, ISOLATE)
    await apply(children, ISOLATE)

    assert [seen.method for seen in server.seen] == ["GET", "GET"], "it may have been deleted between the two"


UNPROTECTED: dict[str, tuple[tuple[Answer, ...], type[Exception], str]] = {
    "of another's making": ((json(stored(POLICY, owner="")),), NameTakenError, "NetworkPolicy digits-workers exists"),
    "of an earlier job": ((json(stored(POLICY, owner="another")),), NameTakenError, "of an earlier job of this name"),
    "not readable": ((refusal(403, "Forbidden"),), ApiError, "403"),
    "not to be made": ((refusal(404, "NotFound"), QUOTA), ApiError, "exceeded quota"),
    "made by somebody meanwhile": ((refusal(404, "NotFound"), EXISTS), ApiError, "409"),
}


@pytest.mark.parametrize(("answers", "error", "message"), UNPROTECTED.values(), ids=UNPROTECTED.keys())
async def test_without_the_isolation_no_pod_is_created(
    server: ScriptedServer, children: Children, answers: tuple[Answer, ...], error: type[Exception], message: str
) -> None:
    server.will(*answers)

    with pytest.raises(error, match=message):
        await apply(children, ISOLATE, CreatePod(PODS[0]))

    assert PODS_PATH not in {seen.path for seen in server.seen}


async def test_another_conflict_is_an_error(server: ScriptedServer, children: Children) -> None:
    server.will(refusal(409, "Conflict"))

    with pytest.raises(ApiError, match="409 Conflict"):
        await apply(children, CreatePod(PODS[0]))


async def test_one_refusal_does_not_keep_the_others_back(server: ScriptedServer, children: Children) -> None:
    server.will(refusal(403, "Forbidden", "exceeded quota"), json(stored(PODS[1])))

    with pytest.raises(ApiError, match="exceeded quota"):
        await apply(children, CreatePod(PODS[0]), CreatePod(PODS[1]))

    assert names_of(children) == ["digits-worker-1"]


async def test_after_a_refusal_only_what_was_under_way_is_finished(server: ScriptedServer, children: Children) -> None:
    server.will(*[refusal(403, "Forbidden", "exceeded quota")] * len(PODS))

    with pytest.raises(ApiError, match="exceeded quota"):
        await apply(children, *(CreatePod(pod) for pod in PODS))

    assert len(server.seen) <= IN_FLIGHT < len(PODS)


async def test_so_many_writes_are_under_way_at_the_same_time(server: ScriptedServer, children: Children) -> None:
    under_way, most = 0, 0

    async def created(request: web.Request) -> web.StreamResponse:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(1)
        under_way -= 1
        manifest = orjson.loads(await request.read())
        return await json(stored(manifest, uid=manifest["metadata"]["name"]))(request)

    server.will(*[created] * len(PODS))

    await apply(children, *(CreatePod(pod) for pod in PODS))

    assert most == IN_FLIGHT
    assert len(names_of(children)) == len(PODS)


OURS = a_pod(JOB).version(9).raw()
UID = str(OURS["metadata"]["uid"])
DELETE = DeletePod("digits-worker-0", UID, 10)


@pytest.fixture
async def with_pod(children: Children) -> Children:
    children.pods.of(NAMESPACE).write_through(orjson.dumps(OURS))
    return children


async def test_exactly_this_pod_is_deleted(server: ScriptedServer, with_pod: Children) -> None:
    server.will(json({"kind": "Status", "status": "Success"}))

    await apply(with_pod, DELETE)

    (seen,) = server.seen
    assert (seen.method, seen.path) == ("DELETE", f"{PODS_PATH}/digits-worker-0")
    assert seen.body == {
        "preconditions": {"uid": UID},
        "propagationPolicy": "Background",
        "gracePeriodSeconds": 10,
    }


GONE: dict[str, Answer] = {
    "at once": json({"kind": "Status", "status": "Success"}),
    "before": refusal(404, "NotFound"),
    "and another has its name": refusal(409, "Conflict", "the UID in the precondition does not match"),
}


@pytest.mark.parametrize("answer", GONE.values(), ids=GONE.keys())
async def test_it_is_gone(server: ScriptedServer, with_pod: Children, answer: Answer) -> None:
    server.will(answer)

    await apply(with_pod, DELETE)

    assert names_of(with_pod) == []


async def test_a_pod_that_takes_its_time_is_known_to_be_on_its_way_out(
    server: ScriptedServer, with_pod: Children
) -> None:
    server.will(json(a_pod(JOB).version(11).being_deleted().raw()))

    await apply(with_pod, DELETE)

    (pod,) = with_pod.pods_of(NAMESPACE, JOB_UID)
    assert pod.terminating


async def test_a_deletion_that_is_refused_is_an_error(server: ScriptedServer, with_pod: Children) -> None:
    server.will(refusal(403, "Forbidden"))

    with pytest.raises(ApiError, match="403"):
        await apply(with_pod, DELETE)

    assert names_of(with_pod) == ["digits-worker-0"]


async def test_a_service_is_deleted_without_a_grace_period(server: ScriptedServer, children: Children) -> None:
    children.services.of(NAMESPACE).write_through(orjson.dumps(stored(SERVICE, uid="s1")))
    server.will(json({"kind": "Status", "status": "Success"}))

    await apply(children, DeleteService("digits-workers", "s1"))

    assert server.seen[0].body == {"preconditions": {"uid": "s1"}, "propagationPolicy": "Background"}
    assert children.services_of(NAMESPACE, JOB_UID) == ()


IN_ORDER: tuple[tuple[Write, str], ...] = (
    (CreateService(SERVICE), f"POST {SERVICES_PATH}"),
    (DeletePod("digits-worker-7", "u7"), f"DELETE {PODS_PATH}/digits-worker-7"),
    (DeleteService("earlier", "s0"), f"DELETE {SERVICES_PATH}/earlier"),
    (CreatePod(PODS[0]), f"POST {PODS_PATH}"),
    (DeleteJob("digits", JOB_UID, "5"), f"DELETE {paths.job(NAMESPACE, 'digits')}"),
)
ANYTHING = json(stored(PODS[0]))
MIXED = tuple(write for write, _ in reversed(IN_ORDER))


async def test_every_kind_of_write_is_in_one_batch() -> None:
    assert sorted(str(kind) for batch in BATCHES for kind in batch) == sorted(str(kind) for kind in get_args(Write))


async def test_batches_come_one_after_the_other(server: ScriptedServer, children: Children) -> None:
    server.will(*[ANYTHING] * len(MIXED))

    await apply(children, *MIXED)

    requests = [f"{seen.method} {seen.path}" for seen in server.seen]
    service, pod_deletion, service_deletion, pod, job = (request for _, request in IN_ORDER)
    assert requests[:1] == [service]
    assert sorted(requests[1:3]) == sorted([pod_deletion, service_deletion])
    assert requests[3:] == [pod, job]


async def test_no_pod_is_created_before_the_last_deletion_is_answered(
    server: ScriptedServer, children: Children
) -> None:
    answered = asyncio.Event()
    server.will(when(answered, GONE["at once"]), json(stored(PODS[1])))
    applying = asyncio.create_task(apply(children, CreatePod(PODS[1]), DELETE))
    await asyncio.sleep(5)
    assert [seen.method for seen in server.seen] == ["DELETE"]

    answered.set()
    await applying

    assert [seen.method for seen in server.seen] == ["DELETE", "POST"]


REFUSED_AT = {"the Service": 0, "a deletion": 1, "a pod": 3, "the job": 4}


@pytest.mark.parametrize("done", REFUSED_AT.values(), ids=REFUSED_AT.keys())
async def test_after_a_refusal_no_later_batch_is_tried(server: ScriptedServer, children: Children, done: int) -> None:
    server.will(*[ANYTHING] * done, refusal(403, "Forbidden"), ANYTHING)
    under_way = 1 if done == 1 else 0  # the two deletions are of one batch

    with pytest.raises(ApiError, match="403"):
        await apply(children, *MIXED)

    assert len(server.seen) == done + 1 + under_way


async def test_a_job_that_changed_is_looked_at_again(server: ScriptedServer, children: Children) -> None:
    server.will(refusal(409, "Conflict"))

    with pytest.raises(ApiError, match="409"):
        await apply(children, DeleteJob("digits", JOB_UID, "5"))


def page(*items: dict[str, Any], version: int, more: str = "") -> Answer:
    return json({"metadata": {"resourceVersion": str(version), "continue": more}, "items": list(items)})


def pod(index: int, version: int, **fields: object) -> dict[str, Any]:
    raw = a_pod(JOB, index).version(version).raw()
    return {**raw, "metadata": {**raw["metadata"], **fields}}


NO_SERVICE = page(version=20)


async def test_a_refresh_reads_all_of_the_job_and_of_nobody_else(server: ScriptedServer, children: Children) -> None:
    service = stored(SERVICE, uid="s1", version="3")
    server.will(page(pod(0, 9), version=20, more="next"), page(pod(1, 9), version=20), page(service, version=21))

    await children.refresh(NAMESPACE, JOB_UID)

    assert names_of(children) == ["digits-worker-0", "digits-worker-1"]
    assert [service.metadata.uid for service in children.services_of(NAMESPACE, JOB_UID)] == ["s1"]
    of_the_job = {"labelSelector": f"dtj.dev/job-uid={JOB_UID}", "limit": "500"}
    assert [(seen.method, seen.path, seen.query) for seen in server.seen] == [
        ("GET", PODS_PATH, of_the_job),
        ("GET", PODS_PATH, {**of_the_job, "continue": "next"}),
        ("GET", SERVICES_PATH, of_the_job),
    ]


OTHER_UID = "another-job"
OF_ANOTHER_JOB = pod(0, 9, uid="other", ownerReferences=[{"uid": OTHER_UID, "controller": True}])
UNLABELLED = pod(0, 9, labels={})
REFRESHED: dict[str, tuple[dict[str, Any], Answer, list[str]]] = {
    "an older view changes nothing": (pod(0, 9), page(pod(0, 8), version=20), ["9"]),
    "a newer view is taken in": (pod(0, 9), page(pod(0, 10), version=20), ["10"]),
    "what is gone is dropped": (pod(0, 9), page(version=20), []),
    "what was changed in the list's very version is dropped": (pod(0, 20), page(version=20), []),
    "what was made after the list is kept": (pod(0, 21), page(version=20), ["21"]),
    "what lost the label that is asked for is kept": (UNLABELLED, page(version=20), ["9"]),
}


@pytest.mark.parametrize(("known", "answer", "versions"), REFRESHED.values(), ids=REFRESHED.keys())
async def test_a_refresh(
    server: ScriptedServer, children: Children, known: dict[str, Any], answer: Answer, versions: list[str]
) -> None:
    children.pods.of(NAMESPACE).write_through(orjson.dumps(known))
    server.will(answer, NO_SERVICE)

    await children.refresh(NAMESPACE, JOB_UID)

    assert [pod.metadata.resource_version for pod in children.pods_of(NAMESPACE, JOB_UID)] == versions


async def test_a_service_that_is_gone_is_dropped(server: ScriptedServer, children: Children) -> None:
    children.services.of(NAMESPACE).write_through(orjson.dumps(stored(SERVICE)))
    server.will(page(version=20), NO_SERVICE)

    await children.refresh(NAMESPACE, JOB_UID)

    assert children.services_of(NAMESPACE, JOB_UID) == ()


async def test_a_refresh_leaves_other_jobs_alone(server: ScriptedServer, children: Children) -> None:
    children.pods.of(NAMESPACE).write_through(orjson.dumps(OF_ANOTHER_JOB))
    server.will(page(version=20), NO_SERVICE)

    await children.refresh(NAMESPACE, JOB_UID)

    assert len(children.pods_of(NAMESPACE, OTHER_UID)) == 1


async def test_a_refresh_that_is_refused_is_an_error_and_drops_nothing(
    server: ScriptedServer, with_pod: Children
) -> None:
    server.will(page(pod(1, 9), version=20, more="next"), refusal(410, "Expired"))

    with pytest.raises(ApiError, match="410"):
        await with_pod.refresh(NAMESPACE, JOB_UID)

    assert names_of(with_pod) == ["digits-worker-0", "digits-worker-1"]


async def test_a_refresh_raises_no_ghost_of_a_pod_whose_deletion_the_watch_has_told(
    server: ScriptedServer, children: Children
) -> None:
    deleted = orjson.dumps({"type": "DELETED", "object": pod(0, 25)}) + b"\n"
    server.will(page(pod(0, 9), version=10), stream([deleted], then=silence()))
    following = asyncio.create_task(children.pods.run())
    async with asyncio.timeout(600):
        await server.used_up.wait()
        await asyncio.sleep(1)
    server.will(page(pod(0, 9), version=20), NO_SERVICE)  # read before, arriving after

    await children.refresh(NAMESPACE, JOB_UID)

    assert names_of(children) == []
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)


async def test_caches_are_synced_once_both_are_listed(server: ScriptedServer, children: Children) -> None:
    server.will(json({"metadata": {"resourceVersion": "5"}}), silence())
    pods = asyncio.create_task(children.pods.run())
    await children.pods.synced()
    both = asyncio.create_task(children.synced())
    await asyncio.sleep(0)
    assert not both.done()

    server.will(json({"metadata": {"resourceVersion": "5"}}), silence())
    services = asyncio.create_task(children.services.run())
    async with asyncio.timeout(600):
        await both

    for task in (pods, services):
        task.cancel()
    await asyncio.gather(pods, services, return_exceptions=True)


async def test_what_another_namespace_says_of_a_job_means_nothing(children: Children) -> None:
    for kind, manifest in ((children.pods, PODS[0]), (children.services, SERVICE)):
        theirs = stored(manifest, uid="forged", version="99")
        theirs["metadata"]["namespace"] = "attacker"
        kind.of(NAMESPACE).write_through(orjson.dumps(stored(manifest)))
        kind.of("attacker").write_through(orjson.dumps(theirs))

    assert [pod.metadata.uid for pod in children.pods_of(NAMESPACE, JOB_UID)] == ["u1"]
    assert [service.metadata.uid for service in children.services_of(NAMESPACE, JOB_UID)] == ["u1"]
