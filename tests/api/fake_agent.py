"""Agents of the tests: each at a loopback address of its own, saying only what a test tells them."""

import json
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from dtj.api import ports
from dtj.plan.agent_access import agent_token
from tests.api.client import Object


class FakeAgent:
    """``answer`` gives the bytes of the next answer. ``asked``: with which tokens it was asked."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.answer: Callable[[], bytes] = lambda: b""
        self.token = ""
        self.asked: list[str] = []

    def reports(self, job: Object, attempt: int = 0, **fields: Any) -> None:  # noqa: ANN401 - JSON
        """From now on it is the agent of rank 0 of this attempt."""
        uid = job["metadata"]["uid"]
        report = {"jobUid": uid, "attempt": attempt, "source": "report", "reportAge": 0.1, **fields}
        self.token = agent_token(uid, attempt)
        self.answer = lambda: json.dumps(report).encode()


@contextmanager
def fake_agent() -> Iterator[FakeAgent]:
    """An agent for the block."""
    agent = FakeAgent(f"127.{random.randint(1, 250)}.{random.randint(0, 250)}.{random.randint(1, 250)}")  # noqa: S311

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            token = self.headers.get("Authorization", "").removeprefix("Bearer ")
            agent.asked.append(token)
            known = token == agent.token and self.path == "/v1/progress"
            content = agent.answer() if known else b"{}"
            self.send_response(200 if known else 401)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
            """Say nothing."""

    with ThreadingHTTPServer((agent.address, ports.AGENT), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield agent
        finally:
            server.shutdown()
            thread.join()
