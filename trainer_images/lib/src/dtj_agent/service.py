"""Serves what is known of the training, in threads beside it, and hears what its processes and other agents say."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Mapping

from dtj_agent import protocol
from dtj_agent.answers import Answers
from dtj_agent.endpoints import Endpoints
from dtj_agent.heartbeats import Messenger
from dtj_agent.messages import say
from dtj_agent.reports import Reports
from dtj_agent.server import Server, open_listener
from dtj_agent.state import State


class Service:
    """The server, the reports it reads besides, and the heartbeats to node rank 0."""

    def __init__(self, state: State, endpoints: Endpoints, environ: Mapping[str, str]) -> None:
        self._state = state
        self._environ = environ
        self._token = environ.get(protocol.TOKEN, "")
        self._port = int(environ[protocol.PORT])
        self._server = Server(Answers(state, self._token, endpoints.token))
        self._reports = None if endpoints.reports is None else Reports(endpoints.reports, endpoints.token, state)
        if self._reports is not None:
            self._server.watch(self._reports.socket, self._reports.receive)
        if endpoints.hugging_face is not None:
            self._server.listen(socket.socket(fileno=endpoints.hugging_face))
        self._listen()

    def start(self) -> None:
        host, node_rank = self._environ.get(protocol.RANK_ZERO_HOST), self._state.place.node_rank
        _start(self._server.run, "how far training is cannot be told any more")
        if host and node_rank:
            messenger = Messenger(self._state, host, self._port, self._token)
            _start(messenger.run, "node rank 0 is not told of this node's ranks any more")

    def hear_the_rest(self) -> None:
        """Take the reports that processes left as they ended."""
        if self._reports is not None:
            self._reports.receive()

    def _listen(self) -> None:
        try:
            self._server.listen(open_listener(self._port))
        except OSError as error:
            say(f"how far training is cannot be told: port {self._port} cannot be listened on: {_reason(error)}")


def _reason(error: OSError) -> str:
    # Not its own text, to which socket.create_server() adds what the message says already.
    return os.strerror(error.errno) if error.errno is not None else str(error)


def _start(run: Callable[[], None], consequence: str) -> None:
    def guarded() -> None:
        try:
            run()
        except Exception as error:  # noqa: BLE001 - the training goes on whatever it is
            say(f"{consequence}. Please report this: {error!r}")

    threading.Thread(target=guarded, daemon=True).start()
