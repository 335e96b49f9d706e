"""`make test` scans where the package index tells of vulnerabilities, and says aloud where it does not."""

import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
LEFT_OUT = "== scan: left out: this package index does not tell of vulnerabilities"
ANSWERS = {
    "it tells": (200, 0, "scanned scan"),
    "it does not tell": (404, 0, LEFT_OUT),
    "it refuses": (403, 0, "== scan: NOT DONE: the package index answers 403"),
    "it is out of order": (503, 0, "== scan: NOT DONE: the package index answers 503"),
}


@contextmanager
def an_index(code: int) -> Iterator[str]:
    """The address of a package index that answers in this way."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(code)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()


def make(index: str, *options: str) -> subprocess.CompletedProcess[str]:
    """What `make` says and does; the scan itself is replaced by a word."""
    command = ["make", "--no-print-directory", "scan-where-told", f"TELLS={index}", "MAKE=echo scanned", *options]
    environment = {**os.environ, "no_proxy": "127.0.0.1"}
    return subprocess.run(
        command, cwd=REPOSITORY, env=environment, text=True, capture_output=True, timeout=60, check=False
    )


@pytest.mark.parametrize(("answer", "code", "words"), ANSWERS.values(), ids=ANSWERS.keys())
def test_what_the_index_answers(answer: int, code: int, words: str) -> None:
    with an_index(answer) as index:
        done = make(index)
    assert (done.returncode, words in done.stdout + done.stderr) == (code, True), done


def test_an_index_that_does_not_answer() -> None:
    with an_index(200) as index:
        pass
    done = make(index)
    assert done.returncode == 0
    assert "== scan: NOT DONE: the package index answers nothing" in done.stderr
    assert "Traceback" not in done.stderr


def test_who_requires_the_scan_does_not_go_on_without_an_answer() -> None:
    with an_index(503) as index:
        done = make(index, "SCAN=required")
    assert done.returncode == 2
    assert "== scan: NOT DONE" in done.stderr
