"""Who leads: of several processes of the operator only the holder of the Lease writes.

The rules are those of Kubernetes' own leader election (client-go, ``tools/leaderelection``): a record that has not
changed for the time of the lease, by the observer's own clock, is free; a leader that could not renew for a shorter
time stops by itself. Clocks of two machines are never compared, and a clock that is set does not matter.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from dtj.kube.errors import ApiError, KubeError, LeaseLostError
from dtj.kube.leases import LEASE_SECONDS, Lease, Leases

log = logging.getLogger(__name__)

RENEW_DEADLINE: Final = 10.0
"""Seconds after the last renewal at which a leader stops to write: before anybody else may begin."""
RENEW_INTERVAL: Final = 2.0
LOOK_INTERVAL: Final = 1.0
"""Seconds between two looks of one who waits: how long nobody leads after a lease was given back."""
CALL_TIMEOUT: Final = 5.0


@dataclass(frozen=True)
class Sighting:
    """The record as it was last seen, and since when it has been so, in seconds of the observer's own clock."""

    lease: Lease | None
    since: float


def look(before: Sighting | None, lease: Lease | None, now: float) -> Sighting:
    """Take in what is on record now; a renewal is a change of it."""
    if before is not None and before.lease == lease:
        return before
    return Sighting(lease, now)


def is_free(sighting: Sighting, identity: str, now: float) -> bool:
    """Whether ``identity`` may put itself on record: nobody is, or one who has not been heard of for too long."""
    lease = sighting.lease
    return lease is None or lease.holder in {"", identity} or now >= sighting.since + LEASE_SECONDS


class Leadership:
    """The part of one process in the election. ``identity`` must be no other living process's."""

    def __init__(self, leases: Leases, identity: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._leases = leases
        self._identity = identity
        self._clock = clock
        self._held: Lease | None = None
        self._held_until = float("-inf")

    @property
    def name(self) -> str:
        return self._leases.name

    def is_held(self) -> bool:
        """Whether this process may write. False at once after a pause that was too long, whoever noticed it or not."""
        return self._clock() < self._held_until

    async def acquire(self) -> None:
        """Return once this process leads."""
        sighting, told = None, ""
        while True:
            try:
                async with asyncio.timeout(CALL_TIMEOUT):
                    sighting = look(sighting, await self._leases.read(), self._clock())
                    if is_free(sighting, self._identity, self._clock()):
                        await self._claim(sighting.lease)
                        log.info("leading: %s holds the lease %s", self._identity, self._leases.name)
                        return
                state = f"waiting: {sighting.lease.holder if sighting.lease else 'nobody'} leads"
            except (KubeError, TimeoutError) as error:
                state = f"waiting for the lease {self._leases.name}: {_words(error)}"
            if state != told:
                log.info(state)
                told = state
            await asyncio.sleep(LOOK_INTERVAL)

    async def keep(self) -> None:
        """Renew for as long as that goes well. Raises LeaseLostError at the end, never returns."""
        while True:
            await asyncio.sleep(RENEW_INTERVAL)
            try:
                async with asyncio.timeout(min(CALL_TIMEOUT, max(0.1, self._held_until - self._clock()))):
                    await self._renew()
            except (KubeError, TimeoutError) as error:
                if isinstance(error, LeaseLostError):
                    raise
                log.warning("the lease %s was not renewed: %s", self._leases.name, _words(error))
            if not self.is_held():
                self._held = None
                raise LeaseLostError(f"the lease {self._leases.name} could not be renewed for {RENEW_DEADLINE:g} s")

    async def give_back(self) -> None:
        """Let another process lead at once. Nothing may be written by this one from here on."""
        held, self._held, was_held, self._held_until = self._held, None, self.is_held(), float("-inf")
        if held is None or not was_held:
            return
        try:
            async with asyncio.timeout(CALL_TIMEOUT):
                await self._give_back(held)
            log.info("gave back the lease %s", self._leases.name)
        except (KubeError, TimeoutError) as error:
            log.warning("the lease %s was not given back and will expire: %s", self._leases.name, _words(error))

    async def _give_back(self, held: Lease) -> None:
        try:
            await self._leases.give_back(held, datetime.now(UTC))
        except ApiError as error:
            # A renewal that was under way when this process was told to end may have changed the record.
            now = await self._leases.read() if error.code == 409 else None
            if now is None or now.holder != self._identity:
                raise
            await self._leases.give_back(now, datetime.now(UTC))

    async def _renew(self) -> None:
        try:
            await self._claim(self._held)
        except ApiError as error:
            if error.code not in {404, 409}:
                raise
            # Somebody wrote to the record, which need not mean that somebody took it.
            now = await self._leases.read()
            if now is not None and now.holder != self._identity:
                self._held_until = float("-inf")
                raise LeaseLostError(f"{now.holder or 'somebody'} has taken the lease {self._leases.name}") from error
            await self._claim(now)

    async def _claim(self, before: Lease | None) -> None:
        asked_at = self._clock()
        self._held = await self._leases.claim(before, self._identity, datetime.now(UTC))
        # Counted from the question: others count from the moment they see the answer, which is later.
        self._held_until = asked_at + RENEW_DEADLINE


def _words(error: Exception) -> str:
    return str(error) or type(error).__name__
