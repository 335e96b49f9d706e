"""The agent's archive: the same everywhere, runnable, small; and its ConfigMap."""

import io
import subprocess
import sys
import tomllib
import zipfile
from base64 import b64decode
from hashlib import sha256
from importlib import metadata
from pathlib import Path

from dtj.api import names
from dtj.plan.agent_archive import agent_archive, agent_config_map

LIBRARY = Path(__file__).parents[3] / "trainer_images" / "lib"
MAX_BYTES = 200_000


def test_it_holds_the_sources_of_both_packages_and_a_start() -> None:
    with zipfile.ZipFile(io.BytesIO(agent_archive().content)) as archive:
        found = set(archive.namelist())
        assert {"__main__.py", "dtj_agent/main.py", "dtj_trainer/__init__.py"} <= found
        packages = {name for name in found if ".dist-info/" not in name}
        assert all(name.endswith(".py") for name in packages)
        assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}


def test_the_same_sources_give_the_same_archive() -> None:
    before = agent_archive()
    agent_archive.cache_clear()

    assert agent_archive() == before
    assert agent_archive().digest == sha256(before.content).hexdigest()
    assert len(before.content) < MAX_BYTES


def test_the_config_map_is_named_after_its_content_and_never_changes() -> None:
    manifest = agent_config_map("team-a")

    assert manifest["immutable"] is True
    assert (manifest["metadata"]["namespace"], manifest["metadata"]["name"]) == (
        "team-a",
        f"dtj-agent-{agent_archive().digest[:16]}",
    )
    assert "ownerReferences" not in manifest["metadata"], "it outlives the job that brought it"
    assert b64decode(manifest["binaryData"][names.AGENT_FILE]) == agent_archive().content


def test_its_entry_points_are_found_by_who_imports_from_it(tmp_path: Path) -> None:
    path = tmp_path / names.AGENT_FILE
    path.write_bytes(agent_archive().content)
    declared = tomllib.loads((LIBRARY / "pyproject.toml").read_text())["project"]

    (found,) = metadata.distributions(path=[str(path)])

    assert (found.name, found.version) == (declared["name"], declared["version"])
    groups: dict[str, dict[str, str]] = {}
    for each in found.entry_points:
        groups.setdefault(each.group, {})[each.name] = each.value
    assert groups == declared["entry-points"]


def test_python_runs_it_isolated(tmp_path: Path) -> None:
    path = tmp_path / names.AGENT_FILE
    path.write_bytes(agent_archive().content)

    done = subprocess.run(
        [sys.executable, "-I", "-S", path, "--framework=Custom", "--", sys.executable, "-c", "import dtj_trainer"],
        capture_output=True,
        timeout=30,
        check=False,
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
