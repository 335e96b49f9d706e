"""What a scraper is answered: the metrics as text, made apart from the event loop and not more often than of use."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from prometheus_client import CollectorRegistry, GCCollector, ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest

from dtj.controller.instruments import Instruments
from dtj.controller.jobs import JobStore, RawJob
from dtj.controller.metrics import build_metrics, job_metrics
from dtj.controller.tally import Tally

CONTENT_TYPE: Final = CONTENT_TYPE_PLAIN_0_0_4
REUSED_FOR: Final = 1.0
"""Seconds in which nothing new is made: whoever asks all the time costs little."""


class MetricsPage:
    """The text of ``/metrics``, for one process.

    ``measure`` is called in the event loop before a page is made. ``leads``: only who leads tells of the jobs, because
    every process knows them all, and sums over the processes shall be right.
    """

    def __init__(
        self,
        store: JobStore,
        tally: Tally,
        instruments: Instruments,
        measure: Callable[[], None],
        leads: Callable[[], bool],
    ) -> None:
        self._store = store
        self._measure = measure
        self._leads = leads
        usual = CollectorRegistry()
        ProcessCollector(registry=usual)
        GCCollector(registry=usual)
        self._registries = (tally.registry, instruments.registry, usual)
        self._making = asyncio.Lock()
        self._text = b""
        self._made_at: float | None = None

    async def text(self) -> bytes:
        loop = asyncio.get_running_loop()
        async with self._making:
            if self._made_at is None or loop.time() - self._made_at >= REUSED_FOR:
                self._measure()
                # Thousands of jobs take a tenth of a second; what is read there is never changed, only replaced.
                jobs = self._store.all_raw() if self._leads() else None
                self._text = await asyncio.to_thread(self._make, jobs)
                self._made_at = loop.time()
            return self._text

    def _make(self, jobs: tuple[RawJob, ...] | None) -> bytes:
        told = "" if jobs is None else job_metrics(jobs, datetime.now(UTC))
        return (told + build_metrics()).encode() + b"".join(generate_latest(each) for each in self._registries)
