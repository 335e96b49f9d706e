"""The agent runs in any image that has a Python of the last years: standard library, and nothing newer than 3.9."""

import ast
import os
import sys
from pathlib import Path

import pytest

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
def test_it_runs_in_every_python(agent_archive: Path, horovod: Path, port: int, python: str) -> None:
    agent = Agent(agent_archive, python)
    env = {**pod(port, 0, 1), "PYTHONPATH": str(horovod), "DTJ_JOB_NAME": "digits"}
    code = "import os, dtj_trainer as d; d.report(step=1); print(os.environ['HOROVOD_RANK'], d.latest().step)"
    done = agent.run(python, "-c", code, options=[*RENDEZVOUS, "--processes=2"], env=env)
    assert (done.returncode, sorted(done.stdout.splitlines()), done.stderr) == (0, [b"0 1", b"1 1"], b"")


def test_it_fits_into_a_config_map_many_times(agent_archive: Path) -> None:
    assert agent_archive.stat().st_size < 200_000


def test_it_starts_without_what_takes_long_to_import(agent: Agent) -> None:
    report = "import sys; from dtj_agent.main import main; sys.argv[1:] = ['--', 'true']; main(); print(*sys.modules)"
    with started(agent.driver(report)) as running:
        assert running.end() == 0
    slow = {"argparse", "asyncio", "http", "logging", "pathlib", "re", "socket", "subprocess", "threading", "typing"}
    assert slow & set(running.out.decode().split()) == set()
