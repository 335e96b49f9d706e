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


class Meter:
    """Is told what happens in a queue; this one keeps none of it. Seconds are those of the queue's clock."""

    def added(self) -> None:
        """A key waits that did not wait before."""

    def retried(self) -> None:
        """A key was put back for later."""

    def waited(self, seconds: float) -> None:
        """A key comes into work."""

    def worked(self, seconds: float) -> None:
        """A key was released."""


@dataclass(frozen=True)
class Standing:
    """Where a key stands.

    ``failures``: looks in a row that failed; ``due_in``: seconds until a look that needs no event, None for never.
    """

    waiting: bool = False
    in_work: bool = False
    failures: int = 0
    due_in: float | None = None


@dataclass
class _Entry:
    """State of a key that waits, is in work, or is backed off. ``since``: when it began to wait, or came into work."""

    waiting: bool = False
    in_work: bool = False
    again: bool = False
    despite_backoff: bool = False
    urgent: bool = False
    failures: int = 0
    timer: asyncio.TimerHandle | None = None
    timer_despite_backoff: bool = False
    due: float = float("inf")
    since: float = 0.0


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

    def __len__(self) -> int:
        return sum(len(keys) for keys in self._by_namespace.values())


class WorkQueue:
    """Used by one event loop. ``get`` gives a key, which must be followed by ``done`` or ``failed``."""

    def __init__(self, clock: Callable[[], float] | None = None, meter: Meter | None = None) -> None:
        self._entries: dict[Key, _Entry] = {}
        self._urgent = _Line()
        self._normal = _Line()
        self._available = asyncio.Semaphore(0)
        self._clock = clock or asyncio.get_running_loop().time
        self._meter = meter or Meter()

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

    def add_soon(self, key: Key, seconds: float, *, despite_backoff: bool = False) -> None:
        """Something changed that may wait a little, so that one look sees what else changes in this time.

        A key that is backed off waits on, unless ``despite_backoff``.
        """
        entry = self._entries.setdefault(key, _Entry())
        if not entry.waiting and (entry.in_work or not entry.failures or despite_backoff):
            self._set_timer(key, entry, seconds, despite_backoff=despite_backoff)

    def add_after(self, key: Key, seconds: float) -> None:
        """Look at the job later; the earliest of several times counts."""
        if self._set_timer(key, self._entries.setdefault(key, _Entry()), seconds, despite_backoff=True):
            self._meter.retried()

    async def get(self) -> Key:
        await self._available.acquire()
        key = (self._urgent or self._normal).pop()
        entry = self._entries[key]
        entry.waiting, entry.in_work, entry.urgent, entry.despite_backoff = False, True, False, False
        self._cancel(entry)
        now = self._clock()
        self._meter.waited(now - entry.since)
        entry.since = now
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
            if not entry.timer_despite_backoff:
                self._cancel(entry)  # what was due earlier waits with it
            self.add_after(key, backoff)
        return backoff

    @property
    def depths(self) -> tuple[int, int]:
        """How many keys wait: the urgent ones, and the others."""
        return len(self._urgent), len(self._normal)

    @property
    def ages(self) -> tuple[float, ...]:
        """For how many seconds each of the keys in work has been there."""
        now = self._clock()
        return tuple(now - entry.since for entry in self._entries.values() if entry.in_work)

    def standing(self, key: Key) -> Standing:
        """Where a key stands; also one of which the queue knows nothing."""
        entry = self._entries.get(key)
        if entry is None:
            return Standing()
        due_in = max(0.0, entry.due - self._clock()) if entry.timer is not None else None
        return Standing(entry.waiting, entry.in_work, entry.failures, due_in)

    def _enqueue(self, key: Key, entry: _Entry, *, urgent: bool) -> None:
        entry.waiting, entry.urgent, entry.since = True, urgent, self._clock()
        self._meter.added()
        (self._urgent if urgent else self._normal).push(key)
        self._available.release()

    def _release(self, key: Key, *, keep: bool = False) -> None:
        entry = self._entries[key]
        entry.in_work = False
        self._meter.worked(self._clock() - entry.since)
        if entry.again:
            entry.again = False
            self._enqueue(key, entry, urgent=entry.urgent)
        elif entry.timer is None and not keep and not entry.failures:
            del self._entries[key]

    def _set_timer(self, key: Key, entry: _Entry, seconds: float, *, despite_backoff: bool) -> bool:
        """Return whether none was due earlier. What one must do that is replaced, the new one does."""
        due = self._clock() + seconds
        entry.timer_despite_backoff |= despite_backoff
        if due >= entry.due:
            return False
        if entry.timer is not None:
            entry.timer.cancel()
        entry.due = due
        entry.timer = asyncio.get_running_loop().call_later(seconds, self._on_timer, key)
        return True

    def _on_timer(self, key: Key) -> None:
        entry = self._entries[key]
        despite_backoff = entry.timer_despite_backoff
        self._cancel(entry)
        self.add(key, despite_backoff=despite_backoff)

    @staticmethod
    def _cancel(entry: _Entry) -> None:
        if entry.timer is not None:
            entry.timer.cancel()
        entry.timer, entry.due, entry.timer_despite_backoff = None, float("inf"), False
