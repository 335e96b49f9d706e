"""What runs beside Kopf: the caches, the workers, the resync and the health server, started and stopped together."""

import asyncio
import logging
from collections.abc import Coroutine, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any, Final, Self

from dtj.controller.health import health_server
from dtj.controller.jobs import JobStore
from dtj.controller.queue import Key, WorkQueue
from dtj.controller.reconcile import Reconciler
from dtj.kube import jobs
from dtj.kube.children import Children
from dtj.kube.client import Client
from dtj.kube.connection import Connection
from dtj.kube.errors import ApiError, KubeError
from dtj.lifecycle.children import Pod, Service
from dtj.lifecycle.observe import has_failed

log = logging.getLogger(__name__)

WORKERS: Final = 32
"""Jobs looked at at the same time; each waits for the API server most of its time."""
RESYNC_INTERVAL: Final = 300.0
OBSTACLE_BACKOFF: Final = 10.0
"""Seconds before a refused write is tried again, at least: a broken job costs one write in this time."""
SILENCE_LIMIT: Final = 180.0
CRD_POLL_INTERVAL: Final = 2.0
DELETION_DELAY: Final = 0.5
"""Seconds before a deleted pod is looked at: mostly its job was deleted, and word of that comes on another watch."""


@dataclass(frozen=True)
class Options:
    """Settings of the operator process."""

    health_port: int = 8080
    rate: float = 200.0
    burst: int = 400


class Runtime:
    """The operator without Kopf. ``on_job`` is called for every event of the job resource."""

    def __init__(self, connection: Connection, options: Options) -> None:
        self._options = options
        self._client = Client(connection, options.rate, options.burst)
        self._store = JobStore()
        self._queue = WorkQueue()
        self._children = Children(self._client, self._on_pod, self._on_service)
        self._reconciler = Reconciler(self._client, self._store, self._children)
        self._tasks: list[asyncio.Task[None]] = []
        self._stack = AsyncExitStack()
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._serving = False

    async def start(self) -> Self:
        """Return once the CRD is there and the caches are synced; the operator is ready from then on."""
        await self._stack.enter_async_context(self._client)
        await self._stack.enter_async_context(
            health_server(self._options.health_port, alive=self._is_alive, ready=lambda: self._serving)
        )
        await self._until_served()
        self._spawn("pods", self._children.pods.run())
        self._spawn("services", self._children.services.run())
        await self._children.synced()
        self._spawn("resync", self._resync_for_ever())
        for number in range(WORKERS):
            self._spawn(f"worker {number}", self._work_for_ever())
        self._serving = True
        log.info("caches are synced: ready")
        return self

    async def stop(self) -> None:
        self._serving = False
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._stack.aclose()
        self.failed.cancel()  # Kopf waits five seconds for whoever still waits for it

    def on_job(self, kind: str | None, raw: Mapping[str, Any]) -> None:
        """Take in an event of the job resource, or one object of its first listing (``kind`` None)."""
        key = self._store.put(raw)
        if kind == "DELETED":
            self._store.drop(key.uid)
        self._queue.add(key)

    def _on_pod(self, before: Pod | None, after: Pod | None) -> None:
        pod = after or before
        assert pod is not None, "a change has at least one side"  # noqa: S101
        key = self._store.key(pod.metadata.controller_uid or "")
        if key is None:
            return
        if after is not None and (has_failed(after) or not after.terminating):
            self._queue.add(key, urgent=has_failed(after))
        else:
            self._queue.add_after(key, DELETION_DELAY)

    def _on_service(self, before: Service | None, after: Service | None) -> None:
        service = after or before
        assert service is not None, "a change has at least one side"  # noqa: S101
        key = self._store.key(service.metadata.controller_uid or "")
        if key is not None and after is None:
            self._queue.add(key)

    async def _work_for_ever(self) -> None:
        while True:
            key = await self._queue.get()
            try:
                outcome = await self._reconciler.reconcile(key)
            except Exception:
                # A fault of this program, met by one job: the others must not pay for it.
                log.exception("job %s/%s: looking at it failed", key.namespace, key.name)
                self._queue.failed(key, at_least=OBSTACLE_BACKOFF)
                continue
            if outcome.error is not None:
                self._back_off(key, outcome.error)
                continue
            self._queue.done(key)
            if outcome.again_after is not None:
                self._queue.add_after(key, outcome.again_after.total_seconds())

    def _back_off(self, key: Key, error: KubeError) -> None:
        conflict = isinstance(error, ApiError) and error.code == 409
        self._queue.failed(key, at_least=0.0 if conflict else OBSTACLE_BACKOFF)

    async def _resync_for_ever(self) -> None:
        """Look at every job now and then, and drop jobs whose deletion was missed."""
        while True:
            await asyncio.sleep(RESYNC_INTERVAL)
            before = tuple(self._store.all_keys())
            try:
                existing = await jobs.list_uids(self._client)
            except KubeError as error:
                log.warning("resync: %s", error)
                continue
            for key in before:
                if key.uid not in existing:
                    self._store.drop(key.uid)
                self._queue.add(key)

    async def _until_served(self) -> None:
        told = False
        while True:
            try:
                if await jobs.is_served(self._client):
                    return
                problem = "the CRD distributedtrainingjobs.dtj.dev is not installed"
            except KubeError as error:
                problem = str(error)
            if not told:
                log.warning("waiting: %s", problem)
                told = True
            await asyncio.sleep(CRD_POLL_INTERVAL)

    def _is_alive(self) -> bool:
        """False when no watch has spoken for three minutes: the server sends bookmarks about once a minute."""
        if not self._serving:
            return True
        now = asyncio.get_running_loop().time()
        return now - max(self._children.pods.heard_at, self._children.services.heard_at) < SILENCE_LIMIT

    def _spawn(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work, name=name)
        task.add_done_callback(self._on_end)
        self._tasks.append(task)

    def _on_end(self, task: asyncio.Task[None]) -> None:
        """None of the tasks ends by itself: one that does takes the process down, and a new one starts afresh."""
        if task.cancelled() or self.failed.done():
            return
        self.failed.set_exception(task.exception() or RuntimeError(f"task {task.get_name()} ended"))
