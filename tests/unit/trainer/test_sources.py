"""The library imports in any training image, and Lightning finds what it is told of."""

import ast
import pkgutil
import sys
import tomllib
from pathlib import Path

import pytest

from dtj_trainer.lightning import for_lightning, for_pytorch_lightning
from trainer_images.build import ROOT

PROJECT = ROOT / "trainer_images/lib/pyproject.toml"
SOURCES = sorted((ROOT / "trainer_images/lib/src/dtj_trainer").glob("*.py"))


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.name)
def test_it_needs_nothing_but_python_3_9(source: Path) -> None:
    tree = ast.parse(source.read_text(), feature_version=(3, 9))
    plain = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    named = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    imported = {name.partition(".")[0] for name in plain | named}
    assert imported <= sys.stdlib_module_names | {"dtj_trainer"}


def test_lightnings_entry_points_lead_to_functions() -> None:
    groups = tomllib.loads(PROJECT.read_text())["project"]["entry-points"]
    found = {group: [pkgutil.resolve_name(name) for name in points.values()] for group, points in groups.items()}
    assert found == {
        "lightning.pytorch.callbacks_factory": [for_lightning],
        "pytorch_lightning.callbacks_factory": [for_pytorch_lightning],
    }
