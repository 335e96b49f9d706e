"""Which jobs exist, asked of the API server and held against what the watch of the jobs has told."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from dtj.controller.jobs import JobStore
from dtj.controller.queue import Key
from dtj.kube import jobs
from dtj.kube.client import Client
from dtj.kube.errors import KubeError, UnreachableError

log = logging.getLogger(__name__)

POLL_INTERVAL: Final = 2.0
LOOKS: Final = 20
"""At what the watch has told, before it is asked again which jobs exist."""


@dataclass(frozen=True)
class Missed:
    """What the watch has not told: jobs that are gone, and jobs that are not as they were last seen."""

    gone: tuple[Key, ...]
    changed: tuple[Key, ...]


class JobListing:
    """Of these namespaces, or of all."""

    def __init__(self, client: Client, namespaces: Sequence[str], store: JobStore) -> None:
        self._client = client
        self._namespaces = namespaces
        self._store = store
        self._told = ""

    async def until_served(self) -> None:
        """Wait for the CRD, and for the right to read jobs: without either nothing would ever be seen."""
        while True:
            try:
                if await jobs.is_served(self._client):
                    if forbidden := (await self._versions()).forbidden:
                        log.warning(
                            "without rights in %s: jobs there are not looked after", ", ".join(sorted(forbidden))
                        )
                    return
                self._tell("the CRD distributedtrainingjobs.dtj.dev is not installed")
            except KubeError as error:
                self._tell(str(error))
            await asyncio.sleep(POLL_INTERVAL)

    async def until_known(self) -> None:
        """Wait until the watch has told of all jobs that exist."""
        while True:
            try:
                existing = await self._versions()
            except KubeError as error:
                self._tell(str(error))
                await asyncio.sleep(POLL_INTERVAL)
                continue
            for _ in range(LOOKS):
                if all(self._store.get(uid) is not None for uid in existing.by_uid):
                    return
                await asyncio.sleep(POLL_INTERVAL / LOOKS)

    async def missed(self) -> Missed:
        """Of the jobs that were known before the question. Raises KubeError."""
        before = tuple(self._store.all_keys())
        existing = await self._versions()
        versions = existing.by_uid
        known = [key for key in before if key.namespace not in existing.forbidden]
        there = (key for key in known if key.uid in versions)
        return Missed(
            gone=tuple(key for key in known if key.uid not in versions),
            changed=tuple(key for key in there if versions[key.uid] != self._store.version(key.uid)),
        )

    async def _versions(self) -> jobs.Versions:
        try:
            return await jobs.list_versions(self._client, self._namespaces)
        except msgspec.MsgspecError as error:
            raise UnreachableError(f"LIST of the jobs: {error}") from error

    def _tell(self, problem: str) -> None:
        if problem != self._told:
            log.warning("waiting: %s", problem)
        self._told = problem
