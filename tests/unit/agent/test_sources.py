"""The agent runs in any image that has a Python of the last years: standard library, and nothing newer than 3.9."""

import ast
import os
import sys
from pathlib import Path

import pytest

from dtj.api import environment, model, status
from dtj.kube import agents
from dtj.lifecycle import agent_report
from dtj_agent import protocol
from dtj_trainer import delivery, reporter
from tests.unit.agent.agent_process import SOURCES, Agent, started
from tests.unit.agent.test_horovod import RENDEZVOUS, pod

MODULES = sorted((SOURCES / "dtj_agent").rglob("*.py"))
BROUGHT_BY_THE_IMAGE = {"horovod_rendezvous.py": {"horovod"}}


@pytest.mark.parametrize("source", MODULES, ids=lambda path: path.name)
def test_it_needs_nothing_but_python_3_9(source: Path) -> None:
    tree = ast.parse(source.read_text(), feature_version=(3, 9))
    plain = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    named = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    imported = {name.partition(".")[0] for name in plain | named}
    assert imported <= sys.stdlib_module_names | {"dtj_agent"} | BROUGHT_BY_THE_IMAGE.get(source.name, set())


def pythons() -> dict[str, str]:
    """Interpreters of this machine by version: the one that runs the tests, and those of pyenv."""
    folder = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    others = {f"3.{minor}": folder.glob(f"versions/3.{minor}.*/bin/python3.{minor}") for minor in range(9, 16)}
    found = {version: str(path) for version, paths in others.items() for path in paths}
    return {**found, f"3.{sys.version_info.minor}": sys.executable}


@pytest.mark.parametrize("python", [pytest.param(path, id=version) for version, path in pythons().items()])
def test_it_runs_in_every_python(agent_archive: Path, horovod: Path, port: int, python: str, tmp_path: Path) -> None:
    agent, log = Agent(agent_archive, python), tmp_path / "termination-log"
    log.touch()
    told = {"DTJ_AGENT_PORT": "0", "DTJ_LOG_PATTERN": r"(?P<step>\d+)", "DTJ_TERMINATION_LOG": str(log)}
    env = {**pod(port, 0, 1), **told, "PYTHONPATH": str(horovod), "DTJ_JOB_NAME": "digits"}
    code = "import os, dtj_trainer as d; d.report(step=1); print(os.environ['HOROVOD_RANK'], d.latest().step)"
    done = agent.run(python, "-c", code, options=[*RENDEZVOUS, "--processes=2"], env=env)
    assert (done.returncode, sorted(done.stdout.splitlines()), done.stderr) == (0, [b"0 1", b"1 1"], b"")
    assert '"source":"report","step":1' in log.read_text()


def test_it_fits_into_a_config_map_many_times(agent_archive: Path) -> None:
    assert agent_archive.stat().st_size < 200_000


STARTS = """
import os

spawn = os.posix_spawnp

def start(*arguments, **options):
    print(*sys.modules, flush=True)
    return spawn(*arguments, **options)

os.posix_spawnp = start
from dtj_agent.main import main
sys.argv[1:] = ["--", "true"]
raise SystemExit(main())
"""
"""The agent, telling what it has imported when it starts the command."""

SLOW = {
    "argparse",
    "asyncio",
    "http",
    "json",
    "logging",
    "pathlib",
    "re",
    "socket",
    "subprocess",
    "threading",
    "typing",
}


@pytest.mark.parametrize("env", [{}, {"DTJ_AGENT_PORT": "0"}], ids=["by hand", "in a job"])
def test_training_starts_before_what_takes_long_to_import(agent: Agent, env: dict[str, str]) -> None:
    with started(agent.driver(STARTS), env) as running:
        assert running.end() == 0
    imported = set(running.out.decode().split())
    assert ("dtj_agent.progress" in imported) == bool(env)
    assert SLOW & imported == set()


@pytest.mark.parametrize("source", MODULES, ids=lambda path: path.name)
def test_no_clock_that_may_be_set_is_read(source: Path) -> None:
    tree = ast.parse(source.read_text())
    attributes = {ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    imported = {
        alias.name for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom) for alias in node.names
    }
    assert {"time.time", "time.time_ns", "time.localtime", "time.gmtime"} & attributes == set()
    assert "datetime" not in imported


def test_operator_agent_and_library_call_things_by_the_same_names() -> None:
    names = {
        protocol.PORT: environment.AGENT_PORT,
        protocol.TOKEN: environment.AGENT_TOKEN,
        protocol.LOG_PATTERN: environment.LOG_PATTERN,
        protocol.RANK_ZERO_HOST: environment.RANK_ZERO_HOST,
        protocol.JOB_UID: environment.JOB_UID,
        protocol.ATTEMPT: environment.ATTEMPT,
        protocol.NODE_RANK: environment.NODE_RANK,
        protocol.NODE_COUNT: environment.NNODES,
        protocol.PROCESSES_PER_NODE: environment.PROCESSES_PER_REPLICA,
        protocol.PROGRESS_PATH: agents.PATH,
        protocol.SOCKET: delivery.SOCKET,
        protocol.REPORT_TOKEN: delivery.TOKEN,
    }
    assert list(names) == list(names.values())
    assert protocol.MOST_METRICS == status.MAX_METRICS == reporter.MAX_METRICS
    assert protocol.GREATEST_NUMBER == model.EXACT_MAX
    assert protocol.LONGEST_BODY_BYTES <= agent_report.MAX_ANSWER
