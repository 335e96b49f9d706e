"""``dtj operator run``: how it ends is told in its log, in the log's own form, and by the exit code."""

import json
import logging
import re
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from dtj.cli.main import main
from dtj.cli.operator import exit_code_of
from dtj.kube.errors import ConfigurationError, LeaseLostError

KUBECONFIG = """\
apiVersion: v1
kind: Config
current-context: a
clusters: [{name: a, cluster: {server: "http://127.0.0.1:9"}}]
users: [{name: a, user: {}}]
contexts: [{name: a, context: {cluster: a, user: a}}]
"""


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    loggers = [logging.getLogger(name) for name in ("", "dtj", "kopf", "asyncio")]
    before = [(each, each.handlers[:], each.level) for each in loggers]
    yield
    for logger, handlers, level in before:
        logger.handlers[:] = handlers
        logger.setLevel(level)


def ending(error: Exception | None) -> Callable[[], None]:
    def work() -> None:
        if error is not None:
            raise error

    return work


@pytest.mark.parametrize(
    ("error", "code", "told"),
    [
        (None, 0, []),
        (ConfigurationError("no kubeconfig"), 1, [("no kubeconfig", False)]),
        (LeaseLostError("the lease dtj is gone"), 1, [("the lease dtj is gone", False)]),
        (ZeroDivisionError("division by zero"), 1, [("the operator ends by a fault of its own", True)]),
    ],
    ids=["told to end", "no way to run", "another leads", "a fault"],
)
def test_only_a_fault_has_a_traceback(
    caplog: pytest.LogCaptureFixture, error: Exception | None, code: int, told: list[tuple[str, bool]]
) -> None:
    assert exit_code_of(ending(error)) == code
    assert {each.levelname for each in caplog.records} <= {"CRITICAL"}
    assert [(each.getMessage(), each.exc_info is not None) for each in caplog.records] == told


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.create_server(("", 0)) as server:
        yield server.getsockname()[1]


def lines_of(tmp_path: Path, port: int, form: str) -> list[str]:
    """What the operator says before it ends with code 1."""
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(KUBECONFIG, encoding="utf-8")
    options = [f"--kubeconfig={kubeconfig}", f"--health-port={port}", f"--log-format={form}"]
    ended = CliRunner(env={"KUBECONFIG": ""}).invoke(main, ["operator", "run", *options])
    assert ended.exit_code == 1, ended.output
    return ended.output.splitlines()


def test_the_end_of_a_log_in_json_is_json(tmp_path: Path, taken_port: int) -> None:
    *_, last = [json.loads(line) for line in lines_of(tmp_path, taken_port, "json")]
    assert (last["level"], "exception" in last) == ("CRITICAL", False)
    assert last["message"].startswith(f"--health-port {taken_port}: ")


def test_the_end_of_a_log_for_people_is_a_line_of_it(tmp_path: Path, taken_port: int) -> None:
    last = lines_of(tmp_path, taken_port, "text")[-1]
    assert re.fullmatch(rf"\S+Z CRITICAL dtj\.cli\.operator: --health-port {taken_port}: .*; choose another port", last)
