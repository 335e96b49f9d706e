"""An agent's server in this process, and those who ask it, by plain sockets: what clients would not send, too."""

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from dtj_agent.answers import Answers
from dtj_agent.server import Server
from dtj_agent.state import Place, State

AGENT_TOKEN = "a1b2"  # noqa: S105 - of these tests
REPORT_TOKEN = "c3d4"  # noqa: S105
DEADLINE_S = 30.0


class StoppedError(Exception):
    """Ends the server's loop from within."""


class Serving:
    """A server at a port of the loopback address."""

    def __init__(self, state: State, agent_token: str, clock: Callable[[], float]) -> None:
        self.state = state
        listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.address: tuple[str, int] = listener.getsockname()
        self._server = Server(Answers(state, agent_token, REPORT_TOKEN), clock)
        self._server.listen(listener)
        self._stop, stop = socket.socketpair()
        self._server.watch(stop, self._end)
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _end(self) -> None:
        raise StoppedError

    def _run(self) -> None:
        try:
            self._server.run()
        except StoppedError:
            self._server.close()

    def stop(self) -> None:
        self._stop.send(b"x")
        self.thread.join(DEADLINE_S)
        self._stop.close()

    def connect(self) -> socket.socket:
        return socket.create_connection(self.address, DEADLINE_S)

    def send(self, data: bytes) -> tuple[int, bytes]:
        """Send ``data`` as it is; status and body of the answer, 0 when the connection was closed without one."""
        with self.connect() as connection:
            with suppress(OSError):  # it has closed: its answer may have come nevertheless
                connection.sendall(data)
            return answer(connection)

    def ask(
        self, path: str, token: str | None = AGENT_TOKEN, method: str = "GET", body: bytes = b""
    ) -> tuple[int, bytes]:
        return self.send(request(path, token, method, body))

    def progress(self) -> dict[str, Any]:
        status, body = self.ask("/v1/progress")
        assert status == 200
        return dict(json.loads(body))

    def post(self, path: str, token: str | None, message: object) -> int:
        return self.ask(path, token, "POST", json.dumps(message).encode())[0]


def request(path: str, token: str | None, method: str = "GET", body: bytes = b"") -> bytes:
    fields: Mapping[str, object] = {
        "Host": "agent",
        **({} if token is None else {"Authorization": f"Bearer {token}"}),
        **({"Content-Length": len(body)} if body else {}),
    }
    head = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items()), "", ""]
    return "\r\n".join(head).encode() + body


def answer(connection: socket.socket) -> tuple[int, bytes]:
    data = b""
    with suppress(ConnectionResetError):  # it did not read all that was sent
        while part := connection.recv(1 << 16):
            data += part
    head, _, body = data.partition(b"\r\n\r\n")
    return (int(head.split()[1]), body) if head else (0, b"")


@contextmanager
def serving(
    place: Place, agent_token: str = AGENT_TOKEN, clock: Callable[[], float] = time.monotonic
) -> Iterator[Serving]:
    running = Serving(State(place), agent_token, clock)
    try:
        yield running
    finally:
        running.stop()
