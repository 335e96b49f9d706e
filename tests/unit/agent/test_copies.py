"""Several copies of one command in a pod: what each is told, and how they end together."""

import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.unit.agent.agent_process import Agent, children, has_ended, started, state, wait_until
from tests.unit.agent.test_signals import Checkpoint

POD = {"DTJ_NODE_RANK": "2", "DTJ_NNODES": "3", "DTJ_PROCESSES_PER_REPLICA": "2"}


def own_variables(agent: Agent, folder: Path, framework: str, env: Mapping[str, str]) -> list[dict[str, str]]:
    """What each of two copies gets that the pod as a whole does not have."""
    script = f'env -0 > "{folder}/$DTJ_LOCAL_RANK"'
    done = agent.run("sh", "-c", script, options=["--processes=2", f"--framework={framework}"], env=env)
    assert (done.returncode, done.stderr) == (0, b"")
    copies = [
        dict(entry.split("=", 1) for entry in (folder / str(local)).read_text().rstrip("\0").split("\0"))
        for local in range(2)
    ]
    known = {"PATH", "PYTHONPATH", "PWD", "SHLVL", "_", *env}
    return [{name: value for name, value in copy.items() if name not in known} for copy in copies]


@pytest.mark.parametrize(
    ("framework", "first", "second"),
    [
        pytest.param(
            "PyTorch",
            {"RANK": "4", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2", "OMP_NUM_THREADS": "1"},
            {"RANK": "5", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2", "OMP_NUM_THREADS": "1"},
            id="PyTorch",
        ),
        pytest.param(
            "Horovod",
            {"HOROVOD_RANK": "4", "HOROVOD_LOCAL_RANK": "0", "OMP_NUM_THREADS": "1"},
            {"HOROVOD_RANK": "5", "HOROVOD_LOCAL_RANK": "1", "OMP_NUM_THREADS": "1"},
            id="Horovod",
        ),
        pytest.param(
            "JAX",
            {"JAX_PROCESS_ID": "4", "JAX_LOCAL_DEVICE_IDS": "0"},
            {"JAX_PROCESS_ID": "5", "JAX_LOCAL_DEVICE_IDS": "1"},
            id="JAX",
        ),
        pytest.param("TensorFlow", {}, {}, id="TensorFlow"),
        pytest.param("Custom", {}, {}, id="Custom"),
    ],
)
def test_each_copy_gets_its_own_variables(
    agent: Agent, tmp_path: Path, framework: str, first: dict[str, str], second: dict[str, str]
) -> None:
    expected = [{"DTJ_LOCAL_RANK": "0", **first}, {"DTJ_LOCAL_RANK": "1", **second}]
    assert own_variables(agent, tmp_path, framework, POD) == expected


@pytest.mark.parametrize("framework", ["PyTorch", "Horovod"])
def test_a_number_of_threads_that_was_given_stays(agent: Agent, tmp_path: Path, framework: str) -> None:
    copies = own_variables(agent, tmp_path, framework, {**POD, "OMP_NUM_THREADS": "4"})
    assert ["OMP_NUM_THREADS" in copy for copy in copies] == [False, False]


def test_accelerators_that_were_given_stay(agent: Agent, tmp_path: Path) -> None:
    copies = own_variables(agent, tmp_path, "JAX", {**POD, "JAX_LOCAL_DEVICE_IDS": "0,1"})
    assert ["JAX_LOCAL_DEVICE_IDS" in copy for copy in copies] == [False, False]


def test_copies_of_a_role_without_rank(agent: Agent, tmp_path: Path) -> None:
    expected = [{"DTJ_LOCAL_RANK": "0"}, {"DTJ_LOCAL_RANK": "1"}]
    assert own_variables(agent, tmp_path, "TensorFlow", {}) == expected


def test_the_only_process_gets_what_the_pod_has(agent: Agent) -> None:
    done = agent.run("env", options=["--framework=PyTorch"], env={**POD, "RANK": "2"})
    names = {line.partition("=")[0] for line in done.stdout.decode().splitlines()}
    assert names == {"PATH", "PYTHONPATH", "RANK", *POD}


def test_the_library_knows_the_place_of_each_copy(agent: Agent) -> None:
    job = {
        **POD, "DTJ_JOB_NAME": "digits", "DTJ_JOB_UID": "0b1c", "DTJ_NAMESPACE": "team", "DTJ_ROLE": "worker",
        "DTJ_REPLICA_INDEX": "2", "DTJ_ATTEMPT": "0",
    }  # fmt: skip
    code = "from dtj_trainer import from_environment; print(from_environment().rank, flush=True)"
    done = agent.run(sys.executable, "-c", code, options=["--processes=2", "--framework=Custom"], env=job)
    assert sorted(done.stdout.split()) == [b"4", b"5"]


def test_only_the_first_copy_reads_the_input(agent: Agent) -> None:
    script = 'echo "$DTJ_LOCAL_RANK: $(cat)"'
    done = agent.run("sh", "-c", script, options=["--processes=3"], stdin=b"typed")
    assert sorted(done.stdout.decode().splitlines()) == ["0: typed", "1: ", "2: "]


def test_a_command_that_cannot_be_started_is_said_once(agent: Agent) -> None:
    done = agent.run("/missing", options=["--processes=3"])
    assert (done.returncode, done.stderr) == (127, b"dtj-agent: /missing: not found\n")


@pytest.mark.parametrize(
    ("end", "code", "message"),
    [
        pytest.param("exit 4", 4, "ended with exit code 4", id="exit code"),
        pytest.param("kill -KILL $$", 137, "was ended by SIGKILL", id="signal"),
    ],
)
@pytest.mark.parametrize(
    ("env", "name"),
    [
        pytest.param({"DTJ_NODE_RANK": "2"}, "rank 7 (local 1)", id="ranked"),
        pytest.param({}, "process 1 of this pod", id="not ranked"),
    ],
)
def test_the_first_that_fails_ends_all(
    agent: Agent, end: str, code: int, message: str, env: dict[str, str], name: str
) -> None:
    script = f'if [ "$DTJ_LOCAL_RANK" = 1 ]; then {end}; fi; exec sleep 600'
    done = agent.run("sh", "-c", script, options=["--processes=3"], env=env)
    assert (done.returncode, done.stderr.decode()) == (code, f"dtj-agent: {name} {message}; ending the others\n")


def test_the_first_failure_decides_though_others_fail_after_it(agent: Agent) -> None:
    script = """
    if [ "$DTJ_LOCAL_RANK" = 1 ]; then exit 4; fi
    trap 'exit 9' TERM
    while :; do sleep 0.05; done"""
    done = agent.run("sh", "-c", script, options=["--processes=2"])
    assert done.returncode == 4


@pytest.mark.parametrize("code", [0, 6])
def test_a_copy_that_has_finished_lets_the_others_go_on(agent: Agent, tmp_path: Path, code: int) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    script = f'[ "$DTJ_LOCAL_RANK" = 1 ] || exit 0; echo $$; read -r _ < {gate}; exit {code}'
    with agent.started("sh", "-c", script, options=["--processes=2"]) as running:
        slow = int(running.lines(1)[0])
        running.until(lambda: children(running.pid) == [slow])
        gate.write_text("go\n")
        assert running.end() == code
    assert running.err == b""


def test_all_copies_get_a_forwarded_signal(agent: Agent) -> None:
    script = "trap 'echo told; exit 0' USR1; echo ready; while :; do sleep 0.05; done"
    with agent.started("sh", "-c", script, options=["--processes=3"]) as running:
        running.until(lambda: running.out.count(b"ready") == 3)
        os.kill(running.pid, signal.SIGUSR1)
        assert running.end() == 0
    assert running.out.count(b"told") == 3


SUPERVISE = """
import os
from dtj_agent import processes, signals
from dtj_agent.supervisor import Supervisor

signals.hold()
supervisor = Supervisor(grace_s=float(sys.argv[1]))
for rank in range(2):
    environ = {**os.environ, "DTJ_LOCAL_RANK": str(rank)}
    supervisor.add(processes.start(sys.argv[2:], environ), f"rank {rank}")
raise SystemExit(supervisor.run())
"""
"""Two copies under a supervisor with another grace period than the agent's."""


def test_a_copy_that_ignores_its_end_is_killed_with_all_it_started(agent: Agent) -> None:
    script = """
    trap '' TERM
    if [ "$DTJ_LOCAL_RANK" = 1 ]; then read -r _; exit 4; fi
    sleep 600 &
    echo $$ $!
    wait"""
    with started(agent.driver(SUPERVISE, "0.2", "sh", "-c", script)) as running:
        stubborn = [int(pid) for pid in running.lines(1)[0].split()]
        assert running.process.stdin is not None
        running.process.stdin.close()
        assert running.end() == 4
        wait_until(lambda: all(has_ended(pid) for pid in stubborn))


def test_copies_that_were_asked_to_end_take_the_time_they_are_given_from_outside(agent: Agent, tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path)
    script = 'if [ "$DTJ_LOCAL_RANK" = 1 ]; then echo $$; exec sleep 600; fi; exec "$@"'
    with started(agent.driver(SUPERVISE, "0", "sh", "-c", script, "sh", *checkpoint.command)) as running:
        running.says("ready")
        running.until(lambda: running.out.count(b"\n") == 2)
        quick = next(int(line) for line in running.lines(2) if line.isdigit())
        os.kill(running.pid, signal.SIGTERM)
        running.says("saving")
        running.until(lambda: state(quick) is None)
        checkpoint.finish()
        assert running.end() == 143
    assert checkpoint.path.read_text() == "weights"
    assert running.err == b""
