"""A local copy of a set of objects, kept true by LIST and WATCH.

Every event may be lost: the watch is renewed from where it stood, a LIST that follows a broken watch synthesises the
deletions it missed. Each change is told to one callback, with the old and the new object.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Mapping
from typing import Final, Generic, Protocol, TypeVar

import msgspec
from msgspec import Raw, Struct

from dtj.kube.client import Client
from dtj.kube.errors import ApiError, KubeError
from dtj.lifecycle.children import ObjectMeta

log = logging.getLogger(__name__)

PAGE_SIZE: Final = 500
WATCH_SECONDS: Final = 290
"""The server ends each watch after this time; renewing it is free."""
_SHORTEST_BACKOFF: Final = 0.2
_LONGEST_BACKOFF: Final = 30.0


class Child(Protocol):
    """Anything with metadata."""

    @property
    def metadata(self) -> ObjectMeta: ...


T = TypeVar("T", bound=Child)
OnChange = Callable[[T | None, T | None], None]
"""Called with (before, after); None for not there. Must not block."""


class _ListMeta(Struct, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")


class _List(Struct, rename="camel"):
    metadata: _ListMeta
    items: list[Raw] = []


class _Event(Struct):
    type: str
    object: Raw


class _Bookmark(Struct):
    """The server sends an otherwise empty object; it has not even a name."""

    metadata: _ListMeta


class _Status(Struct):
    code: int = 0
    reason: str = ""
    message: str = ""


class Reflector(Generic[T]):
    """``path``: a collection of the API; ``selector``: by labels, None for all; ``kind``: the struct to decode into.

    ``synced`` is set once the first LIST is complete, or, where that ``may_be_forbidden``, is refused. Objects are kept
    per ``group_of`` (such as the job's UID).
    """

    def __init__(
        self,
        client: Client,
        path: str,
        selector: str | None,
        kind: type[T],
        group_of: Callable[[T], str],
        on_change: OnChange[T],
        *,
        may_be_forbidden: bool = False,
    ) -> None:
        self._client = client
        self._path = path
        self._query = {"labelSelector": selector} if selector is not None else {}
        self._decoder: msgspec.json.Decoder[T] = msgspec.json.Decoder(kind)
        self._group_of = group_of
        self._on_change = on_change
        self._may_be_forbidden = may_be_forbidden
        self._objects: dict[str, T] = {}
        self._groups: dict[str, dict[str, T]] = {}
        self._version = ""
        self.synced = asyncio.Event()
        self.heard_at = asyncio.get_running_loop().time()

    def group(self, name: str) -> tuple[T, ...]:
        return tuple(self._groups.get(name, {}).values())

    def size_of(self, group: str) -> int:
        """How many objects a group has."""
        return len(self._groups.get(group, ()))

    def __len__(self) -> int:
        return len(self._objects)

    def all(self) -> tuple[T, ...]:
        return tuple(self._objects.values())

    def write_through(self, document: bytes) -> T:
        """Take in the answer to a write of our own, so that nobody decides on a view from before it."""
        new = self._decoder.decode(document)
        self._store_news(new)
        return new

    def forget(self, uid: str) -> None:
        """Take in that an object is gone."""
        self._remove(uid)

    async def refresh(self, path: str, label: tuple[str, str], group: str) -> None:
        """Take in how one group is now, without waiting for the watch.

        ``path``: a collection that holds the whole group; ``label``: the one that all of the group have, with its
        value. Raises KubeError, and MsgspecError for an answer without sense; what was read until then is taken in.
        """
        name, value = label
        seen, listed_at = await self._read(path, {"labelSelector": f"{name}={value}"}, self._store_news)
        held = self._groups.get(group, {}).items()
        # The list can't show an object that lost its label, though it exists.
        self._remove_missing({uid for uid, each in held if each.metadata.labels.get(name) == value} - seen, listed_at)

    async def run(self) -> None:
        """Follow the objects for ever. Errors, also answers without sense, are logged and tried again without end."""
        failures = 0
        while True:
            heard_at = self.heard_at
            try:
                if not self._version:
                    await self._list()
                await self._watch()
                failures = 0
                await asyncio.sleep(_backoff(failures))  # for a server that ends watches as soon as they begin
            except (KubeError, msgspec.MsgspecError) as error:
                spoke = self.heard_at > heard_at
                failures = 0 if spoke or (isinstance(error, ApiError) and error.code == 410) else failures + 1
                log.warning("watch of %s: %s", self._path, error)
                if self._may_be_forbidden and isinstance(error, ApiError) and error.code == 403:
                    self._take_in_that_nothing_may_be_seen()
                await asyncio.sleep(_backoff(failures))

    def _take_in_that_nothing_may_be_seen(self) -> None:
        """It is an answer as well: one namespace that shuts the operator out must not stop it for the others."""
        self.heard_at = asyncio.get_running_loop().time()
        self.synced.set()

    async def _list(self) -> None:
        seen, listed_at = await self._read(self._path, self._query, self._store)
        self._remove_missing(self._objects.keys() - seen, listed_at)
        self._version = listed_at
        self.heard_at = asyncio.get_running_loop().time()
        self.synced.set()

    async def _read(
        self, path: str, query: Mapping[str, str], take_in: Callable[[T], None]
    ) -> tuple[frozenset[str], str]:
        """Give all pages of a LIST to ``take_in``, object by object; return the UIDs seen and the list's version."""
        seen: set[str] = set()
        query = {**query, "limit": str(PAGE_SIZE)}
        while True:
            page = msgspec.json.decode(await self._client.request("GET", path, query=query), type=_List)
            for item in page.items:
                new = self._decoder.decode(item)
                seen.add(new.metadata.uid)
                take_in(new)
            if not page.metadata.continue_:
                return frozenset(seen), page.metadata.resource_version
            query = {**query, "continue": page.metadata.continue_}

    async def _watch(self) -> None:
        query = {
            **self._query,
            "resourceVersion": self._version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(WATCH_SECONDS),
        }
        try:
            async for line in self._client.watch(self._path, query):
                self._take_in(msgspec.json.decode(line, type=_Event))
                self.heard_at = asyncio.get_running_loop().time()
        except ApiError as error:
            if error.code == 410:
                self._version = ""
            raise

    def _take_in(self, event: _Event) -> None:
        if event.type == "ERROR":
            status = msgspec.json.decode(event.object, type=_Status)
            raise ApiError(status.code, status.reason, status.message)
        if event.type == "BOOKMARK":
            self._version = msgspec.json.decode(event.object, type=_Bookmark).metadata.resource_version
            return
        new = self._decoder.decode(event.object)
        self._version = new.metadata.resource_version
        if event.type == "DELETED":
            self._remove(new.metadata.uid)
        else:
            self._store(new)

    def _store_news(self, new: T) -> None:
        """Store what comes from beside the watch. What the watch went past is old: it may even be gone by now."""
        if _version(new) > _number(self._version):
            self._store(new)

    def _store(self, new: T) -> None:
        before = self._objects.get(new.metadata.uid)
        if before is not None and _version(before) >= _version(new):
            return
        if before is not None and self._group_of(before) != self._group_of(new):
            self._remove(new.metadata.uid)
            before = None
        self._objects[new.metadata.uid] = new
        self._groups.setdefault(self._group_of(new), {})[new.metadata.uid] = new
        self._on_change(before, new)

    def _remove_missing(self, uids: set[str], listed_at: str) -> None:
        """Take in that a list of this version does not show these objects."""
        for uid in uids:
            if _version(self._objects[uid]) <= _number(listed_at):  # else it was written after this view
                self._remove(uid)

    def _remove(self, uid: str) -> None:
        before = self._objects.pop(uid, None)
        if before is None:
            return
        group = self._group_of(before)
        self._groups[group].pop(uid, None)
        if not self._groups[group]:
            del self._groups[group]
        self._on_change(before, None)


def _version(child: Child) -> int:
    return _number(child.metadata.resource_version)


def _number(version: str) -> int:
    """Resource versions are numbers that grow (KEP-5504); one that is not sorts first."""
    return int(version) if version.isdigit() else 0


def _backoff(failures: int) -> float:
    longest = min(_LONGEST_BACKOFF, _SHORTEST_BACKOFF * 2.0 ** min(failures, 10))
    return random.uniform(0.5, 1.0) * longest  # noqa: S311 - spreads load, guards nothing
