"""``dtj operator debug``: what the operator answers, or a sentence; it asks nobody but its own machine."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from click.testing import CliRunner, Result

from dtj.cli.main import main

ANSWERS = {"/debug/": (200, '{"jobs": 1}\n'), "/debug/jobs/team-a/digits": (200, '{"name": "digits"}\n')}
UNKNOWN = (404, '{"error": "no job is known here"}\n')


@contextmanager
def an_operator() -> Iterator[int]:
    """Its port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            code, text = ANSWERS.get(self.path, UNKNOWN)
            self.send_response(code)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


def ask(port: int, *job: str) -> Result:
    return CliRunner().invoke(main, ["operator", "debug", f"--debug-port={port}", *job])


QUESTIONS = {
    "all jobs": ([], 0, '{"jobs": 1}\n'),
    "a job": (["team-a/digits"], 0, '{"name": "digits"}\n'),
    "a job that is not there": (["team-a/letters"], 1, 'Error: {"error": "no job is known here"}\n'),
    "a job that is another page": (["team-a/../x"], 1, 'Error: {"error": "no job is known here"}\n'),
}


@pytest.mark.parametrize(("job", "code", "output"), QUESTIONS.values(), ids=QUESTIONS.keys())
def test_what_the_operator_answers_is_printed(job: list[str], code: int, output: str) -> None:
    with an_operator() as port:
        result = ask(port, *job)
    assert (result.exit_code, result.output) == (code, output)


@pytest.mark.parametrize("job", ["digits", "/digits", "team-a/"])
def test_a_job_needs_its_namespace(job: str) -> None:
    result = ask(1, job)
    assert (result.exit_code, f"{job}: say NAMESPACE/NAME" in result.output) == (2, True)


def test_where_nobody_answers_it_says_what_to_do() -> None:
    with an_operator() as port:
        """Nobody listens there afterwards."""
    result = ask(port)
    assert result.exit_code == 1
    assert f"nothing answers at 127.0.0.1:{port}" in result.output
    assert "--debug-endpoint" in result.output
