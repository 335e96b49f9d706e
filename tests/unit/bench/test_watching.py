"""Moments of pods from the lines of a watch."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import pytest

from tests.bench.scale.watching import Pods, watched


def a_line(name: str, phase: str = "Pending", *, change: str = "ADDED", uid: str = "") -> bytes:
    pod = {
        "metadata": {"name": name, "uid": uid or f"uid-of-{name}", "resourceVersion": "7"},
        "status": {"phase": phase},
    }
    return json.dumps({"type": change, "object": pod}).encode()


def test_the_last_of_so_many_pods_counts() -> None:
    pods = Pods("bench", "1")
    for name in ("a", "b", "c"):
        pods.note(a_line(name))

    moments = pods.created()

    assert list(moments) == ["a", "b", "c"]
    assert pods.when_created(2, within=0) == moments["b"]


def test_a_pod_is_created_once_and_runs_later() -> None:
    pods = Pods("bench", "1")
    pods.note(a_line("a"))
    created = pods.when_created(1, within=0)
    pods.note(a_line("a", "Running", change="MODIFIED"))
    pods.note(a_line("a", "Running", change="DELETED"))

    assert pods.when_created(1, within=0) == created
    assert pods.when_running(1, within=0) > created
    with pytest.raises(TimeoutError, match="1 of 2 pods are running after 0 s"):
        pods.when_running(2, within=0)


def test_a_pod_of_the_same_name_is_another_one() -> None:
    pods = Pods("bench", "1")
    pods.note(a_line("a", uid="1"))
    pods.note(a_line("a", uid="2"))

    assert pods.when_created(2, within=0) >= pods.when_created(1, within=0)


def test_a_watch_that_breaks_ends_the_wait() -> None:
    pods = Pods("bench", "1")
    pods.note(b'{"type":"ERROR","object":{"code":410,"message":"too old resource version"}}')

    with pytest.raises(RuntimeError, match="too old resource version"):
        pods.when_created(1, within=60)


class Scripted(BaseHTTPRequestHandler):
    """Answers each watch with one more line of ``script``, and ends it."""

    protocol_version = "HTTP/1.1"
    script: ClassVar[list[bytes]] = []
    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.asked.append(self.path)
        content = self.script.pop(0) + b"\n" if self.script else b""
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


def test_a_watch_that_the_server_ends_is_begun_again_where_it_was() -> None:
    Scripted.script, Scripted.asked = [a_line("a"), a_line("b")], []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Scripted)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        with watched(server.server_port, "bench", "1") as pods:
            pods.when_created(2, within=10)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()

    assert [path.rpartition("=")[2] for path in Scripted.asked[:2]] == ["1", "7"]
