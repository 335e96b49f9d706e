"""Reads the progress of the running jobs, each at its own interval, and keeps what was heard last."""

import asyncio
import logging
import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from dtj.controller.logs import about
from dtj.controller.queue import Key
from dtj.kube.agents import AgentError, Agents
from dtj.lifecycle.agent_report import Sighting

log = logging.getLogger(__name__)

FIRST_LOOK: Final = 2.0
"""Seconds until the first question to a training that has just started: people watch it then."""
SLOWER: Final = 1.5
"""How much longer the time until the next question gets as long as it tells nothing."""
JITTER: Final = 0.1
FAILURES_THAT_ARE_TOLD: Final = 5
"""In a row: an agent that is busy or starts late is no news."""
NEWS_PER_SECOND: Final = 5.0
"""Jobs whose news is looked at in a second, over all. Each may cost a write of a status, the event that comes back from
it, and the API server more than this process."""


@dataclass(frozen=True)
class Target:
    """Whom to ask: the agent of rank 0 in one attempt of a job. ``interval``: seconds between two questions."""

    key: Key
    address: str
    attempt: int
    token: str
    interval: float


@dataclass
class _Followed:
    target: Target
    task: asyncio.Task[None]
    sighting: Sighting | None = None
    failures: int = 0
    trouble: str = ""


class TrainingWatch:
    """One small task for each running job. ``on_news`` is called with the jobs in the order of their news."""

    def __init__(self, agents: Agents, on_news: Callable[[Key], None]) -> None:
        self._agents = agents
        self._on_news = on_news
        self._followed: dict[str, _Followed] = {}
        self._news: dict[Key, None] = {}
        self._has_news = asyncio.Event()

    def follow(self, target: Target) -> None:
        """Ask this one from now on, if it is not asked already."""
        followed = self._followed.get(target.key.uid)
        if followed is not None and followed.target == target:
            return
        self.forget(target.key.uid)
        task = asyncio.create_task(self._ask_for_ever(target), name=f"training of {target.key.name}")
        self._followed[target.key.uid] = _Followed(target, task)

    def forget(self, uid: str) -> None:
        followed = self._followed.pop(uid, None)
        if followed is not None:
            followed.task.cancel()

    def heard(self, uid: str) -> Sighting | None:
        followed = self._followed.get(uid)
        return followed.sighting if followed is not None else None

    def trouble(self, uid: str) -> str:
        """Why a job's progress cannot be read; empty while it can."""
        followed = self._followed.get(uid)
        return followed.trouble if followed is not None else ""

    async def tell_for_ever(self) -> None:
        """Hand on the news, at a bounded rate: all jobs take turns."""
        while True:
            await self._has_news.wait()
            key = next(iter(self._news))
            del self._news[key]
            if not self._news:
                self._has_news.clear()
            self._on_news(key)
            await asyncio.sleep(1 / NEWS_PER_SECOND)

    async def close(self) -> None:
        tasks = [followed.task for followed in self._followed.values()]
        for uid in tuple(self._followed):
            self.forget(uid)
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _ask_for_ever(self, target: Target) -> None:
        with about(target.key, target.attempt):
            while_silent = min(FIRST_LOOK, target.interval)
            while True:
                spread = random.uniform(1 - JITTER, 1 + JITTER)  # noqa: S311 - spreads load, guards nothing
                await asyncio.sleep(
                    (target.interval if self._tells_progress(target.key.uid) else while_silent) * spread
                )
                await self._ask(target)
                while_silent = min(while_silent * SLOWER, target.interval)

    def _tells_progress(self, uid: str) -> bool:
        sighting = self.heard(uid)
        return sighting is not None and sighting.report.tells_progress

    async def _ask(self, target: Target) -> None:
        followed = self._followed[target.key.uid]
        before = followed.sighting, followed.trouble
        try:
            report = await self._agents.ask(target.address, target.token)
        except AgentError as error:
            self._note_failure(followed, str(error))
        except Exception:
            log.exception("reading its progress failed")
            self._note_failure(followed, "reading it failed; the operator's log says how")
        else:
            if (report.job_uid, report.attempt) == (target.key.uid, target.attempt):
                followed.failures, followed.trouble = 0, ""
                followed.sighting = Sighting(report, datetime.now(UTC))
            else:
                self._note_failure(followed, f"{target.address} answers for another job")
        # What was heard grows old: that nothing new comes is news as well.
        if followed.sighting is not None or (followed.sighting, followed.trouble) != before:
            self._news[target.key] = None
            self._has_news.set()

    def _note_failure(self, followed: _Followed, trouble: str) -> None:
        followed.failures += 1
        if followed.failures < FAILURES_THAT_ARE_TOLD:
            return
        if not followed.trouble:
            log.info("the progress cannot be read: %s", trouble)
        followed.trouble = trouble
