"""The watch of the job resource: Kopf, in a thread and an event loop of its own, under a supervisor.

Kopf ends on some errors that only mean "look again" (a 401 after a token was renewed, a 410 in the middle of a list),
and when it ends it cancels every task of its loop. So it gets a loop in which nothing else runs, and is started again.

Only ``on.event`` is used of it: that adds no finalizer, no annotation and no write to a user's objects.
"""

import asyncio
import contextlib
import functools
import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import aiohttp
import kopf
import uvloop
from kopf._core.engines.peering import Identity

from dtj.api import names
from dtj.kube.client import CONNECT_TIMEOUT, REQUEST_TIMEOUT
from dtj.kube.connection import Connection
from dtj.kube.reflector import PAGE_SIZE, WATCH_SECONDS

log = logging.getLogger(__name__)

OnJob = Callable[[str | None, Mapping[str, Any]], None]
"""Called with (kind of event, raw job); kind None: an object of the first listing."""

IDENTITY: Final = Identity("dtj-operator")
RELOGIN_DELAY: Final = 1.0
STOP_TIMEOUT: Final = 8.0
BEAT_INTERVAL: Final = 5.0
_BACKOFFS: Final = (0.5, 1, 2, 4, 8, 15)


class Backoffs:
    """Seconds to wait, without an end: an API server that is away for an hour must not end the operator."""

    def __iter__(self) -> Iterator[float]:
        yield from _BACKOFFS
        while True:
            yield _BACKOFFS[-1]


class _NothingCompared(kopf.MultiDiffBaseStorage):
    """Only ``on.event`` is used, which compares nothing: a copy of each job to compare with would be for nobody."""

    def build(self, *, body: kopf.Body, extra_fields: Iterable[kopf.FieldSpec] | None = None) -> kopf.BodyEssence:
        del body, extra_fields
        return kopf.BodyEssence()


class JobWatch:
    """Tells ``on_job`` every event, in the event loop that created this object. ``on_restart``: some may be missing.

    ``on_beat``: every few seconds while the thread does its work. ``namespaces`` empty: all.
    """

    def __init__(
        self,
        connection: Connection,
        on_job: OnJob,
        on_restart: Callable[[], None],
        on_beat: Callable[[], None],
        namespaces: Sequence[str] = (),
    ) -> None:
        self._connection = connection
        self._on_job = on_job
        self._on_restart = on_restart
        self._on_beat = on_beat
        self._namespaces = namespaces
        self._loop = asyncio.get_running_loop()
        self._stopping = threading.Event()
        self._end_kopf: Callable[[], object] = lambda: None
        self._thread = threading.Thread(target=self._run, name="job watch", daemon=True)

    def start(self) -> None:
        self._thread.start()

    async def stop(self) -> None:
        """Return when the thread has ended, at the latest after some seconds."""
        self._stopping.set()
        with contextlib.suppress(RuntimeError):  # its loop has just been closed
            self._end_kopf()
        await asyncio.to_thread(self._thread.join, STOP_TIMEOUT)

    def _run(self) -> None:
        for backoff in Backoffs():
            try:
                with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                    runner.run(self._watch())
            except Exception as error:  # noqa: BLE001 - whatever ended Kopf, watching again is the answer
                log.warning("watch of the jobs ended: %s: %s", type(error).__name__, error)
            if self._stopping.wait(backoff):
                return
            self._loop.call_soon_threadsafe(self._on_restart)

    async def _watch(self) -> None:
        # Not the threading.Event: Kopf waits for one in a thread of the executor, which then never ends.
        stop = asyncio.Event()
        self._end_kopf = functools.partial(asyncio.get_running_loop().call_soon_threadsafe, stop.set)
        if self._stopping.is_set():
            return
        beating = asyncio.create_task(self._beat_for_ever(), name="heartbeat of the job watch")
        try:
            await kopf.operator(
                registry=self._registry(),
                settings=_settings(),
                clusterwide=not self._namespaces,
                namespaces=self._namespaces,
                standalone=True,
                # Without one Kopf asks for the name of the user, and an image may well know none for its number.
                identity=IDENTITY,
                stop_flag=stop,
            )
        finally:
            beating.cancel()

    async def _beat_for_ever(self) -> None:
        while True:
            self._loop.call_soon_threadsafe(self._on_beat)
            await asyncio.sleep(BEAT_INTERVAL)

    def _registry(self) -> kopf.OperatorRegistry:
        registry = kopf.OperatorRegistry()
        logins = iter([0.0])

        @kopf.on.login(registry=registry)
        async def login(**_: Any) -> kopf.AiohttpSession:  # noqa: ANN401 - Kopf's protocol
            # The server refused the last one: a lasting refusal must not become a hot loop.
            await asyncio.sleep(next(logins, RELOGIN_DELAY))
            return await self._session()

        @kopf.on.event(names.GROUP, names.VERSION, names.PLURAL, registry=registry)
        async def job_changed(event: kopf.RawEvent, **_: Any) -> None:  # noqa: ANN401
            if not self._stopping.is_set():
                self._loop.call_soon_threadsafe(self._on_job, event["type"], event["object"])

        return registry

    async def _session(self) -> kopf.AiohttpSession:
        """The same way to the API server that everything else takes."""
        authorization = await self._connection.authorization()
        return kopf.AiohttpSession(
            server=self._connection.server,
            aiohttp_session=aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(ssl=self._connection.tls or True, limit=0),
                headers={"Authorization": authorization} if authorization else {},
            ),
        )


def _settings() -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.peering.standalone = True
    settings.scanning.disabled = True
    settings.persistence.progress_storage = kopf.MultiProgressStorage([])
    settings.persistence.diffbase_storage = _NothingCompared([])
    settings.networking.error_backoffs = Backoffs()
    settings.networking.connect_timeout = CONNECT_TIMEOUT
    settings.networking.request_timeout = REQUEST_TIMEOUT
    settings.watching.connect_timeout = CONNECT_TIMEOUT
    settings.watching.server_timeout = WATCH_SECONDS
    settings.watching.client_timeout = WATCH_SECONDS + REQUEST_TIMEOUT  # for a server that forgets its own
    settings.watching.chunk_size = PAGE_SIZE
    return settings
