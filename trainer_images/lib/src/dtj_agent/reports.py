"""Reports from training code, and who may send them."""

from __future__ import annotations

import hmac
import json
import socket
from collections.abc import Mapping
from typing import Any

from dtj_agent import protocol, values
from dtj_agent.ranks import Heartbeat
from dtj_agent.state import News, State

AT_ONCE = 64
"""Datagrams taken before others get their turn."""


class Reports:
    """Reads what the socket holds into the state; what is no report, or does not know the token, is left out."""

    def __init__(self, descriptor: int, token: str, state: State) -> None:
        self.socket = socket.socket(fileno=descriptor)
        self._token = token.encode()
        self._state = state

    def receive(self) -> None:
        """Read what is there, never waiting; to be called again when there is more."""
        for _ in range(AT_ONCE):
            try:
                data = self.socket.recv(protocol.LONGEST_REPORT_BYTES + 1)
            except BlockingIOError:
                return
            self.take(data)

    def take(self, data: bytes) -> None:
        message = parsed(data) if len(data) <= protocol.LONGEST_REPORT_BYTES else None
        token = None if message is None else message.get("token")
        if message is None or not isinstance(token, str) or not hmac.compare_digest(_plain(token), self._token):
            return
        self._state.hear_rank(heartbeat(message, self._state.now()))
        # All processes of a training are at the same step: the first of the pod speaks for it.
        if message.get("local") == 0:
            self._state.hear(news(message))


def parsed(data: bytes) -> dict[str, Any] | None:
    """A JSON object; None for all else."""
    try:
        message = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return message if isinstance(message, dict) else None


def news(message: Mapping[str, Any]) -> News:
    return News(
        source=protocol.REPORT,
        step=message.get("step"),
        total_steps=message.get("totalSteps"),
        epoch=message.get("epoch"),
        total_epochs=message.get("totalEpochs"),
        samples=message.get("samples"),
        metrics=values.metrics(message.get("metrics")),
        age=values.amount(message.get("age")) or 0.0,
    )


def heartbeat(message: Mapping[str, Any], now: float) -> Heartbeat | None:
    """What a process says of itself; None for one that has no rank."""
    rank = values.count(message.get("rank"))
    if rank is None:
        return None
    return Heartbeat(
        rank=rank,
        heard_at=now,
        step=values.count(message.get("step")),
        local_seconds=values.amount(message.get("localSeconds")),
        phase=values.text(message.get("phase"), protocol.LONGEST_PHASE),
        final=message.get("final") is True,
    )


def _plain(token: str) -> bytes:
    return token.encode(errors="replace")
