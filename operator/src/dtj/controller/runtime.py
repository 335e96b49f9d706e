"""What runs beside Kopf: the caches, the workers, the resync and the health server, started and stopped together.

The caches are kept by every process of the operator, so that each is ready to go on; only the one that leads looks at
jobs and writes.
"""

import asyncio
import contextlib
import logging
from collections.abc import Coroutine, Mapping
from types import TracebackType
from typing import Any, Final, Self

from dtj.controller.debug import DebugPages, debug_server
from dtj.controller.event_teller import EventTeller
from dtj.controller.health import Heartbeat, health_server
from dtj.controller.instruments import Instruments
from dtj.controller.job_listing import JobListing
from dtj.controller.jobs import JobStore
from dtj.controller.leadership import Leadership
from dtj.controller.logs import about
from dtj.controller.options import Election, Options
from dtj.controller.pod_news import AT_ONCE, CALM, how_soon
from dtj.controller.queue import Key, WorkQueue
from dtj.controller.reconcile import Reconciler
from dtj.controller.scrape import MetricsPage
from dtj.controller.training_watch import TrainingWatch
from dtj.kube.agents import Agents
from dtj.kube.children import Children
from dtj.kube.client import Client
from dtj.kube.connection import Connection
from dtj.kube.errors import ConfigurationError, KubeError, is_conflict
from dtj.kube.leases import Leases
from dtj.kube.nodes import Nodes
from dtj.kube.reflector import Child
from dtj.lifecycle.children import Pod, Service

log = logging.getLogger(__name__)

WORKERS: Final = 128
"""Jobs looked at at the same time; each waits for the API server most of its time."""
RESYNC_INTERVAL: Final = 300.0
OBSTACLE_BACKOFF: Final = 10.0
"""Seconds before a refused write is tried again, at least: a broken job costs one write in this time."""
SILENCE_LIMIT: Final = 180.0


class Runtime:
    """The operator without the watch of the jobs, which calls ``on_job`` for every event.

    An asynchronous context manager: entered once the CRD is there and all caches but that of the jobs are synced.
    """

    def __init__(self, connection: Connection, options: Options) -> None:
        self.connection = connection
        self._options = options
        self._instruments = Instruments()
        self._instruments.looks.workers(WORKERS)
        self._heartbeat = Heartbeat()
        on_answer = self._instruments.requests_to(connection.server)
        self._client = Client(connection, options.rate, options.burst, self._may_write, on_answer)
        # Renewals wait behind nothing, and are what gives the right to write: they have a client of their own.
        self._lease_client = Client(connection, on_answer=on_answer)
        self._leadership = _leadership(self._lease_client, options.election, connection.namespace)
        self._leading = False
        self._store = JobStore()
        self._listing = JobListing(self._client, options.namespaces, self._store)
        self._queue = WorkQueue(meter=self._instruments.queue)
        self._children = Children(self._client, self._on_pod, self._on_service, options.namespaces)
        self._nodes = Nodes(self._client, self._on_nodes)
        self._trainings = TrainingWatch(Agents(), self._queue.add)
        self._events = EventTeller(self._client)
        self._reconciler = Reconciler(
            self._client, self._store, self._children, self._nodes, self._trainings, self._events, connection.namespace
        )
        self._tasks: list[asyncio.Task[None]] = []
        self._stack = contextlib.AsyncExitStack()
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._resync_wanted = asyncio.Event()
        self._serving = False
        self._job_watch_heard_at: float | None = None

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
        await self._stack.enter_async_context(self._lease_client)
        self._stack.push_async_callback(self._trainings.close)
        port = self._options.health_port
        metrics = MetricsPage(self._store, self._reconciler.tally, self._instruments, self._measure, self._leads)
        health = health_server(port, alive=self._is_alive, ready=lambda: self._serving, metrics=metrics.text)
        try:
            await self._stack.enter_async_context(health)
        except OSError as error:
            raise ConfigurationError(f"--health-port {port}: {error.strerror}; choose another port") from error
        await self._serve_debug_pages()
        self._spawn("heartbeat", self._heartbeat.beat_for_ever())
        await self._listing.until_served()
        self._spawn("pods", self._children.pods.run())
        self._spawn("services", self._children.services.run())
        if self._options.watch_nodes:
            self._spawn("nodes", self._nodes.reflector.run())
            await self._nodes.reflector.synced.wait()
        await self._children.synced()
        self._spawn("resync", self._resync_for_ever())
        self._spawn("work", self._work_when_ready())

    async def _stop(self) -> None:
        await self.stop_work()
        await self._stack.aclose()

    async def stop_work(self) -> None:
        """Write nothing any more, and let another process lead."""
        self._serving = self._leading = False
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._leadership is not None:
            await self._leadership.give_back()

    async def _work_when_ready(self) -> None:
        await self._listing.until_known()
        self._serving = True
        log.info("caches are synced: ready")
        await self._lead()

    async def _lead(self) -> None:
        """Look at jobs, once this process may, for as long as it may. Raises LeaseLostError."""
        if self._leadership is not None:
            await self._leadership.acquire()
        self._leading = True
        for key in tuple(self._store.all_keys()):
            self._queue.add(key)
        self._spawn("news of trainings", self._trainings.tell_for_ever())
        self._spawn("events", self._events.tell_for_ever())
        for number in range(WORKERS):
            self._spawn(f"worker {number}", self._work_for_ever())
        if self._leadership is None:
            await asyncio.Event().wait()
        else:
            await self._leadership.keep()

    async def _serve_debug_pages(self) -> None:
        if (port := self._options.debug_port) is None:
            return
        pages = DebugPages(self._store, self._queue, self._reconciler, self._leads)
        try:
            await self._stack.enter_async_context(debug_server(port, pages))
        except OSError as error:
            raise ConfigurationError(f"--debug-port {port}: {error.strerror}; choose another port") from error

    def _measure(self) -> None:
        """Take in what is only looked at when somebody asks for metrics."""
        self._instruments.queue.read(self._queue)
        self._instruments.lag(self._heartbeat.worst_lag)
        if self._leadership is not None:
            self._instruments.leading(self._leadership.name, self._leadership.is_held())

    def _leads(self) -> bool:
        return self._leading and self._may_write()

    def _may_write(self) -> bool:
        return self._leadership is None or self._leadership.is_held()

    def on_job(self, kind: str | None, raw: Mapping[str, Any]) -> None:
        """Take in an event of the job resource, or one object of its first listing (``kind`` None)."""
        before = self._store.get(raw["metadata"]["uid"])
        key = self._store.put(raw)
        if kind == "DELETED":
            self._drop(key)
        elif self._reconciler.is_echo(key.uid, raw["metadata"]["resourceVersion"]):
            return
        if before is None or kind == "DELETED" or _wish(before) != _wish(raw):
            self._look_at(key, despite_backoff=True)
        elif self._leading:
            self._queue.add_soon(key, CALM)

    def _look_at(self, key: Key, *, urgent: bool = False, despite_backoff: bool = False) -> None:
        """Who does not lead looks at nothing, and at everything once it does."""
        if self._leading:
            self._queue.add(key, urgent=urgent, despite_backoff=despite_backoff)

    def _drop(self, key: Key) -> None:
        """A job is gone. Where nobody looks at it any more, what is known of it goes at once."""
        self._store.drop(key.uid)
        if not self._leading:
            self._reconciler.forget(key)

    def resync_soon(self) -> None:
        """Events of jobs may have been missed."""
        self._resync_wanted.set()

    def _on_pod(self, before: Pod | None, after: Pod | None) -> None:
        pod = after or before
        assert pod is not None, "a change has at least one side"  # noqa: S101
        key = self._job_of(pod)
        if key is None:
            return
        if after is None:
            self._reconciler.remember(pod)
        if not self._leading:
            return
        soon = how_soon(before, after, *self._children.number_of_pods(key.namespace, key.uid))
        if soon == AT_ONCE:
            self._queue.add(key, urgent=True)
        else:
            self._queue.add_soon(key, soon.within, despite_backoff=soon.despite_backoff)

    def _on_service(self, before: Service | None, after: Service | None) -> None:
        service = after or before
        assert service is not None, "a change has at least one side"  # noqa: S101
        key = self._job_of(service)
        if key is not None and after is None:
            self._look_at(key)

    def _on_nodes(self, names: frozenset[str]) -> None:
        """These nodes were lost or are heard of again: look at every job with a pod on one of them."""
        there = (pod for pod in self._children.pods.all() if pod.spec.node_name in names)
        for key in {self._job_of(pod) for pod in there}:
            if key is not None:
                self._look_at(key, urgent=True)

    def _job_of(self, child: Child) -> Key | None:
        """Whose it is, if its job is known and in the same namespace: others may write what they like in theirs."""
        key = self._store.key(child.metadata.controller_uid or "")
        return key if key is not None and key.namespace == child.metadata.namespace else None

    async def _work_for_ever(self) -> None:
        while True:
            key = await self._queue.get()
            with about(key):
                await self._work_on(key)

    async def _work_on(self, key: Key) -> None:
        try:
            outcome = await self._instruments.looks.measured(self._reconciler.reconcile(key))
        except Exception:
            # A fault of this program, met by one job: the others must not pay for it.
            log.exception("looking at it failed")
            self._queue.failed(key, at_least=OBSTACLE_BACKOFF)
            return
        if outcome.error is not None:
            self._back_off(key, outcome.error)
            return
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
            try:
                missed = await self._listing.missed()
            except KubeError as error:
                log.warning("resync: %s", error)
                continue
            for key in missed.changed:
                self._reconciler.distrust(key)
            for key in tuple(self._store.all_keys()):
                self._look_at(key)
            for key in missed.gone:
                self._drop(key)
                self._look_at(key)

    def job_watch_lives(self) -> None:
        """The watch of the jobs, which has a thread of its own, does its work."""
        self._job_watch_heard_at = asyncio.get_running_loop().time()

    def _is_alive(self) -> bool:
        """False when a watch has not spoken for three minutes: the server sends bookmarks about once a minute."""
        now = asyncio.get_running_loop().time()
        if not self._serving:
            return self._job_watch_heard_at is None or now - self._job_watch_heard_at < SILENCE_LIMIT
        heard_at = [self._children.pods.heard_at, self._children.services.heard_at]
        if self._job_watch_heard_at is not None:
            heard_at.append(self._job_watch_heard_at)
        if self._options.watch_nodes:
            heard_at.append(self._nodes.reflector.heard_at)
        return now - min(heard_at) < SILENCE_LIMIT

    def _spawn(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work, name=name)
        task.add_done_callback(self._on_end)
        self._tasks.append(task)

    def _on_end(self, task: asyncio.Task[None]) -> None:
        """None of the tasks ends by itself: one that does takes the process down, and a new one starts afresh."""
        if task.cancelled() or self.failed.done():
            return
        self.failed.set_exception(task.exception() or RuntimeError(f"task {task.get_name()} ended"))


def _leadership(client: Client, election: Election | None, own_namespace: str | None) -> Leadership | None:
    if election is None:
        return None
    namespace = election.namespace or own_namespace
    if namespace is None:
        raise ConfigurationError("--lease-namespace: outside of a cluster say where the Lease is")
    return Leadership(Leases(client, namespace, election.lease), election.identity)


def _wish(raw: Mapping[str, Any]) -> tuple[object, object]:
    """What a person changes about a job: its spec, and whether it should exist."""
    return raw["metadata"].get("generation"), raw["metadata"].get("deletionTimestamp")
