"""What is measured of the process itself, under the names that controllers written with controller-runtime use.

Where the meaning is the same, name and labels are the same, so that dashboards and alerts made for those fit. What is
measured on the way of every look costs microseconds.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics

from dtj.api import names
from dtj.controller.queue import Meter, WorkQueue
from dtj.controller.reconcile import Outcome
from dtj.kube.errors import is_conflict

CONTROLLER: Final = names.KIND.lower()
"""What controller-runtime would call it: the kind that it looks after."""
RESULTS: Final = ("success", "error", "requeue", "requeue_after")
LOOKS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
"""Bounds of the histogram of looks, in seconds: one takes some milliseconds, and longer where it waits for the API."""
WAITS: Final = (1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1, 10, 100, 1000)
"""Bounds of the histograms of the queue, in seconds: those of client-go without the shortest."""

# The library would tell the time of creation of each series as well: half as many lines again.
disable_created_metrics()  # type: ignore[no-untyped-call]


class Instruments:
    """All that is measured, in ``registry``."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.looks = LookInstruments(self.registry)
        self.queue = QueueInstruments(self.registry)
        self._requests = Counter(
            "rest_client_requests_total",
            "Requests to the API server.",
            ("code", "method", "host"),
            registry=self.registry,
        )
        self._leading = Gauge(
            "leader_election_master_status", "1: this process leads.", ("name",), registry=self.registry
        )
        self._lag = Gauge(
            "dtj_event_loop_lag_seconds", "The longest that the process was late in a minute.", registry=self.registry
        )

    def leading(self, name: str, leads: bool) -> None:
        """Whether this process holds the lease of this name. Not told at all before the first call."""
        self._leading.labels(name).set(1 if leads else 0)

    def requests_to(self, server: str) -> Callable[[str, str], None]:
        """What is called with method and code of each answer of a server."""
        host = server.partition("://")[2] or server

        def count(method: str, code: str) -> None:
            self._requests.labels(code, method, host).inc()

        return count

    def lag(self, seconds: float) -> None:
        """How late the event loop was at most, lately."""
        self._lag.set(seconds)


class LookInstruments:
    """Those of the looks at jobs. Their labels are known, so each number is one addition away."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, description: str) -> Counter:
            return Counter(name, description, ("controller",), registry=registry).labels(CONTROLLER)

        def gauge(name: str, description: str) -> Gauge:
            return Gauge(name, description, ("controller",), registry=registry).labels(CONTROLLER)

        looks = Counter(
            "controller_runtime_reconcile_total", "Looks at jobs.", ("controller", "result"), registry=registry
        )
        seconds = Histogram(
            "controller_runtime_reconcile_time_seconds",
            "How long looks took.",
            ("controller",),
            buckets=LOOKS,
            registry=registry,
        )
        self._looks = {result: looks.labels(CONTROLLER, result) for result in RESULTS}
        self._seconds = seconds.labels(CONTROLLER)
        self._errors = counter("controller_runtime_reconcile_errors_total", "Looks that failed.")
        self._faults = counter("controller_runtime_reconcile_panics_total", "Looks that met a fault of the operator.")
        self._workers = gauge("controller_runtime_max_concurrent_reconciles", "Looks at a time.")
        self._active = gauge("controller_runtime_active_workers", "Looks under way.")

    def workers(self, count: int) -> None:
        """How many looks may be under way at a time."""
        self._workers.set(count)

    async def measured(self, look: Awaitable[Outcome]) -> Outcome:
        """The outcome of a look; what it raises is a fault of this program."""
        clock = asyncio.get_running_loop().time
        began = clock()
        self._active.inc()
        try:
            outcome = await look
        except Exception:
            self._faults.inc()
            self._count("error")
            raise
        finally:
            self._active.dec()
            self._seconds.observe(clock() - began)
        self._count(_result(outcome))
        return outcome

    def _count(self, result: str) -> None:
        self._looks[result].inc()
        if result == "error":
            self._errors.inc()


class QueueInstruments(Meter):
    """Those of the work queue."""

    def __init__(self, registry: CollectorRegistry) -> None:
        labels = ("name", "controller")
        own = {"name": CONTROLLER, "controller": CONTROLLER}

        def counter(name: str, description: str) -> Counter:
            return Counter(name, description, labels, registry=registry).labels(**own)

        def gauge(name: str, description: str) -> Gauge:
            return Gauge(name, description, labels, registry=registry).labels(**own)

        def histogram(name: str, description: str) -> Histogram:
            return Histogram(name, description, labels, buckets=WAITS, registry=registry).labels(**own)

        depth = Gauge("workqueue_depth", "Jobs that wait for a look.", (*labels, "priority"), registry=registry)
        self._normal, self._urgent = depth.labels(**own, priority="0"), depth.labels(**own, priority="1")
        self._adds = counter("workqueue_adds_total", "Times that a job began to wait for a look.")
        self._retries = counter("workqueue_retries_total", "Times that a job was put back for a later look.")
        self._waited = histogram("workqueue_queue_duration_seconds", "How long jobs waited for a look.")
        self._worked = histogram("workqueue_work_duration_seconds", "How long jobs were in work.")
        self._unfinished = gauge("workqueue_unfinished_work_seconds", "Age of all looks under way, added up.")
        self._longest = gauge("workqueue_longest_running_processor_seconds", "Age of the oldest look under way.")

    def added(self) -> None:
        self._adds.inc()

    def retried(self) -> None:
        self._retries.inc()

    def waited(self, seconds: float) -> None:
        self._waited.observe(seconds)

    def worked(self, seconds: float) -> None:
        self._worked.observe(seconds)

    def read(self, queue: WorkQueue) -> None:
        """Take in how the queue is now. Called in the event loop, before what is measured is told."""
        urgent, normal = queue.depths
        self._urgent.set(urgent)
        self._normal.set(normal)
        ages = queue.ages
        self._unfinished.set(sum(ages))
        self._longest.set(max(ages, default=0.0))


def _result(outcome: Outcome) -> str:
    """A conflict is no error: the job was changed meanwhile, and is looked at again."""
    if outcome.error is not None:
        return "requeue" if is_conflict(outcome.error) else "error"
    return "success" if outcome.again_after is None else "requeue_after"
