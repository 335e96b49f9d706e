"""What the operator knows of a job and would do now, for who administers it. Off unless asked for.

Answered to nobody but the pod itself: whoever may run a command there may read it. Looking changes nothing, and what
is told has a bound. Of pods only names and nodes are told: their environment may hold what is nobody else's business.
"""

import re
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Final

import msgspec
import orjson
from aiohttp import web

from dtj.api.job import DistributedTrainingJob
from dtj.controller.health import serving
from dtj.controller.jobs import JobStore, key_of
from dtj.controller.memory import Memory
from dtj.controller.queue import Key, Standing, WorkQueue
from dtj.controller.reconcile import Preview, Reconciler
from dtj.lifecycle.decision import render
from dtj.lifecycle.observe import Bucket, Observed
from dtj.lifecycle.obstacles import Obstacle

PORT: Final = 8081
ADDRESS: Final = "127.0.0.1"
MAX_JOBS: Final = 1_000
MAX_LINES: Final = 50
"""Of each list: pods of one kind, lines of a decision, nodes."""
MAX_LINE: Final = 1_024

_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")

Json = dict[str, Any]


class DebugPages:
    """What ``/debug/`` and ``/debug/jobs/<namespace>/<name>`` tell."""

    def __init__(self, store: JobStore, queue: WorkQueue, reconciler: Reconciler, leads: Callable[[], bool]) -> None:
        self._store = store
        self._queue = queue
        self._reconciler = reconciler
        self._leads = leads

    def index(self) -> Json:
        """Which jobs there are."""
        keys = sorted(self._store.all_keys())
        urgent, normal = self._queue.depths
        return {
            "leading": self._leads(),
            "queue": {"urgent": urgent, "normal": normal, "inWork": len(self._queue.ages)},
            "jobs": len(keys),
            "names": [f"{key.namespace}/{key.name}" for key in keys[:MAX_JOBS]],
        }

    def job(self, namespace: str, name: str) -> Json | None:
        """All that is known of a job; None if there is none. Of two under one name it is the newer."""
        found = [raw for raw in self._store.all_raw() if key_of(raw)[:2] == (namespace, name)]
        if not found:
            return None
        key = key_of(max(found, key=lambda raw: int(raw["metadata"]["resourceVersion"])))
        told = {"leading": self._leads(), "queue": _queue(self._queue.standing(key))}
        preview = self._reconciler.preview(key, datetime.now(UTC))
        return {**_identity(key), **told, **(_in_full(preview) if isinstance(preview, Preview) else {"error": preview})}


@asynccontextmanager
async def debug_server(port: int, pages: DebugPages) -> AsyncIterator[None]:
    """Answer in JSON, to this machine only. Raises OSError where the port is taken."""

    async def index(request: web.Request) -> web.StreamResponse:
        del request
        return _answer(200, pages.index())

    async def job(request: web.Request) -> web.StreamResponse:
        namespace, name = request.match_info["namespace"], request.match_info["name"]
        if not (_NAME.fullmatch(namespace) and _NAME.fullmatch(name)):
            return _answer(400, {"error": "ask for /debug/jobs/<namespace>/<name>, both as Kubernetes writes them"})
        found = pages.job(namespace, name)
        return (
            _answer(404, {"error": f"no job {namespace}/{name} is known here"})
            if found is None
            else _answer(200, found)
        )

    application = web.Application()
    application.router.add_get("/debug/", index)
    application.router.add_get("/debug/jobs/{namespace}/{name}", job)
    async with serving(application, port, ADDRESS):
        yield


def _answer(status: int, content: Json) -> web.Response:
    body = orjson.dumps(content, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
    return web.Response(status=status, body=body, content_type="application/json")


def _identity(key: Key) -> Json:
    return {"namespace": key.namespace, "name": key.name, "uid": key.uid}


def _queue(standing: Standing) -> Json:
    """``dueInSeconds``: until the next look that needs no event; null where only an event leads to one."""
    return {
        "waiting": standing.waiting,
        "inWork": standing.in_work,
        "failures": standing.failures,
        "dueInSeconds": None if standing.due_in is None else round(standing.due_in, 3),
    }


def _in_full(preview: Preview) -> Json:
    return {
        "resourceVersion": preview.job.metadata.resource_version,
        "generation": preview.job.metadata.generation,
        "status": _status(preview.job),
        "pods": {str(bucket): _pods(preview.observed, bucket) for bucket in Bucket if preview.observed.pods[bucket]},
        "service": preview.observed.service.metadata.name if preview.observed.service else None,
        "lostNodes": _some(preview.observed.lost_nodes),
        "training": _training(preview.observed),
        "memory": _memory(preview.memory, preview.observed.obstacle, preview.at),
        "decision": _some(render(preview.decision).split("\n")),
    }


def _status(job: DistributedTrainingJob) -> Json:
    told = ("phase", "reason", "attempt", "attemptTime", "backoffSeconds", "restarts", "restartsSinceProgress")
    status = job.status.to_wire()
    return {
        name: status[name] for name in (*told, "disruptions", "startTime", "runningTime", "ready") if name in status
    }


def _pods(observed: Observed, bucket: Bucket) -> Json:
    pods = observed.pods[bucket]
    lines = (f"{pod.name} on {pod.spec.node_name}" if pod.spec.node_name else pod.name for pod in pods)
    return {"count": len(pods), "names": _some(lines)}


def _training(observed: Observed) -> Json:
    """The agent's last report. Its own numbers may be anything, but they are few and bounded."""
    sighting = observed.training
    return {
        "trouble": observed.training_trouble[:MAX_LINE],
        "heard": None if sighting is None else sighting.time.isoformat(timespec="seconds"),
        "report": None if sighting is None else msgspec.to_builtins(sighting.report),
    }


def _memory(memory: Memory, obstacle: Obstacle | None, at: float) -> Json:
    """``committed``: the attempt that this process began; what it has not begun it makes sure of first."""
    return {
        "committedAttempt": memory.committed,
        "distrusted": memory.distrusted,
        "statusWrittenSecondsAgo": None if memory.written_at is None else round(at - memory.written_at, 3),
        "complaint": memory.complaint[:MAX_LINE],
        "obstacle": None
        if obstacle is None
        else {
            "reason": obstacle.reason,
            "message": obstacle.message[:MAX_LINE],
            "untilSpecChanges": obstacle.until_spec_changes,
            "lasts": obstacle.lasts,
        },
    }


def _some(lines: Iterable[str]) -> list[str]:
    return [line[:MAX_LINE] for line in islice(lines, MAX_LINES)]
