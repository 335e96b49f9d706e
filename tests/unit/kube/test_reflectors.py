"""Several namespaces, each with a watch of its own, seen as one."""

import asyncio

import pytest
from aiohttp import web

from dtj.kube import paths
from dtj.kube.client import Client
from dtj.kube.reflector import Reflector
from dtj.kube.reflectors import Reflectors
from dtj.lifecycle.children import Pod
from tests.builders import JOB_UID, a_pod
from tests.unit.kube.scripted_server import ScriptedServer, json, silence


def pods_in(client: Client, *namespaces: str) -> Reflectors[Pod]:
    def ignore(before: object, after: object) -> None:
        """What is told of changes is the reflector's matter."""

    def of(namespace: str) -> Reflector[Pod]:
        return Reflector(
            client, paths.pods(namespace), "app", Pod, lambda pod: pod.metadata.controller_uid or "", ignore
        )

    return Reflectors(of, namespaces)


async def test_each_namespace_is_listed_and_watched(server: ScriptedServer, client: Client) -> None:
    pods = pods_in(client, "team-a", "team-b")
    pod = a_pod().raw()
    held = {"/api/v1/namespaces/team-a/pods": [], "/api/v1/namespaces/team-b/pods": [pod]}

    async def answer(request: web.Request) -> web.StreamResponse:
        page = {"metadata": {"resourceVersion": "5"}, "items": held[request.path]}
        return await (silence() if "watch" in request.query else json(page))(request)

    server.will(*[answer] * 4)
    following = asyncio.create_task(pods.run())
    async with asyncio.timeout(600):
        await pods.synced()
        await server.used_up.wait()
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)

    assert {seen.path for seen in server.seen} == held.keys()
    assert [found.name for found in pods.of("team-b").group(JOB_UID)] == [pod["metadata"]["name"]]
    assert pods.all() == pods.of("team-b").all() != pods.of("team-a").all()
    assert pods.heard_at == min(pods.of("team-a").heard_at, pods.of("team-b").heard_at)


async def test_without_namespaces_one_watch_holds_all(client: Client) -> None:
    pods = pods_in(client)
    assert pods.of("team-a") is pods.of("team-b")


async def test_other_namespaces_are_not_held(client: Client) -> None:
    with pytest.raises(KeyError):
        pods_in(client, "team-a").of("team-b")
