"""Tells node rank 0's agent how far the ranks of this pod are, every few seconds; nobody waits for it."""

from __future__ import annotations

import json
import os
import socket
import time

from dtj_agent import protocol
from dtj_agent.state import State

TIMEOUT_S = 2.0
JITTER = 0.2
"""Pods of a job start together; their heartbeats shall not come together."""

LONGEST_ANSWER_BYTES = 1024


class Messenger:
    """Sends what the state knows of this pod's ranks to the agent of node rank 0."""

    def __init__(self, state: State, host: str, port: int, token: str) -> None:
        self._state = state
        self._address = (host, port)
        self._token = token

    def run(self) -> None:
        while True:
            self.send()
            time.sleep(protocol.HEARTBEAT_S * (1 - JITTER + 2 * JITTER * os.urandom(1)[0] / 255))

    def send(self) -> bool:
        """Send once, when there is something to say; whether it arrived. After a loss, the next comes soon enough."""
        if not self._state.heartbeats():
            return False
        try:
            with socket.create_connection(self._address, TIMEOUT_S) as connection:
                # Written when the connection stands: its ages are right when they arrive.
                connection.sendall(self._request())
                return connection.recv(LONGEST_ANSWER_BYTES).startswith(b"HTTP/1.1 204 ")
        except OSError:
            return False

    def _request(self) -> bytes:
        place = self._state.place
        body = json.dumps(
            {"jobUid": place.job_uid, "attempt": place.attempt, "ranks": self._state.heartbeats()}
        ).encode()
        head = [
            f"POST {protocol.RANKS_PATH} HTTP/1.1",
            f"Host: {self._address[0]}",
            f"Authorization: Bearer {self._token}",
            f"Content-Length: {len(body)}",
            "Content-Type: application/json",
            "Connection: close",
        ]
        return "\r\n".join([*head, "", ""]).encode() + body
