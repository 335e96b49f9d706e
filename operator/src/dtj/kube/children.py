"""The objects of all jobs: a local copy kept by watches, and the writes that change it."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec
import orjson

from dtj.api import labels, names
from dtj.kube import jobs, paths
from dtj.kube.client import Client
from dtj.kube.errors import ApiError, KubeError, NameTakenError, UnreachableError, is_quota
from dtj.kube.reflector import Child, OnChange, Reflector
from dtj.kube.reflectors import Reflectors
from dtj.lifecycle.children import Pod, Service
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
from dtj.lifecycle.observe import runs

log = logging.getLogger(__name__)

IN_FLIGHT: Final = 32
"""Writes of one job under way at the same time: a quarter of what the client sends at once; others want a turn."""

BATCHES: Final[tuple[tuple[type[Write], ...], ...]] = (
    (CreateConfigMap, CreateService, CreateNetworkPolicy),
    (DeletePod, DeleteService),
    (CreatePod,),
    (DeleteJob,),
)
"""Agent, names and isolation exist when pods start; who held a slot was told to go before the next one fills it; the
job goes last."""

AGENT_LIFETIME: Final = 300.0
"""Seconds for which the agent that was brought to a namespace is not brought again."""
DOUBTED_AGENT_LIFETIME: Final = 30.0
"""The same where pods that do not start may be missing it: nothing watches whether somebody has deleted it."""


class Children:
    """Pods and Services of all jobs, by the job's UID, in these namespaces or in all."""

    def __init__(
        self, client: Client, on_pod: OnChange[Pod], on_service: OnChange[Service], namespaces: Sequence[str] = ()
    ) -> None:
        self._client = client
        self._agent_brought_at: dict[str, float] = {}
        self._bringing: dict[tuple[str, bool], asyncio.Future[None]] = {}
        self._running: Counter[str] = Counter()

        def changed(before: Pod | None, after: Pod | None) -> None:
            self._count(before, after)
            on_pod(before, after)

        def pods_in(namespace: str) -> Reflector[Pod]:
            path = paths.pods(namespace)
            return Reflector(client, path, labels.JOB_UID, Pod, _group_of, changed, may_be_forbidden=namespace != "")

        def services_in(namespace: str) -> Reflector[Service]:
            path = paths.services(namespace)
            return Reflector(
                client, path, labels.JOB_UID, Service, _group_of, on_service, may_be_forbidden=namespace != ""
            )

        self.pods = Reflectors(pods_in, namespaces)
        self.services = Reflectors(services_in, namespaces)

    def pods_of(self, namespace: str, job_uid: str) -> tuple[Pod, ...]:
        """Those of a job. What another namespace says of it means nothing."""
        return self.pods.of(namespace).group(_group(namespace, job_uid))

    def number_of_pods(self, namespace: str, job_uid: str) -> tuple[int, int]:
        """How many pods a job has, and how many of them run."""
        group = _group(namespace, job_uid)
        return self.pods.of(namespace).size_of(group), self._running[group]

    def services_of(self, namespace: str, job_uid: str) -> tuple[Service, ...]:
        return self.services.of(namespace).group(_group(namespace, job_uid))

    def _count(self, before: Pod | None, after: Pod | None) -> None:
        for pod, number in ((before, -1), (after, 1)):
            if pod is not None and runs(pod):
                self._running[_group_of(pod)] += number
                if not self._running[_group_of(pod)]:
                    del self._running[_group_of(pod)]

    async def synced(self) -> None:
        await self.pods.synced()
        await self.services.synced()

    async def refresh(self, namespace: str, job_uid: str) -> None:
        """Take in which Pods and Services the job has now, whatever the watches have told so far.

        Raises KubeError.
        """
        try:
            label, group = (labels.JOB_UID, job_uid), _group(namespace, job_uid)
            await self.pods.of(namespace).refresh(paths.pods(namespace), label, group)
            await self.services.of(namespace).refresh(paths.services(namespace), label, group)
        except msgspec.MsgspecError as error:
            raise UnreachableError(f"LIST of the objects of a job: {error}") from error

    async def apply(self, namespace: str, job_uid: str, writes: tuple[Write, ...], *, carefully: bool = False) -> None:
        """Carry out the writes, many at a time, one of the ``BATCHES`` after the other.

        ``carefully``: the first of a batch alone, because it will probably be refused like the last time.
        Each is idempotent. The first error is raised once what was under way is done; the rest, of this batch and of
        those after it, is not even tried.
        """
        for kinds in BATCHES:
            batch = [write for write in writes if isinstance(write, kinds)]
            if carefully and batch:
                await self._write(namespace, job_uid, batch.pop(0))
            await self._apply_all(namespace, job_uid, batch)

    async def _apply_all(self, namespace: str, job_uid: str, writes: list[Write]) -> None:
        left = iter(writes)
        errors: list[KubeError] = []

        async def some() -> None:
            for write in left:
                if errors:
                    return
                try:
                    await self._write(namespace, job_uid, write)
                except KubeError as error:
                    errors.append(error)

        async with asyncio.TaskGroup() as group:
            for _ in range(min(IN_FLIGHT, len(writes))):
                group.create_task(some())
        if errors:
            raise errors[0]

    async def _write(self, namespace: str, job_uid: str, write: Write) -> None:
        match write:
            case CreateConfigMap(manifest, may_be_gone):
                lifetime = DOUBTED_AGENT_LIFETIME if may_be_gone else AGENT_LIFETIME
                await self._bring_agent(namespace, manifest, lifetime, insist=may_be_gone)
            case CreatePod(manifest):
                await self._create(self.pods.of(namespace), paths.pods(namespace), paths.pod, manifest, job_uid)
            case CreateService(manifest):
                services = self.services.of(namespace)
                await self._create(services, paths.services(namespace), paths.service, manifest, job_uid)
            case CreateNetworkPolicy(manifest):
                await self._isolate(namespace, manifest, job_uid)
            case DeletePod(name, uid, grace_seconds):
                await self._delete(self.pods.of(namespace), paths.pod(namespace, name), uid, grace_seconds)
            case DeleteService(name, uid):
                await self._delete(self.services.of(namespace), paths.service(namespace, name), uid, None)
            case DeleteJob():
                await jobs.delete_job(self._client, namespace, write)

    async def _bring_agent(self, namespace: str, manifest: dict[str, Any], lifetime: float, *, insist: bool) -> None:
        """Its name is its content, and pods look at both: what is there under the name needs no second look here.

        A quota refuses before anybody looks whether the object exists. Most probably it does, so only pods that do not
        start make that an error (``insist``).
        """
        now = asyncio.get_running_loop().time()
        if now - self._agent_brought_at.get(namespace, -lifetime) < lifetime:
            return
        if (under_way := self._bringing.get((namespace, insist))) is not None:
            await asyncio.shield(under_way)  # of many jobs that begin at once one brings it
            return
        brought = self._bringing[namespace, insist] = asyncio.get_running_loop().create_future()
        try:
            await self._create_agent(namespace, manifest, insist=insist)
        except Exception as error:
            brought.set_exception(error)
            brought.exception()  # nobody may wait for it, and that is no fault
            raise
        else:
            brought.set_result(None)
        finally:
            del self._bringing[namespace, insist]
            brought.cancel()  # only this process' end leaves it open, and ends those who wait as well

    async def _create_agent(self, namespace: str, manifest: dict[str, Any], *, insist: bool) -> None:
        now = asyncio.get_running_loop().time()
        try:
            await self._client.request("POST", paths.config_maps(namespace), body=manifest)
        except ApiError as error:
            if is_quota(error) and not insist:
                log.warning("namespace %s: %s", namespace, error)
                return
            if error.code != 409 or error.reason != "AlreadyExists":
                raise
        recent = {name: time for name, time in self._agent_brought_at.items() if now - time < AGENT_LIFETIME}
        self._agent_brought_at = {**recent, namespace: now}

    async def _isolate(self, namespace: str, manifest: dict[str, Any], job_uid: str) -> None:
        """Nothing watches NetworkPolicies, so whether this one is there is read each time; it is left as it is then.

        Reading comes first, because a repetition must not cost a write.
        """
        name = manifest["metadata"]["name"]
        try:
            found = orjson.loads(await self._client.request("GET", paths.network_policy(namespace, name)))
        except ApiError as error:
            if error.code != 404:
                raise
            await self._client.request("POST", paths.network_policies(namespace), body=manifest)
            return
        _require_ours(found, manifest, job_uid)

    async def _create(
        self,
        reflector: Reflector[Any],
        collection: str,
        path_of: Callable[[str, str], str],
        manifest: dict[str, Any],
        job_uid: str,
    ) -> None:
        try:
            reflector.write_through(await self._client.request("POST", collection, body=manifest))
        except ApiError as error:
            if error.code != 409 or error.reason != "AlreadyExists":
                raise
            name, namespace = manifest["metadata"]["name"], manifest["metadata"]["namespace"]
            try:
                await self._adopt_our_own(reflector, path_of(namespace, name), manifest, job_uid)
            except ApiError as gone:
                if gone.code != 404:
                    raise
                reflector.write_through(await self._client.request("POST", collection, body=manifest))

    async def _adopt_our_own(
        self, reflector: Reflector[Any], path: str, manifest: dict[str, Any], job_uid: str
    ) -> None:
        """An earlier try whose answer was lost made it, or somebody else holds the name."""
        found = orjson.loads(await self._client.request("GET", path))
        _require_ours(found, manifest, job_uid)
        reflector.write_through(orjson.dumps(found))

    async def _delete(self, reflector: Reflector[Any], path: str, uid: str, grace_seconds: int | None) -> None:
        options: dict[str, Any] = {"preconditions": {"uid": uid}, "propagationPolicy": "Background"}
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        try:
            answer = orjson.loads(await self._client.request("DELETE", path, body=options))
        except ApiError as error:
            if error.code not in {404, 409}:  # 409: another object has taken the name since
                raise
            reflector.forget(uid)
            return
        if answer.get("kind") == "Status":
            reflector.forget(uid)
        else:
            reflector.write_through(orjson.dumps(answer))


def _group(namespace: str, job_uid: str) -> str:
    return f"{namespace}/{job_uid}"


def _group_of(child: Child) -> str:
    return _group(child.metadata.namespace, child.metadata.controller_uid or "")


def _require_ours(found: dict[str, Any], manifest: dict[str, Any], job_uid: str) -> None:
    """Raises NameTakenError for an object without the job's label and controller reference."""
    metadata = manifest["metadata"]
    job_name = metadata["ownerReferences"][0]["name"]
    owners = found["metadata"].get("ownerReferences") or []
    managers = [owner for owner in owners if owner.get("controller")]
    labelled = (found["metadata"].get("labels") or {}).get(labels.JOB_UID) == job_uid
    if not labelled or not any(owner["uid"] == job_uid for owner in managers):
        of_earlier_job = any(_was_job(owner, job_name, job_uid) for owner in managers)
        raise NameTakenError(manifest["kind"], metadata["name"], of_earlier_job=of_earlier_job)


def _was_job(owner: dict[str, Any], job_name: str, job_uid: str) -> bool:
    """Whether an owner is an earlier job of this name: the objects of a deleted job go soon."""
    return bool(owner["kind"] == names.KIND and owner["name"] == job_name and owner["uid"] != job_uid)
