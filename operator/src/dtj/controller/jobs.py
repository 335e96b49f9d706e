"""The jobs as last seen: Kopf's watch and our own status writes put them here, the reconciler reads them."""

from collections.abc import Iterator, Mapping
from typing import Any

from dtj.controller.queue import Key

RawJob = Mapping[str, Any]


class JobStore:
    """Raw jobs by UID; the one with the highest resource version wins, in whatever order they arrive."""

    def __init__(self) -> None:
        self._jobs: dict[str, RawJob] = {}

    def put(self, raw: RawJob) -> Key:
        key = key_of(raw)
        before = self._jobs.get(key.uid)
        if before is None or _version(before) <= _version(raw):
            self._jobs[key.uid] = raw
        return key

    def drop(self, uid: str) -> None:
        self._jobs.pop(uid, None)

    def get(self, uid: str) -> RawJob | None:
        return self._jobs.get(uid)

    def version(self, uid: str) -> str | None:
        raw = self._jobs.get(uid)
        return raw["metadata"]["resourceVersion"] if raw is not None else None

    def all_raw(self) -> tuple[RawJob, ...]:
        return tuple(self._jobs.values())

    def all_keys(self) -> Iterator[Key]:
        return (key_of(raw) for raw in self.all_raw())

    def key(self, uid: str) -> Key | None:
        raw = self._jobs.get(uid)
        return key_of(raw) if raw is not None else None


def key_of(raw: RawJob) -> Key:
    metadata = raw["metadata"]
    return Key(metadata["namespace"], metadata["name"], metadata["uid"])


def _version(raw: RawJob) -> int:
    return int(raw["metadata"]["resourceVersion"])
