"""A whole agent tells how far training is, and nothing about that disturbs the training."""

import json
import os
import signal
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.unit.agent.agent_process import (
    Agent,
    children,
    close_input,
    has_ended,
    kill,
    started,
    state,
    wait_until,
)
from tests.unit.agent.asking import TOKEN, told


def words(job: Mapping[str, str]) -> dict[str, Any] | None:
    """The termination message."""
    text = Path(job["DTJ_TERMINATION_LOG"]).read_text()
    return dict(json.loads(text)) if text else None


REPORTS = """
import sys
import dtj_trainer
dtj_trainer.report(step=3, total_steps=9, metrics={"loss": 0.5})
sys.stdin.read()
"""
"""Reports once, and ends with its input."""

BAR = "echo; printf ' 45%%|####5     | 450/1000 [00:12<00:15, 36.1it/s]\\r' >&2; read -r _"


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        pytest.param(
            [sys.executable, "-c", REPORTS],
            {"source": "report", "step": 3, "totalSteps": 9, "firstStep": 3, "metrics": {"loss": 0.5}},
            id="reports",
        ),
        pytest.param(
            ["sh", "-c", f"{BAR}; exit 0"],
            {"source": "tqdm", "step": 450, "totalSteps": 1000, "firstStep": 450},
            id="prints",
        ),
    ],
)
def test_what_training_says_is_told_and_left_as_last_words(
    agent: Agent, job: dict[str, str], command: list[str], expected: dict[str, Any]
) -> None:
    with agent.started(*command, env=job) as running:
        answer = told(job, lambda answer: "step" in answer)
        frame = {"jobUid": "0b1c", "attempt": 2, "nodeRank": 0, "running": True}
        assert {name: answer[name] for name in (*frame, *expected)} == {**frame, **expected}
        close_input(running)
        assert running.end() == 0
    assert words(job) == {"dtj": 1, "exitCode": 0, "progress": expected}


def test_the_users_pattern_counts(agent: Agent, job: dict[str, str]) -> None:
    pattern = r"at (?P<step>\d+) of (?P<total_steps>\d+), error (?P<error>[\d.]+)"
    script = "echo 'at 7 of 20, error 0.25'; read -r _; exit 3"
    with agent.started("sh", "-c", script, env={**job, "DTJ_LOG_PATTERN": pattern}) as running:
        answer = told(job, lambda answer: "step" in answer)
        assert [answer[name] for name in ("source", "step", "totalSteps")] == ["pattern", 7, 20]
        assert answer["metrics"] == {"error": 0.25}
        close_input(running)
        assert running.end() == 3


def test_an_end_that_was_asked_for_leaves_last_words_too(agent: Agent, job: dict[str, str]) -> None:
    with agent.started(sys.executable, "-c", REPORTS, env=job) as running:
        told(job, lambda answer: "step" in answer)
        os.kill(running.pid, signal.SIGTERM)
        assert running.end() == 143
    said = words(job) or {}
    assert [said["exitCode"], said["signal"], said["progress"]["step"]] == [143, 15, 3]


RAISES = "print('epoch over', flush=True); raise ValueError('no such layer: dense_9')"


def test_a_failure_leaves_its_last_words(agent: Agent, job: dict[str, str]) -> None:
    script = 'if [ "$DTJ_LOCAL_RANK" = 1 ]; then exec "$@"; fi; echo "waits"; exec sleep 600'
    command = ["sh", "-c", script, "sh", sys.executable, "-c", RAISES]
    done = agent.run(*command, options=["--processes=2"], env={**job, "DTJ_NODE_RANK": "1"})
    assert done.returncode == 1
    said = words(job) or {}
    lines = said.pop("lastLines")
    assert said == {"dtj": 1, "exitCode": 1, "rank": 3, "line": "ValueError: no such layer: dense_9"}
    assert {"epoch over", "ValueError: no such layer: dense_9"} <= set(lines)
    assert "waits" not in lines


def test_an_end_that_says_all_leaves_no_words(agent: Agent, job: dict[str, str]) -> None:
    assert agent.run("echo", "done", env=job).stdout == b"done\n"
    assert words(job) is None


LAST_REPORT = "import dtj_trainer; dtj_trainer.report(step=8)"


def test_the_report_of_a_training_that_ends_at_once_is_not_lost(agent: Agent, job: dict[str, str]) -> None:
    assert agent.run(sys.executable, "-c", LAST_REPORT, env=job).returncode == 0
    assert (words(job) or {})["progress"]["step"] == 8


def test_all_copies_of_a_pod_report_to_its_agent(agent: Agent, job: dict[str, str]) -> None:
    options = ["--processes=2", "--framework=PyTorch"]
    code = """
import dtj_trainer, signal
dtj_trainer.report(step=3 + dtj_trainer.from_environment().local_rank)
signal.pause()
"""
    with agent.started(sys.executable, "-c", code, options=options, env=job):
        answer = told(job, lambda answer: answer.get("ranks", {}).get("reporting") == 2)
        assert (answer["step"], answer["ranks"]) == (3, {"reporting": 2})


def test_other_nodes_tell_node_rank_0(agent: Agent, job: dict[str, str]) -> None:
    other = {**job, "DTJ_NODE_RANK": "1"}
    # On one machine the port is taken for the second agent; it tells the first one all the same.
    with agent.started(sys.executable, "-c", REPORTS, env=job):
        told(job, lambda answer: "ranks" in answer)
        with agent.started(sys.executable, "-c", REPORTS, env=other) as second:
            told(job, lambda answer: answer["ranks"]["reporting"] == 2)
            second.complains(f"port {job['DTJ_AGENT_PORT']} cannot be listened on: Address already in use\n")


def test_by_hand_nothing_is_told_or_changed(agent: Agent, job: dict[str, str]) -> None:
    del job["DTJ_AGENT_PORT"]
    done = agent.run("env", env=job)
    assert {line.partition("=")[0] for line in done.stdout.decode().splitlines()} == {"PATH", "PYTHONPATH", *job}


def test_a_terminal_stays_one(agent: Agent, job: dict[str, str]) -> None:
    code = (
        "import os, pty, sys; os.environ.update(eval(sys.argv[1])); "
        "sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[2:])))"
    )
    line = [
        sys.executable,
        "-c",
        code,
        repr(job),
        *map(os.fsdecode, agent.command("sh", "-c", "test -t 1 && test -t 2")),
    ]
    with started(line) as running:
        close_input(running)
        assert running.end() == 0


FAULTS = {
    "exits at once": ("exit 3", 3, b""),
    "is killed": ("kill -KILL $$", 137, b""),
    "closes its output": ("exec >&- 2>&-; sleep 0.1; exit 4", 4, b""),
    "leaves a process that holds the output": ("setsid sleep 600 & echo $!; exit 5", 5, None),
    "leaves a process that has closed it": ("setsid sleep 600 > /dev/null 2>&1 & echo $!; exit 6", 6, None),
    "prints without an end of line": ("printf 'ab\\rcd'; exit 7", 7, b"ab\rcd"),
    "prints no text": ("printf '\\377\\000\\033['; exit 8", 8, b"\xff\x00\x1b["),
    "floods": ("yes 'epoch 1/9 step 5/10' | head -n 200000; exit 9", 9, b"epoch 1/9 step 5/10\n" * 200_000),
    "prints one line of megabytes": ("head -c 5000000 /dev/zero | tr '\\0' 9; exit 10", 10, b"9" * 5_000_000),
}  # fmt: skip


@pytest.mark.parametrize(("script", "code", "output"), [pytest.param(*case, id=name) for name, case in FAULTS.items()])
def test_whatever_the_program_does_it_is_as_without_the_agent(
    agent: Agent, job: dict[str, str], script: str, code: int, output: bytes | None
) -> None:
    with agent.started("sh", "-c", script, env=job) as running:
        if output is None:
            left = int(running.lines(1)[0])
            wait_until(lambda: has_ended(running.pid))
            kill(left)
        assert running.end() == code
    assert output is None or running.out == output
    assert running.err == b""


def test_one_that_ignores_its_end_is_told_and_waited_for(agent: Agent, job: dict[str, str]) -> None:
    script = "trap 'echo ignored' TERM; echo ready; while :; do sleep 0.05; done"
    with agent.started("sh", "-c", script, env=job) as running:
        running.says("ready")
        os.kill(running.pid, signal.SIGTERM)
        running.says("ignored")
        assert running.process.poll() is None
        (child,) = children(running.pid)
        os.kill(child, signal.SIGKILL)
        assert running.end() == 137


def test_requests_that_are_none_do_not_reach_the_training(agent: Agent, job: dict[str, str]) -> None:
    with agent.started(sys.executable, "-c", REPORTS, env=job) as running:
        told(job, lambda answer: "step" in answer)
        address = ("127.0.0.1", int(job["DTJ_AGENT_PORT"]))
        slow = [socket.create_connection(address, 30) for _ in range(40)]
        for number, connection in enumerate(slow):
            connection.sendall(b"GET /v1/progress HTT" if number % 2 else b"\x00\xff" * 500)
        assert told(job, lambda _: True)["step"] == 3
        for connection in slow:
            connection.close()
        close_input(running)
        assert running.end() == 0
    assert running.err == b""


SABOTAGE = """
import os
from dtj_agent.main import main
{fault}
sys.argv[1:] = ["--", *sys.argv[1:]]
raise SystemExit(main())
"""
"""An agent of which something breaks as it could by a bug or by the machine."""

BROKEN = {
    "the server's thread": (
        "import dtj_agent.answers; dtj_agent.answers.hmac = None",
        b"how far training is cannot be told any more. Please report this: AttributeError",
    ),
    "the sockets": (
        "import _socket; _socket.AF_UNIX = _socket.AF_INET = 999",
        b"",
    ),
    "the port": ("os.environ['DTJ_AGENT_PORT'] = 'http'", b"how far training is cannot be told. Please report this: "),
    "the state": (
        "import dtj_agent.state; dtj_agent.state.Place = None",
        b"how far training is cannot be told. Please report this: AttributeError",
    ),
    "all of it": (
        "import dtj_agent.endpoints; dtj_agent.endpoints.os = None",
        b"how far training is cannot be told. Please report this: AttributeError",
    ),
    "the termination message": (
        "os.environ['DTJ_TERMINATION_LOG'] = '/proc/version'",
        b"the termination message cannot be written to /proc/version: ",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("fault", "message"), [pytest.param(*case, id=name) for name, case in BROKEN.items()])
def test_what_breaks_in_the_telling_leaves_the_training_alone(
    agent: Agent, job: dict[str, str], fault: str, message: bytes
) -> None:
    script = f"{BAR}; echo trained; exit 3"
    with started(agent.driver(SABOTAGE.format(fault=fault), "sh", "-c", script), job) as running:
        running.until(lambda: b"450/1000" in running.err)
        if "hmac" in fault:
            wait_until(lambda: not is_refused(job))
            running.complains("any more")
        close_input(running)
        assert running.end() == 3
    assert running.out == b"\ntrained\n"
    assert message in running.err
    assert running.err.count(b"dtj-agent: ") == (1 if message else 0)


def is_refused(job: Mapping[str, str]) -> bool:
    """Ask for what the agent breaks by."""
    try:
        with socket.create_connection(("127.0.0.1", int(job["DTJ_AGENT_PORT"])), 30) as connection:
            connection.sendall(f"GET /v1/progress HTTP/1.1\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode())
    except ConnectionRefusedError:
        return True
    return False


def test_a_read_only_file_system_does_not_matter(agent: Agent, job: dict[str, str]) -> None:
    if os.system("unshare --mount --map-root-user mount -o remount,bind,ro / 2> /dev/null"):  # noqa: S605 - fixed
        pytest.skip("this machine gives no process mounts of its own")
    under = ["unshare", "--mount", "--map-root-user", "sh", "-c", 'mount -o remount,bind,ro / && exec "$@"', "sh"]
    with agent.started(sys.executable, "-B", "-c", REPORTS, env=job, under=under) as running:
        assert told(job, lambda answer: "step" in answer)["step"] == 3
        close_input(running)
        assert running.end() == 0


def test_hugging_faces_callback_finds_the_agent(agent: Agent, job: dict[str, str]) -> None:
    code = """
import json, os, sys, urllib.request
token = open(os.environ["KUBEFLOW_TRAINER_SERVER_TOKEN"], encoding="utf-8").read().strip()
metrics = [{"name": "current_step", "value": "6"}, {"name": "total_steps", "value": "50"}]
body = json.dumps({"trainerStatus": {"progressPercentage": 12, "metrics": metrics}}).encode()
headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
request = urllib.request.Request(os.environ["KUBEFLOW_TRAINER_SERVER_URL"], body, headers, method="POST")
print(urllib.request.urlopen(request, timeout=5, context=None).status, flush=True)
sys.stdin.read()
"""
    with agent.started(sys.executable, "-c", code, env=job) as running:
        running.says("200\n")
        answer = told(job, lambda answer: "step" in answer)
        assert [answer[name] for name in ("source", "step", "totalSteps")] == ["huggingface", 6, 50]


def test_it_leaves_no_process_behind(agent: Agent, job: dict[str, str]) -> None:
    with agent.started(
        "sh", "-c", "echo ready; read -r _", env={**job, "DTJ_LOG_PATTERN": r"(?P<step>\d+)"}
    ) as running:
        running.says("ready")
        wait_until(lambda: len(children(running.pid)) == 2)
        started_by_it = children(running.pid)
        close_input(running)
        running.end()
        wait_until(lambda: all(state(pid) in (None, "Z") for pid in started_by_it))
