"""Tells people what happens to jobs, one Event after the other, while everything else goes on."""

import asyncio
import logging
from collections import deque
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from dtj.api.job import ObjectMeta
from dtj.controller.logs import about
from dtj.controller.queue import Key
from dtj.kube import jobs
from dtj.kube.client import Client
from dtj.kube.errors import KubeError, NotLeadingError
from dtj.lifecycle.decision import Event

log = logging.getLogger(__name__)

LONGEST: Final = 10_000
"""Events that may wait; of more than these the oldest are not told."""
TELLING_SECONDS: Final = 10.0
"""For one event: what answers so late in one namespace must not hold up the others' events."""


@dataclass(frozen=True)
class _Telling:
    """``count``: how often it was told of this attempt, this time included."""

    job: ObjectMeta
    event: Event
    attempt: int
    at: datetime
    count: int


class EventTeller:
    """Events are for people and may be lost, because the status says it already. So no job waits for them, and one is
    under way at a time: in a burst the API server creates pods first.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._waiting: deque[_Telling] = deque(maxlen=LONGEST)
        self._some = asyncio.Event()

    def tell(self, job: ObjectMeta, event: Event, attempt: int, at: datetime, count: int) -> None:
        """Have it told soon."""
        if len(self._waiting) == LONGEST:
            log.warning("%d events wait: the oldest is not told", LONGEST)
        named = job.model_copy(update={"labels": {}, "annotations": {}})  # these may be large, and many may wait
        self._waiting.append(_Telling(named, event, attempt, at, count))
        self._some.set()

    async def tell_for_ever(self) -> None:
        while True:
            await self._some.wait()
            await self.tell_waiting()

    async def tell_waiting(self) -> None:
        """Return when nothing waits any more."""
        while self._waiting:
            telling = self._waiting.popleft()
            with about(Key(telling.job.namespace, telling.job.name, telling.job.uid), telling.attempt):
                await self._tell(telling)
        self._some.clear()

    async def _tell(self, telling: _Telling) -> None:
        at = telling.at.strftime("%Y-%m-%dT%H:%M:%SZ")
        try:
            async with asyncio.timeout(TELLING_SECONDS):
                await jobs.write_event(self._client, telling.job, telling.event, telling.attempt, at, telling.count)
        except NotLeadingError:
            self._waiting.clear()  # another process tells what happens from now on
        except (KubeError, TimeoutError) as error:
            log.warning("event %s not told: %s", telling.event.reason, str(error) or type(error).__name__)
        except Exception:
            log.exception("event %s not told", telling.event.reason)
