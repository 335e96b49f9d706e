"""What runs beside Kopf: the caches, the workers, the resync and the health server, started and stopped together."""

import asyncio
import contextlib
import logging
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self

import msgspec

from dtj.controller.health import health_server
from dtj.controller.jobs import JobStore
from dtj.controller.queue import Key, WorkQueue
from dtj.controller.reconcile import Reconciler
from dtj.controller.scrape import MetricsPage
from dtj.controller.training_watch import TrainingWatch
from dtj.kube import jobs
from dtj.kube.agents import Agents
from dtj.kube.children import Children
from dtj.kube.client import DEFAULT_BURST, DEFAULT_RATE, Client
from dtj.kube.connection import Connection
from dtj.kube.errors import ConfigurationError, KubeError, is_conflict
from dtj.kube.nodes import Nodes
from dtj.lifecycle.children import Pod, Service
from dtj.lifecycle.observe import has_ended

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
    rate: float = DEFAULT_RATE
    burst: int = DEFAULT_BURST


class Runtime:
    """The operator without the watch of the jobs, which calls ``on_job`` for every event.

    An asynchronous context manager: entered once the CRD is there and the caches are synced.
    """

    def __init__(self, connection: Connection, options: Options) -> None:
        self.connection = connection
        self._options = options
        self._client = Client(connection, options.rate, options.burst)
        self._store = JobStore()
        self._queue = WorkQueue()
        self._children = Children(self._client, self._on_pod, self._on_service)
        self._nodes = Nodes(self._client, self._on_nodes)
        self._agents = Agents()
        self._trainings = TrainingWatch(self._agents, self._queue.add)
        self._reconciler = Reconciler(self._client, self._store, self._children, self._nodes, self._trainings)
        self._tasks: list[asyncio.Task[None]] = []
        self._stack = contextlib.AsyncExitStack()
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._resync_wanted = asyncio.Event()
        self._serving = False

    async def __aenter__(self) -> Self:
        try:
            await self._start()
        except BaseException:
            await self._stop()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stop()

    async def _start(self) -> None:
        await self._stack.enter_async_context(self._client)
        await self._stack.enter_async_context(self._agents)
        self._stack.push_async_callback(self._trainings.close)
        port = self._options.health_port
        metrics = MetricsPage(self._store, self._reconciler.tally)
        health = health_server(port, alive=self._is_alive, ready=lambda: self._serving, metrics=metrics.text)
        try:
            await self._stack.enter_async_context(health)
        except OSError as error:
            raise ConfigurationError(f"--health-port {port}: {error.strerror}; choose another port") from error
        await self._until_served()
        self._spawn("pods", self._children.pods.run())
        self._spawn("services", self._children.services.run())
        self._spawn("nodes", self._nodes.reflector.run())
        await self._children.synced()
        await self._nodes.reflector.synced.wait()
        self._spawn("resync", self._resync_for_ever())
        self._spawn("news of trainings", self._trainings.tell_for_ever())
        for number in range(WORKERS):
            self._spawn(f"worker {number}", self._work_for_ever())
        self._serving = True
        log.info("caches are synced: ready")

    async def _stop(self) -> None:
        self._serving = False
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._stack.aclose()

    def on_job(self, kind: str | None, raw: Mapping[str, Any]) -> None:
        """Take in an event of the job resource, or one object of its first listing (``kind`` None)."""
        before = self._store.get(raw["metadata"]["uid"])
        key = self._store.put(raw)
        if kind == "DELETED":
            self._store.drop(key.uid)
        elif self._reconciler.is_echo(key.uid, raw["metadata"]["resourceVersion"]):
            return
        wish_changed = before is None or kind == "DELETED" or _wish(before) != _wish(raw)
        self._queue.add(key, despite_backoff=wish_changed)

    def resync_soon(self) -> None:
        """Events of jobs may have been missed."""
        self._resync_wanted.set()

    def _on_pod(self, before: Pod | None, after: Pod | None) -> None:
        pod = after or before
        assert pod is not None, "a change has at least one side"  # noqa: S101
        key = self._store.key(pod.metadata.controller_uid or "")
        if key is None:
            return
        if after is None:
            self._reconciler.remember(pod)
        if after is not None and (has_ended(after) or not after.terminating):
            self._queue.add(key, urgent=has_ended(after) and not (before is not None and has_ended(before)))
        else:
            self._queue.add_after(key, DELETION_DELAY)

    def _on_service(self, before: Service | None, after: Service | None) -> None:
        service = after or before
        assert service is not None, "a change has at least one side"  # noqa: S101
        key = self._store.key(service.metadata.controller_uid or "")
        if key is not None and after is None:
            self._queue.add(key)

    def _on_nodes(self, names: frozenset[str]) -> None:
        """These nodes were lost or are heard of again: look at every job with a pod on one of them."""
        owners = {pod.metadata.controller_uid for pod in self._children.pods.all() if pod.spec.node_name in names}
        for uid in owners:
            if (key := self._store.key(uid or "")) is not None:
                self._queue.add(key, urgent=True)

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
        self._queue.failed(key, at_least=0.0 if is_conflict(error) else OBSTACLE_BACKOFF)

    async def _resync_for_ever(self) -> None:
        """Look at every job now and then; drop those whose deletion was missed, read those whose change was."""
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._resync_wanted.wait(), RESYNC_INTERVAL)
            self._resync_wanted.clear()
            before = tuple(self._store.all_keys())
            try:
                existing = await jobs.list_versions(self._client)
            except (KubeError, msgspec.MsgspecError) as error:
                log.warning("resync: %s", error)
                continue
            for key in before:
                if key.uid not in existing:
                    self._store.drop(key.uid)
                elif existing[key.uid] != self._store.version(key.uid):
                    self._reconciler.distrust(key)
                self._queue.add(key)

    async def _until_served(self) -> None:
        """Wait for the CRD, and for the right to read jobs: without either nothing would ever be seen."""
        told = False
        while True:
            try:
                if await jobs.is_served(self._client):
                    await jobs.list_versions(self._client)
                    return
                problem = "the CRD distributedtrainingjobs.dtj.dev is not installed"
            except KubeError as error:
                problem = str(error)
            if not told:
                log.warning("waiting: %s", problem)
                told = True
            await asyncio.sleep(CRD_POLL_INTERVAL)

    def _is_alive(self) -> bool:
        """False when a watch has not spoken for three minutes: the server sends bookmarks about once a minute."""
        if not self._serving:
            return True
        now = asyncio.get_running_loop().time()
        watches = (self._children.pods, self._children.services, self._nodes.reflector)
        return now - min(watch.heard_at for watch in watches) < SILENCE_LIMIT

    def _spawn(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work, name=name)
        task.add_done_callback(self._on_end)
        self._tasks.append(task)

    def _on_end(self, task: asyncio.Task[None]) -> None:
        """None of the tasks ends by itself: one that does takes the process down, and a new one starts afresh."""
        if task.cancelled() or self.failed.done():
            return
        self.failed.set_exception(task.exception() or RuntimeError(f"task {task.get_name()} ended"))


def _wish(raw: Mapping[str, Any]) -> tuple[object, object]:
    """What a person changes about a job: its spec, and whether it should exist."""
    return raw["metadata"].get("generation"), raw["metadata"].get("deletionTimestamp")
