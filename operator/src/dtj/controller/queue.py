"""The keyed work queue: which job is looked at next.

A key is in work at most once; a burst of changes is one run; urgent keys go first; namespaces take turns; a key that
failed waits, longer each time, and delays no other.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

FIRST_BACKOFF: Final = 0.05
LONGEST_BACKOFF: Final = 60.0


class Key(NamedTuple):
    """A job: where it is, and its UID, so that a later job of the same name is another key."""

    namespace: str
    name: str
    uid: str


@dataclass
class _Entry:
    """State of a key that waits, is in work, or is backed off."""

    waiting: bool = False
    in_work: bool = False
    again: bool = False
    despite_backoff: bool = False
    urgent: bool = False
    failures: int = 0
    timer: asyncio.TimerHandle | None = None
    due: float = float("inf")


class _Line:
    """Keys of one urgency, a queue per namespace, namespaces in turn."""

    def __init__(self) -> None:
        self._by_namespace: dict[str, deque[Key]] = {}

    def push(self, key: Key) -> None:
        self._by_namespace.setdefault(key.namespace, deque()).append(key)

    def pop(self) -> Key:
        namespace, keys = next(iter(self._by_namespace.items()))
        key = keys.popleft()
        del self._by_namespace[namespace]
        if keys:
            self._by_namespace[namespace] = keys
        return key

    def remove(self, key: Key) -> None:
        keys = self._by_namespace[key.namespace]
        keys.remove(key)
        if not keys:
            del self._by_namespace[key.namespace]

    def __bool__(self) -> bool:
        return bool(self._by_namespace)


class WorkQueue:
    """Used by one event loop. ``get`` gives a key, which must be followed by ``done`` or ``failed``."""

    def __init__(self, clock: Callable[[], float] | None = None) -> None:
        self._entries: dict[Key, _Entry] = {}
        self._urgent = _Line()
        self._normal = _Line()
        self._available = asyncio.Semaphore(0)
        self._clock = clock or asyncio.get_running_loop().time

    def add(self, key: Key, *, urgent: bool = False, despite_backoff: bool = False) -> None:
        """Something changed: look at the job as soon as possible.

        A key that is backed off waits on, unless what changed is ``urgent`` or may well be the cure
        (``despite_backoff``).
        """
        despite_backoff |= urgent
        entry = self._entries.setdefault(key, _Entry())
        if entry.in_work:
            entry.again = True
            entry.urgent |= urgent
            entry.despite_backoff |= despite_backoff
            return
        if entry.failures and entry.timer is not None and not despite_backoff:
            return
        if entry.waiting and (entry.urgent or not urgent):
            return
        if entry.waiting:
            self._normal.remove(key)
            self._urgent.push(key)
            entry.urgent = True
            return
        self._enqueue(key, entry, urgent=urgent)

    def add_after(self, key: Key, seconds: float) -> None:
        """Look at the job later; the earliest of several times counts."""
        entry = self._entries.setdefault(key, _Entry())
        due = self._clock() + seconds
        if due >= entry.due:
            return
        self._cancel(entry)
        entry.due = due
        entry.timer = asyncio.get_running_loop().call_later(seconds, self._on_timer, key)

    async def get(self) -> Key:
        await self._available.acquire()
        key = (self._urgent or self._normal).pop()
        entry = self._entries[key]
        entry.waiting, entry.in_work, entry.urgent, entry.despite_backoff = False, True, False, False
        self._cancel(entry)
        return key

    def done(self, key: Key) -> None:
        """The look at the job went well."""
        self._entries[key].failures = 0
        self._release(key)

    def failed(self, key: Key, *, at_least: float = 0.0) -> float:
        """The look at the job failed: look again after a backoff, whose seconds are returned."""
        entry = self._entries[key]
        entry.failures += 1
        backoff = max(at_least, min(LONGEST_BACKOFF, FIRST_BACKOFF * 2.0 ** min(entry.failures - 1, 20)))
        entry.again = entry.despite_backoff
        self._release(key, keep=True)
        if not entry.waiting:
            self.add_after(key, backoff)
        return backoff

    def _enqueue(self, key: Key, entry: _Entry, *, urgent: bool) -> None:
        entry.waiting, entry.urgent = True, urgent
        (self._urgent if urgent else self._normal).push(key)
        self._available.release()

    def _release(self, key: Key, *, keep: bool = False) -> None:
        entry = self._entries[key]
        entry.in_work = False
        if entry.again:
            entry.again = False
            self._enqueue(key, entry, urgent=entry.urgent)
        elif entry.timer is None and not keep and not entry.failures:
            del self._entries[key]

    def _on_timer(self, key: Key) -> None:
        entry = self._entries[key]
        entry.timer, entry.due = None, float("inf")
        self.add(key, despite_backoff=True)

    @staticmethod
    def _cancel(entry: _Entry) -> None:
        if entry.timer is not None:
            entry.timer.cancel()
        entry.timer, entry.due = None, float("inf")
