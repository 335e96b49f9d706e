"""What a scraper is answered: the metrics as text, made apart from the event loop and not more often than of use."""

import asyncio
from datetime import UTC, datetime
from typing import Final

from prometheus_client import ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest

from dtj.controller.jobs import JobStore, RawJob
from dtj.controller.metrics import job_metrics, process_metrics
from dtj.controller.tally import Tally

CONTENT_TYPE: Final = CONTENT_TYPE_PLAIN_0_0_4
REUSED_FOR: Final = 1.0
"""Seconds in which nothing new is made: whoever asks all the time costs little."""


class MetricsPage:
    """The text of ``/metrics``, for one process."""

    def __init__(self, store: JobStore, tally: Tally) -> None:
        self._store = store
        self._tally = tally
        self._process = ProcessCollector(registry=None)
        self._making = asyncio.Lock()
        self._text = b""
        self._made_at: float | None = None

    async def text(self) -> bytes:
        loop = asyncio.get_running_loop()
        async with self._making:
            if self._made_at is None or loop.time() - self._made_at >= REUSED_FOR:
                # Thousands of jobs take a tenth of a second; what is read there is never changed, only replaced.
                jobs, counted = self._store.all_raw(), process_metrics(self._tally)
                self._text = await asyncio.to_thread(self._make, jobs, counted)
                self._made_at = loop.time()
            return self._text

    def _make(self, jobs: tuple[RawJob, ...], counted: str) -> bytes:
        return (job_metrics(jobs, datetime.now(UTC)) + counted).encode() + generate_latest(self._process)
