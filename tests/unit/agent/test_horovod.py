"""Horovod's pods meet before the training starts, at the server that Horovod itself uses."""

import os
import signal
import socket
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.unit.agent.agent_process import PATH, Agent, Running, children, has_ended, started, wait_until

RENDEZVOUS = ["--framework=Horovod", "--rendezvous=horovod"]


def pod(port: int, node_rank: int, nodes: int = 2) -> dict[str, str]:
    environ = {
        "PATH": f"{Path(sys.executable).parent}:{PATH}",
        "DTJ_NODE_RANK": str(node_rank),
        "DTJ_NNODES": str(nodes),
        "DTJ_PROCESSES_PER_REPLICA": "1",
        "HOROVOD_GLOO_RENDEZVOUS_ADDR": "127.0.0.1",
        "HOROVOD_GLOO_RENDEZVOUS_PORT": str(port),
    }
    return {**environ, "DTJ_HOSTS": ",".join(f"host{i}" for i in range(nodes))} if node_rank == 0 else environ


class Keys(BaseHTTPRequestHandler):
    """Keeps values by path, as Horovod's server does, or answers what it is told to instead."""

    server: "KeyServer"

    def do_GET(self) -> None:
        with self.server.changed:
            value = self.server.values.get(self.path)
            self.server.asked.append(self.path)
            self.server.changed.notify_all()
        self._answer(404 if value is None else 200, value or b"")

    def do_PUT(self) -> None:
        value = self.rfile.read(int(self.headers["Content-Length"]))
        with self.server.changed:
            self.server.values[self.path] = value
            self.server.changed.notify_all()
        self._answer(200, b"")

    def _answer(self, status: int, body: bytes) -> None:
        if self.server.garbage is not None:
            self.wfile.write(self.server.garbage)
            return
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name for it
        pass


class KeyServer(ThreadingHTTPServer):
    def __init__(self, port: int) -> None:
        super().__init__(("127.0.0.1", port), Keys)
        self.values: dict[str, bytes] = {}
        self.asked: list[str] = []
        self.garbage: bytes | None = None
        self.changed = threading.Condition()
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}).start()

    def set(self, path: str, value: bytes) -> None:
        with self.changed:
            self.values[path] = value

    def until(self, path: str) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: path in self.values, timeout=60)

    def until_asked(self, path: str, times: int) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: self.asked.count(path) >= times, timeout=60)

    def stop(self) -> None:
        self.shutdown()
        self.server_close()


@pytest.fixture
def key_server(port: int) -> Iterator[KeyServer]:
    server = KeyServer(port)
    yield server
    server.stop()


ALIVE = "import time; print('training', flush=True); time.sleep(600)"


def test_all_nodes_start_when_the_last_has_come(agent: Agent, horovod: Path, port: int) -> None:
    train = [sys.executable, "-c", "print('training')"]
    first = agent.started(*train, options=RENDEZVOUS, env={**pod(port, 0, 3), "PYTHONPATH": str(horovod)})
    second = agent.started(*train, options=RENDEZVOUS, env=pod(port, 1, 3))
    third = agent.started(*train, options=RENDEZVOUS, env=pod(port, 2, 3))
    with first as zero, second as one:
        wait_until(lambda: value_at(port, "/dtj/absent") == b"2")
        assert (zero.out, one.out) == (b"", b"")
        with third as two:
            assert [running.end() for running in (zero, one, two)] == [0, 0, 0]
        assert [running.out for running in (zero, one, two)] == [b"training\n"] * 3


def value_at(port: int, path: str) -> bytes | None:
    """What Horovod's server keeps there; None when it does not, or is not there yet."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return bytes(answer.read())
    except urllib.error.URLError:
        return None


def test_the_server_stays_until_all_have_seen_that_all_came(agent: Agent, horovod: Path, port: int) -> None:
    with agent.started("true", options=RENDEZVOUS, env={**pod(port, 0), "PYTHONPATH": str(horovod)}) as running:
        wait_until(lambda: value_at(port, "/dtj/absent") == b"1")
        put(port, "/dtj/1", b"here")
        wait_until(lambda: value_at(port, "/dtj/absent") == b"nobody" and len(children(running.pid)) == 1)
        put(port, "/dtj/1", b"started")
        assert running.end() == 0
    wait_until(lambda: value_at(port, "/dtj/1") is None)


def put(port: int, path: str, value: bytes) -> None:
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data=value, method="PUT")
    urllib.request.urlopen(request, timeout=5).close()  # noqa: S310


def test_the_server_plans_for_every_process(agent: Agent, horovod: Path, port: int) -> None:
    env = {**pod(port, 0, 2), "PYTHONPATH": str(horovod), "DTJ_PROCESSES_PER_REPLICA": "2"}
    with agent.started(sys.executable, "-c", ALIVE, options=[*RENDEZVOUS, "--processes=2"], env=env):
        wait_until(lambda: value_at(port, "/plan/0") == b"host0,host0,host1,host1")


def test_one_node_with_several_processes_meets_nobody(agent: Agent, horovod: Path, port: int) -> None:
    env = {**pod(port, 0, 1), "PYTHONPATH": str(horovod)}
    script = 'echo "$HOROVOD_RANK"'
    done = agent.run("sh", "-c", script, options=[*RENDEZVOUS, "--processes=2"], env=env)
    assert (done.returncode, sorted(done.stdout.split())) == (0, [b"0", b"1"])


def test_the_server_ends_with_the_training(agent: Agent, horovod: Path, port: int) -> None:
    env = {**pod(port, 0, 1), "PYTHONPATH": str(horovod)}
    with agent.started(sys.executable, "-c", ALIVE, options=RENDEZVOUS, env=env) as running:
        running.says("training")
        server = server_of(running)
        os.kill(running.pid, signal.SIGTERM)
        assert running.end() == 143
        wait_until(lambda: has_ended(server))
    assert running.err == b""


def test_the_server_ends_with_the_agent(agent: Agent, horovod: Path, port: int) -> None:
    env = {**pod(port, 0, 1), "PYTHONPATH": str(horovod)}
    with agent.started(sys.executable, "-c", ALIVE, options=RENDEZVOUS, env=env) as running:
        running.says("training")
        server, training = server_of(running), children(running.pid)[1]
        os.kill(running.pid, signal.SIGKILL)
        wait_until(lambda: has_ended(server))
        os.kill(training, signal.SIGKILL)  # as the end of a container does


def server_of(running: Running) -> int:
    return next(pid for pid in children(running.pid) if b"rendezvous" in Path(f"/proc/{pid}/cmdline").read_bytes())


def test_training_goes_on_when_the_server_ends(agent: Agent, horovod: Path, port: int) -> None:
    env = {**pod(port, 0, 1), "PYTHONPATH": str(horovod)}
    with agent.started("sh", "-c", "echo training; read -r _; exit 3", options=RENDEZVOUS, env=env) as running:
        running.says("training")
        os.kill(server_of(running), signal.SIGKILL)
        running.complains("Horovod's rendezvous server was ended by SIGKILL; training goes on")
        assert running.process.stdin is not None
        running.process.stdin.close()
        assert running.end() == 3


def test_an_image_without_horovod_is_told_so(agent: Agent, port: int) -> None:
    done = agent.run(sys.executable, "-S", "train.py", options=RENDEZVOUS, env=pod(port, 0))
    assert done.returncode == 1
    needed = "Horovod, which the job's framework needs: No module named 'horovod'"
    assert done.stderr.decode().splitlines() == [
        f"dtj-agent: {sys.executable} cannot import {needed}",
        "dtj-agent: Horovod's rendezvous server ended with exit code 1 before the training started",
    ]


def test_a_port_that_is_taken_is_named(agent: Agent, horovod: Path, port: int, key_server: KeyServer) -> None:
    done = agent.run("true", options=RENDEZVOUS, env={**pod(port, 0), "PYTHONPATH": str(horovod)})
    assert done.returncode == 1
    assert f"cannot listen on port {port}: Address already in use" in done.stderr.decode()


def test_a_wait_that_breaks_off_starts_nothing(agent: Agent, port: int) -> None:
    env = {**pod(port, 1), "HOROVOD_GLOO_RENDEZVOUS_ADDR": "x" * 64 + ".example"}  # too long for a name
    done = agent.run("echo", "training", options=RENDEZVOUS, env=env)
    assert (done.returncode, done.stdout) == (70, b"")
    assert "the wait for the other nodes broke off" in done.stderr.decode()


def test_the_server_runs_in_the_interpreter_of_the_training(agent: Agent, port: int) -> None:
    done = agent.run("/nowhere/python3.12", "train.py", options=RENDEZVOUS, env=pod(port, 0))
    assert done.returncode == 127
    assert done.stderr.decode() == (
        "dtj-agent: Horovod's rendezvous server needs Python: /nowhere/python3.12: not found\n"
    )


def test_another_command_gets_the_first_python_on_the_path(agent: Agent, port: int, tmp_path: Path) -> None:
    fake = tmp_path / "python3"
    fake.write_text('#!/bin/sh\necho "$@" >&2\nexit 5\n')
    fake.chmod(0o755)
    env = {**pod(port, 0), "PATH": f"{tmp_path}:{PATH}"}
    done = agent.run("bash", "train.sh", options=RENDEZVOUS, env=env)
    assert done.returncode == 1
    assert "-m dtj_agent.horovod_rendezvous" in done.stderr.decode()


def test_a_late_server_is_waited_for(agent: Agent, port: int) -> None:
    early = socket.create_server(("127.0.0.1", port))
    early.settimeout(60)
    with agent.started("echo", "training", options=RENDEZVOUS, env=pod(port, 1)) as running:
        for _ in range(2):
            early.accept()[0].close()
        early.close()
        server = KeyServer(port)
        try:
            server.until("/dtj/1")
            server.set("/dtj/absent", b"nobody")
            assert running.end() == 0
        finally:
            server.stop()
    assert running.out == b"training\n"


def test_a_late_node_is_waited_for(agent: Agent, port: int, key_server: KeyServer) -> None:
    key_server.set("/dtj/absent", b"2")
    with agent.started("echo", "training", options=RENDEZVOUS, env=pod(port, 1, 3)) as running:
        key_server.until_asked("/dtj/absent", times=3)
        assert running.out == b""
        key_server.set("/dtj/absent", b"nobody")
        assert running.end() == 0
    assert running.out == b"training\n"


def test_a_signal_ends_the_wait(agent: Agent, port: int, key_server: KeyServer) -> None:
    with agent.started("echo", "training", options=RENDEZVOUS, env=pod(port, 1)) as running:
        key_server.until("/dtj/1")
        os.kill(running.pid, signal.SIGWINCH)  # ends nothing
        os.kill(running.pid, signal.SIGTERM)
        assert running.end() == 143
    assert (running.out, running.err) == (b"", b"")


SEEN = """
import os, threading, time
from dtj_agent.horovod import Gathering

gathering, last = Gathering.from_environment(os.environ), None
threading.Thread(target=gathering.wait, daemon=True).start()
while True:
    if (now := gathering.describe()) != last:
        print(now, flush=True)
    last = now
    time.sleep(0.01)
"""
"""Prints what a waiting agent would say that it misses, whenever that changes."""


def test_nodes_that_do_not_come_are_named(agent: Agent, port: int, key_server: KeyServer) -> None:
    key_server.set("/dtj/absent", b"2,3")
    with started(agent.driver(SEEN), pod(port, 1, 4)) as running:
        running.says("node ranks 2, 3 of 4\n")


def test_node_rank_0_knows_their_hosts(agent: Agent, port: int, key_server: KeyServer) -> None:
    key_server.set("/dtj/1", b"here")
    hosts = ", ".join(f"{rank} (host{rank})" for rank in range(2, 10))
    with started(agent.driver(SEEN), pod(port, 0, 100)) as running:
        running.says(f"node ranks {hosts} and 90 more of 100\n")
        absent = ",".join(str(rank) for rank in range(2, 100)).encode()
        wait_until(lambda: key_server.values.get("/dtj/absent") == absent)


@pytest.mark.parametrize(
    ("garbage", "trouble"),
    [
        pytest.param(b"SSH-2.0-OpenSSH_9.2\r\n", "no Horovod rendezvous server answers there", id="another protocol"),
        pytest.param(b"", "Remote end closed connection without response", id="nothing"),
        pytest.param(b"HTTP/1.0 503 Busy\r\n\r\n", "it answers with HTTP status 503", id="another server"),
        pytest.param(b"HTTP/1.0 200 OK\r\n\r\n7,1", "node rank 1 of 3", id="ranks that do not exist"),
    ],
)
def test_another_server_on_the_port_is_told(
    agent: Agent, port: int, key_server: KeyServer, garbage: bytes, trouble: str
) -> None:
    key_server.garbage = garbage
    with started(agent.driver(SEEN), pod(port, 1, 3)) as running:
        running.says(trouble)


def test_an_answer_that_makes_no_sense_starts_nothing(agent: Agent, port: int, key_server: KeyServer) -> None:
    key_server.set("/dtj/absent", b"<html>nobody</html>")
    with agent.started("echo", "training", options=RENDEZVOUS, env=pod(port, 1)) as running:
        key_server.until_asked("/dtj/absent", times=3)
        assert running.process.poll() is None
    assert running.out == b""


def test_a_name_that_is_not_known_yet_is_waited_for(agent: Agent, port: int) -> None:
    env = {**pod(port, 1), "HOROVOD_GLOO_RENDEZVOUS_ADDR": "digits-worker-0.invalid"}
    with started(agent.driver(SEEN), env) as running:
        running.says(f"node rank 0 at digits-worker-0.invalid:{port}: ")
        assert running.process.poll() is None


WAIT = """
import os
from dtj_agent import horovod, signals

signals.hold()
gathering = horovod.Gathering.from_environment(os.environ)
raise SystemExit(horovod.wait_for_all(gathering, None, limit_s=1, said_after_s=0.5))
"""
"""The wait alone, with shorter limits than the agent's."""


def test_the_wait_is_told_once_and_ends(agent: Agent, port: int) -> None:
    with started(agent.driver(WAIT), pod(port, 1)) as running:
        assert running.end() == 1
    missing = f"missing: node rank 0 at 127.0.0.1:{port}: Connection refused"
    assert running.err.decode().splitlines() == [
        f"dtj-agent: waiting for all nodes before the training starts; {missing}",
        f"dtj-agent: not all nodes came within 1 s; {missing}",
    ]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param({"HOROVOD_GLOO_RENDEZVOUS_ADDR": ""}, "HOROVOD_GLOO_RENDEZVOUS_ADDR is not set", id="address"),
        pytest.param({"HOROVOD_GLOO_RENDEZVOUS_PORT": ""}, "HOROVOD_GLOO_RENDEZVOUS_PORT is ''", id="port"),
        pytest.param({"DTJ_NODE_RANK": "2"}, "DTJ_NODE_RANK is 2, with 2 nodes", id="rank"),
        pytest.param({"DTJ_HOSTS": "host0"}, "DTJ_HOSTS has 1 hosts for 2 nodes", id="hosts"),
    ],
)
def test_variables_that_do_not_fit_are_named(agent: Agent, port: int, change: dict[str, str], message: str) -> None:
    done = agent.run("true", options=RENDEZVOUS, env={**pod(port, 0), **change})
    assert (done.returncode, done.stdout) == (2, b"")
    assert message in done.stderr.decode()
