"""``helm upgrade --reuse-values``: the values of the older chart are the defaults then, those of this one are not."""

import json
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.api.chart.conftest import CHART, VALUES, Helm
from tests.api.resource import REPOSITORY

pytestmark = pytest.mark.api

PREVIOUS = REPOSITORY / "tests" / "e2e" / "charts" / "dtj-operator-0.3.0.tgz"
Leaf = tuple[str, ...]


def previous_values() -> str:
    with tarfile.open(PREVIOUS) as archive:
        member = archive.extractfile("dtj-operator/values.yaml")
        assert member is not None
        return member.read().decode()


def loaded(path: Path) -> dict[str, Any]:
    return dict(yaml.safe_load(path.read_text(encoding="utf-8")))


def leaves(values: dict[str, Any], path: Leaf = ()) -> Iterator[tuple[Leaf, Any]]:
    """Each value that is no group of values."""
    for name, value in values.items():
        if isinstance(value, dict) and value:
            yield from leaves(value, (*path, name))
        else:
            yield (*path, name), value


def at(values: Any, path: Leaf) -> Any:  # noqa: ANN401 - YAML
    """The value there, None where there is none."""
    for name in path:
        values = values.get(name) if isinstance(values, dict) else None
    return values


OF_PREVIOUS = yaml.safe_load(previous_values())
DEFAULTS = loaded(CHART / "values.yaml")
NEW = {path: value for path, value in leaves(DEFAULTS) if at(OF_PREVIOUS, path) is None}
CHOSEN = loaded(VALUES / "everything.yaml") | {
    "watchNamespaces": ["team-a"],
    "admission": {"capabilities": ["IPC_LOCK"], "trustedUsers": ["queue"]},
}


def another(path: Leaf) -> Any:  # noqa: ANN401 - YAML
    """A value that is not the default."""
    value = not NEW[path] if isinstance(NEW[path], bool) else at(CHOSEN, path)
    assert value not in (None, NEW[path]), f"{'.'.join(path)}: name another value than the default"
    return value


def option(path: Leaf, value: object) -> str:
    return f"--set-json={'.'.join(path)}={json.dumps(value)}"


KEPT = [option(path, value) for path, value in leaves(OF_PREVIOUS) if at(DEFAULTS, path) not in (None, value)]
"""What has another default by now."""


@pytest.fixture(scope="session")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """This chart with the values of the previous one, as a release keeps them."""
    chart = tmp_path_factory.mktemp("kept") / CHART.name
    shutil.copytree(CHART, chart)
    (chart / "values.yaml").write_text(previous_values(), encoding="utf-8")
    return chart


def template(helm: Helm, chart: Path, *options: str) -> str:
    done = helm.run("template", "dtj", str(chart), *options)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_new_values_have_their_defaults(helm: Helm, kept: Path) -> None:
    assert template(helm, kept) == template(helm, CHART, *KEPT)


@pytest.mark.parametrize("path", NEW, ids=".".join)
def test_each_new_value_may_be_given_alone(helm: Helm, kept: Path, path: Leaf) -> None:
    """The others of its group are missing then, and have their defaults."""
    given = option(path, another(path))
    assert template(helm, kept, given) == template(helm, CHART, *KEPT, given)


GROUPS = sorted({path[0] for path in NEW if len(path) > 1})


@pytest.mark.parametrize("group", GROUPS)
def test_a_new_group_may_be_enabled_alone(helm: Helm, kept: Path, group: str) -> None:
    """What is off by default renders nothing of its other values."""
    enabled = [option(path, True) for path in NEW if path[0] == group and path[-1] == "enabled"]
    assert template(helm, kept, *enabled) == template(helm, CHART, *KEPT, *enabled)
