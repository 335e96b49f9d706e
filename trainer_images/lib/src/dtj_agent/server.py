"""A small HTTP/1.1 server: one thread for all connections, and for the reports of the training besides.

Written by hand because the standard library's takes 8 MB more and a thread or a wait per connection. It knows what the
operator, other agents, Prometheus and Hugging Face's callback send: one request per connection, with Content-Length.
"""

from __future__ import annotations

import re
import selectors
import socket
import time
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from dtj_agent.protocol import LONGEST_BODY_BYTES, LONGEST_HEAD_BYTES

TIMEOUT_S = 2.0
"""The longest that a request may take to come, and an answer to go."""

MOST_CONNECTIONS = 32
"""With more, the oldest is given up: those who only hold one keep nobody out."""

BACKLOG = 128
CHUNK_BYTES = 16 * 1024
PAUSE_S = 0.1
"""When no connection can be accepted, for want of file descriptors."""

REASONS = {
    200: "OK",
    204: "No Content",
    400: "Bad Request",
    401: "Unauthorized",
    404: "Not Found",
    405: "Method Not Allowed",
    409: "Conflict",
    411: "Length Required",
    413: "Content Too Large",
    431: "Request Header Fields Too Large",
}


class Request(NamedTuple):
    """``token``: what stood behind ``Authorization: Bearer``; empty without it."""

    method: str
    path: str
    token: str
    body: bytes


class Answer(NamedTuple):
    """``status`` is one of ``REASONS``."""

    status: int
    body: bytes = b""
    content_type: str = "text/plain; charset=utf-8"

    def encoded(self) -> bytes:
        head = (
            f"HTTP/1.1 {self.status} {REASONS[self.status]}\r\nContent-Type: {self.content_type}\r\n"
            f"Content-Length: {len(self.body)}\r\nConnection: close\r\n\r\n"
        )
        return head.encode() + self.body


Answering = Callable[[Request], Answer]


def parse(data: bytes) -> Request | Answer | None:
    """The request that ``data`` holds; None while it is not complete; an answer when it is none that can be served."""
    head, end, rest = data.partition(b"\r\n\r\n")
    if len(head) > LONGEST_HEAD_BYTES:
        return Answer(431)
    if not end:
        return None
    line, *fields = head.decode("latin-1").split("\r\n")
    words = re.fullmatch(r"([A-Z]{1,16}) (/[!-~]*) HTTP/1\.[01]", line)
    headers = {name.strip().lower(): value.strip() for name, _, value in (field.partition(":") for field in fields)}
    if words is None:
        return Answer(400)
    if "transfer-encoding" in headers:
        return Answer(411)
    length = headers.get("content-length", "0")
    if re.fullmatch(r"[0-9]{1,18}", length) is None:
        return Answer(400)
    if int(length) > LONGEST_BODY_BYTES:
        return Answer(413)
    if len(rest) < int(length):
        return None
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return Request(
        method=words[1],
        path=words[2].partition("?")[0],
        token=token.strip() if scheme.lower() == "bearer" else "",
        body=rest[: int(length)],
    )


class Connection:
    """One request on its way in, or its answer on the way out."""

    def __init__(self, opened: socket.socket, answering: Answering, now: float) -> None:
        self.socket = opened
        self.deadline = now + TIMEOUT_S
        self.writes = False
        self._answering = answering
        self._read = b""
        self._left = b""

    def go_on(self, now: float) -> bool:
        """Read or write what is possible without waiting; whether it is over. Raises OSError when it broke."""
        if not self.writes:
            data = self.socket.recv(CHUNK_BYTES)
            if not data:
                return True
            self._read += data
            request = parse(self._read)
            if request is None:
                return False
            answer = self._answering(request) if isinstance(request, Request) else request
            self._left = answer.encoded()
            self.writes, self.deadline = True, now + TIMEOUT_S
        self._left = self._left[self.socket.send(self._left) :]
        return not self._left


class Server:
    """Serves until its process ends, or a bug ends it."""

    def __init__(self, answering: Answering, clock: Callable[[], float] = time.monotonic) -> None:
        self._answering = answering
        self._clock = clock
        self._selector = selectors.DefaultSelector()
        self._connections: deque[Connection] = deque()
        """Oldest first."""

    def listen(self, listener: socket.socket) -> None:
        """Serve those who connect to ``listener``, which is bound and listens."""
        listener.setblocking(False)
        self._selector.register(listener, selectors.EVENT_READ, lambda: self._accept(listener))

    def watch(self, source: socket.socket, read: Callable[[], None]) -> None:
        """Call ``read``, which must not wait, whenever there is something to read."""
        self._selector.register(source, selectors.EVENT_READ, read)

    def run(self) -> None:
        while True:
            self.turn()

    def turn(self) -> None:
        """Wait until something can be done, and do it."""
        nearest = min((connection.deadline for connection in self._connections), default=None)
        for key, _ in self._selector.select(None if nearest is None else max(0.0, nearest - self._clock())):
            if isinstance(key.data, Connection):
                self._go_on(key.data)
            else:
                key.data()
        now = self._clock()
        for connection in [late for late in self._connections if late.deadline <= now]:
            self._close(connection)

    def close(self) -> None:
        for key in list(self._selector.get_map().values()):
            self._selector.unregister(key.fileobj)
            key.fileobj.close()  # type: ignore[union-attr]
        self._selector.close()

    def _accept(self, listener: socket.socket) -> None:
        try:
            opened, _ = listener.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return
        except OSError:
            time.sleep(PAUSE_S)
            return
        if len(self._connections) >= MOST_CONNECTIONS:
            self._close(self._connections[0])
        opened.setblocking(False)
        connection = Connection(opened, self._answering, self._clock())
        self._connections.append(connection)
        self._selector.register(opened, selectors.EVENT_READ, connection)

    def _go_on(self, connection: Connection) -> None:
        if connection not in self._connections:
            return  # given up for another in the same turn
        wrote = connection.writes
        try:
            over = connection.go_on(self._clock())
        except BlockingIOError:
            over = False
        except OSError:  # whoever asked has gone
            over = True
        if over:
            self._close(connection)
        elif connection.writes and not wrote:
            self._selector.modify(connection.socket, selectors.EVENT_WRITE, connection)

    def _close(self, connection: Connection) -> None:
        self._connections.remove(connection)
        self._selector.unregister(connection.socket)
        connection.socket.close()


def open_listener(port: int) -> socket.socket:
    """Listen on all addresses of the pod, of both families where it has both. Raises OSError."""
    if socket.has_dualstack_ipv6():
        try:
            return socket.create_server(("", port), family=socket.AF_INET6, backlog=BACKLOG, dualstack_ipv6=True)
        except OSError as error:
            ipv6_error = error
            try:
                return socket.create_server(("", port), backlog=BACKLOG)
            except OSError:
                raise ipv6_error from None
    return socket.create_server(("", port), backlog=BACKLOG)
