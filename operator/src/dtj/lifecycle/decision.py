"""The value of ``decide``: what to write, in which order, and when to look again. Printable and comparable.

Order of execution, always: status first (its compare-and-swap is the commit point), then writes, then events.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any

from dtj.api.reasons import Reason
from dtj.api.status import JobStatus


@dataclass(frozen=True)
class CreateService:
    """Create the headless Service."""

    manifest: dict[str, Any]


@dataclass(frozen=True)
class CreateConfigMap:
    """Bring the agent to the job's namespace. ``may_be_gone``: also where it was brought not long ago."""

    manifest: dict[str, Any]
    may_be_gone: bool = False


@dataclass(frozen=True)
class CreateNetworkPolicy:
    """See to it that the job's NetworkPolicy is there."""

    manifest: dict[str, Any]


@dataclass(frozen=True)
class CreatePod:
    """Create one pod of the current attempt."""

    manifest: dict[str, Any]


@dataclass(frozen=True)
class DeletePod:
    """Delete exactly this pod, never a later one of the same name. ``grace_seconds`` None: the pod's own."""

    name: str
    uid: str
    grace_seconds: int | None = None


@dataclass(frozen=True)
class DeleteService:
    """Delete exactly this Service."""

    name: str
    uid: str


@dataclass(frozen=True)
class DeleteJob:
    """Delete the job itself, and only as it was seen: a change of its wishes since then must win."""

    name: str
    uid: str
    resource_version: str


Write = CreateConfigMap | CreateService | CreateNetworkPolicy | CreatePod | DeletePod | DeleteService | DeleteJob


class EventType(StrEnum):
    """Whether somebody should look."""

    NORMAL = "Normal"
    WARNING = "Warning"


@dataclass(frozen=True)
class Event:
    """What ``kubectl describe`` shows of a transition."""

    type: EventType
    reason: Reason
    message: str


@dataclass(frozen=True)
class Decision:
    """``status`` None: leave it as it is. ``requeue_after`` None: wait for the next change.

    ``rests_on_absence``: pods that are not there led to it, and what a cache does not show may exist after all.
    """

    status: JobStatus | None = None
    writes: tuple[Write, ...] = ()
    events: tuple[Event, ...] = ()
    requeue_after: timedelta | None = None
    rests_on_absence: bool = False

    @property
    def changes_job(self) -> bool:
        """Whether a write touches the job's own objects; the agent is its namespace's and harms nobody."""
        return any(not isinstance(write, CreateConfigMap) for write in self.writes)


NOTHING = Decision()


def render(decision: Decision) -> str:
    """One line per effect, in the order of execution."""
    return "\n".join(_lines(decision)) or "nothing to do"


def _lines(decision: Decision) -> Iterator[str]:
    if decision.status is not None:
        status = decision.status
        yield f"status: {status.phase} ({status.reason}), attempt {status.attempt}, ready {status.ready}"
    yield from (_line(write) for write in decision.writes)
    yield from (f"event: {event.type} {event.reason}: {event.message}" for event in decision.events)
    if decision.requeue_after is not None:
        yield f"look again after {decision.requeue_after.total_seconds():g} s"


def _line(write: Write) -> str:
    match write:
        case CreateConfigMap(manifest):
            return f"create config map {manifest['metadata']['name']}"
        case CreateService(manifest):
            return f"create service {manifest['metadata']['name']}"
        case CreateNetworkPolicy(manifest):
            return f"create network policy {manifest['metadata']['name']}"
        case CreatePod(manifest):
            return f"create pod {manifest['metadata']['name']}"
        case DeletePod(name, uid):
            return f"delete pod {name} (uid {uid})"
        case DeleteService(name, uid):
            return f"delete service {name} (uid {uid})"
        case DeleteJob(name, uid):
            return f"delete job {name} (uid {uid})"
