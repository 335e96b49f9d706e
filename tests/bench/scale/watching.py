"""When each pod of a namespace came to be, and when it ran, by a watch."""

import http.client
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress

import msgspec

CHUNK = 1 << 18


class _Metadata(msgspec.Struct):
    name: str
    uid: str
    resourceVersion: str  # noqa: N815 - as the API server calls it


class _Status(msgspec.Struct):
    phase: str = ""


class _Pod(msgspec.Struct):
    metadata: _Metadata
    status: _Status


class _Change(msgspec.Struct):
    type: str
    object: msgspec.Raw


class Pods:
    """Moments of a namespace's pods by UID, on the clock of `time.monotonic`; thread-safe."""

    def __init__(self, namespace: str, version: str) -> None:
        self.namespace = namespace
        self.version = version
        """The resourceVersion of the last change that was noted, or that the first one follows."""
        self._created: dict[str, float] = {}
        self._ran: dict[str, float] = {}
        self._names: dict[str, str] = {}
        self._ended = ""
        self._changed = threading.Condition()

    def note(self, line: bytes) -> None:
        """Take one line of a watch of pods."""
        now = time.monotonic()
        change = msgspec.json.decode(line, type=_Change)
        if change.type == "ERROR":
            self.end(line.decode()[:500])
            return
        pod = msgspec.json.decode(change.object, type=_Pod)
        self.version = pod.metadata.resourceVersion
        with self._changed:
            self._created.setdefault(pod.metadata.uid, now)
            self._names[pod.metadata.uid] = pod.metadata.name
            if pod.status.phase == "Running":
                self._ran.setdefault(pod.metadata.uid, now)
            self._changed.notify_all()

    @property
    def goes_on(self) -> bool:
        return not self._ended

    def end(self, why: str) -> None:
        """Nothing more will come."""
        with self._changed:
            self._ended = why
            self._changed.notify_all()

    def when_created(self, count: int, within: float) -> float:
        """The moment when the watch told of the last of so many pods.

        Raises TimeoutError after ``within`` seconds, RuntimeError where the watch has ended.
        """
        return self._moment(lambda: self._created, count, within, "created")

    def when_running(self, count: int, within: float) -> float:
        return self._moment(lambda: self._ran, count, within, "running")

    def created(self) -> dict[str, float]:
        """Moments of creation by the pods' names."""
        with self._changed:
            return {self._names[uid]: moment for uid, moment in self._created.items()}

    def _moment(self, moments: Callable[[], Mapping[str, float]], count: int, within: float, what: str) -> float:
        with self._changed:
            self._changed.wait_for(lambda: len(moments()) >= count or self._ended, within)
            if len(moments()) < count and self._ended:
                raise RuntimeError(f"the watch of the pods ended: {self._ended}")
            if len(moments()) < count:
                raise TimeoutError(f"{len(moments())} of {count} pods are {what} after {within:.0f} s")
            return sorted(moments().values())[count - 1]


@contextmanager
def watched(port: int, namespace: str, version: str) -> Iterator[Pods]:
    """The pods of a namespace after a resourceVersion, for the block; ``port``: of a proxy on this machine."""
    pods = Pods(namespace, version)
    follower = _Follower(port, pods)
    follower.start()
    try:
        yield pods
    finally:
        follower.stop()


class _Follower(threading.Thread):
    """Reads watches, one after the other: a server ends them when it likes, above all those that read slowly."""

    def __init__(self, port: int, pods: Pods) -> None:
        super().__init__(name="watch of the pods", daemon=True)
        self._port = port
        self._pods = pods
        self._stopping = False
        self._socket: socket.socket | None = None

    def run(self) -> None:
        try:
            while not self._stopping and self._pods.goes_on:
                self._follow()
        except (OSError, http.client.HTTPException, ValueError) as error:
            self._pods.end(repr(error))

    def stop(self) -> None:
        self._stopping = True
        if self._socket is not None:
            with suppress(OSError):  # it has ended already
                self._socket.shutdown(socket.SHUT_RDWR)
        self.join()

    def _follow(self) -> None:
        with closing(http.client.HTTPConnection("127.0.0.1", self._port)) as connection:
            connection.connect()
            self._socket = connection.sock
            if self._stopping:
                return
            query = f"watch=true&timeoutSeconds=7200&resourceVersion={self._pods.version}"
            connection.request("GET", f"/api/v1/namespaces/{self._pods.namespace}/pods?{query}")
            for line in _lines(connection.getresponse()):
                self._pods.note(line)


def _lines(response: http.client.HTTPResponse) -> Iterator[bytes]:
    """Whole lines of a body that comes in pieces, until it ends."""
    rest = b""
    while piece := response.read1(CHUNK):
        *whole, rest = (rest + piece).split(b"\n")
        yield from whole
