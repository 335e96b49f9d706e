"""Signals reach the command, and only what they were meant for; nothing is left behind unreaped."""

import os
import signal
import sys
from pathlib import Path

import pytest

from tests.unit.agent.agent_process import Agent, Running, children, descendants, state

FORWARDED = ["TERM", "INT", "HUP", "QUIT", "USR1", "USR2", "CONT", "WINCH", "TSTP"]

HANDLES_ONE = """
import os, signal, sys
def handle(number, frame):
    os.write(1, signal.Signals(number).name.encode())
    sys.exit(7)
signal.signal(int(sys.argv[1]), handle)
os.write(1, b"ready\\n")
while True:
    signal.pause()
"""


@pytest.mark.parametrize("name", FORWARDED)
def test_the_command_handles_a_signal_itself(agent: Agent, name: str) -> None:
    number = signal.Signals[f"SIG{name}"]
    with agent.started(sys.executable, "-c", HANDLES_ONE, str(int(number))) as running:
        running.says("ready")
        os.kill(running.pid, number)
        assert running.end() == 7
    assert running.out.decode().split() == ["ready", number.name]


@pytest.mark.parametrize("name", FORWARDED[:6])
def test_a_command_without_handler_is_ended_by_the_signal(agent: Agent, name: str) -> None:
    number = signal.Signals[f"SIG{name}"]
    with agent.started("sh", "-c", "echo ready; ulimit -c 0; exec sleep 600") as running:
        running.says("ready")
        os.kill(running.pid, number)
        assert running.end() == 128 + number


def test_a_second_signal_is_forwarded_like_the_first(agent: Agent) -> None:
    script = "trap 'echo told; n=$((n + 1)); [ $n -lt 2 ] || exit 9' TERM; echo ready; while :; do read -r _; done"
    with agent.started("bash", "-c", script) as running:
        running.says("ready")
        os.kill(running.pid, signal.SIGTERM)
        running.says("told")
        os.kill(running.pid, signal.SIGTERM)
        assert running.end() == 9
    assert running.out == b"ready\ntold\ntold\n"


SIGNALLED_BEFORE = """
import os, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
os.kill(os.getpid(), signal.SIGTERM)
os.execv(sys.argv[1], sys.argv[1:])
"""


def test_a_signal_that_comes_before_the_command_runs_is_not_lost(agent: Agent) -> None:
    with agent.started("sleep", "600", under=[sys.executable, "-c", SIGNALLED_BEFORE]) as running:
        assert running.end() == 143


SAVES = """
import os, signal, sys
def save(number, frame):
    os.write(1, b"saving\\n")
    if open(sys.argv[2]).read() == "go":
        open(sys.argv[1], "w").write("weights")
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
os.write(1, b"ready\\n")
while True:
    signal.pause()
"""
"""Writes its checkpoint to the first path when the second, a pipe, says so."""


class Checkpoint:
    """A program that saves when it is told to end, and that the test holds in the middle of it."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "checkpoint"
        self._gate = folder / "gate"
        os.mkfifo(self._gate)
        (folder / "save.py").write_text(SAVES)
        self.command = [sys.executable, str(folder / "save.py"), str(self.path), str(self._gate)]

    def finish(self) -> None:
        self._gate.write_text("go")


@pytest.mark.parametrize("init", [True, False], ids=["adopts orphans", "does not"])
def test_what_a_shell_runs_saves_its_checkpoint(agent: Agent, tmp_path: Path, init: bool) -> None:
    checkpoint = Checkpoint(tmp_path)
    script = '"$@"; echo "never reached"'
    with agent.started("bash", "-c", script, "bash", *checkpoint.command, under=SUBREAPER if init else []) as running:
        running.says("ready")
        (shell,) = children(running.pid)
        os.kill(running.pid, signal.SIGTERM)
        running.says("saving")
        running.until(lambda: state(shell) is None)  # the shell is long gone, and the agent waits
        assert running.process.poll() is None
        checkpoint.finish()
        assert running.end() == 143
    assert checkpoint.path.read_text() == "weights"
    assert b"never" not in running.out


KEEPS_ITS_WORKER = """
import os, signal, subprocess, sys
worker = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
def handle(number, frame):
    try:
        worker.stdin.write(b"batch")
        worker.stdin.close()
        os.write(1, worker.stdout.read() + f" {worker.wait()}".encode())
    finally:
        sys.exit(0)
signal.signal(signal.SIGTERM, handle)
os.write(1, b"ready\\n")
while True:
    signal.pause()
"""


def test_the_workers_of_a_training_that_handles_the_signal_are_not_hit(agent: Agent) -> None:
    with agent.started(sys.executable, "-c", KEEPS_ITS_WORKER) as running:
        running.says("ready")
        os.kill(running.pid, signal.SIGTERM)
        assert running.end() == 0
    assert running.out == b"ready\nbatch 0"


def test_a_command_that_ends_by_itself_is_not_waited_longer_for(agent: Agent) -> None:
    with agent.started("sh", "-c", "sleep 600 > /dev/null 2>&1 & echo $!; exit 4") as running:
        (left,) = running.lines(1)
        assert running.end() == 4
    os.kill(int(left), signal.SIGKILL)  # as the end of a container does


SUBREAPER = [
    sys.executable,
    "-c",
    "import ctypes, os, sys; ctypes.CDLL(None).prctl(36, 1, 0, 0, 0); os.execv(sys.argv[1], sys.argv[1:])",
]
"""The agent inherits orphans, as the first process of a container does (PR_SET_CHILD_SUBREAPER)."""

LEAVES_ORPHANS = """
import os, sys
for _ in range(20):
    if os.fork() == 0:
        if os.fork() == 0:
            sys.stdin.read()
            os._exit(0)
        os._exit(0)
    os.wait()
print("ready", flush=True)
os.close(0)
while True:
    import signal
    signal.pause()
"""


def test_orphans_are_reaped(agent: Agent) -> None:
    with agent.started(sys.executable, "-c", LEAVES_ORPHANS, under=SUBREAPER) as running:
        running.says("ready")
        inherited = descendants(running.pid)
        assert len(inherited) == 21
        assert running.process.stdin is not None
        running.process.stdin.close()  # ends the orphans
        running.until(lambda: len(children(running.pid)) == 1)
        assert "Z" not in {state(pid) for pid in inherited}
        os.kill(running.pid, signal.SIGTERM)
        assert running.end() == 143


FIRST_PROCESS = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child", "--mount-proc"]


def first_process(running: Running) -> int:
    running.until(lambda: bool(children(running.pid)))
    (pid,) = children(running.pid)
    return pid


@pytest.fixture
def as_first_process() -> list[str]:
    if os.system(f"{' '.join(FIRST_PROCESS)} true 2> /dev/null"):  # noqa: S605 - a fixed command
        pytest.skip("this machine gives no process a PID namespace of its own")
    return FIRST_PROCESS


@pytest.mark.parametrize("name", FORWARDED[:6])
def test_as_first_process_it_forwards_what_the_kernel_would_drop(
    agent: Agent, as_first_process: list[str], name: str
) -> None:
    number = signal.Signals[f"SIG{name}"]
    with agent.started("sh", "-c", "echo ready; ulimit -c 0; exec sleep 600", under=as_first_process) as running:
        running.says("ready")
        os.kill(first_process(running), number)
        assert running.end() == 128 + number


def test_as_first_process_it_lets_a_checkpoint_be_saved(
    agent: Agent, as_first_process: list[str], tmp_path: Path
) -> None:
    checkpoint = Checkpoint(tmp_path)
    line = ["bash", "-c", '"$@"; exit 1', "bash", *checkpoint.command]
    with agent.started(*line, under=as_first_process) as running:
        running.says("ready")
        os.kill(first_process(running), signal.SIGTERM)
        running.says("saving")
        checkpoint.finish()
        assert running.end() == 143
    assert checkpoint.path.read_text() == "weights"
