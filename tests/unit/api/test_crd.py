"""The generated definition: structural, complete, bounded, current."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from dtj.api import crd, rules, unsupported

REPOSITORY = Path(__file__).parents[3]
SCHEMA: crd.Schema = crd.definition()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
POD_TEMPLATES = ("spec.template", "spec.roles[].template")
WITHOUT_BOUND = {
    "status.progress.stepsPerSecond",
    "status.progress.samplesPerSecond",
    "status.progress.slowestRank.silentSeconds",
    "status.progress.slowestRank.localSeconds",
    "status.progress.slowestRank.typicalLocalSeconds",
    "status.progress.metrics[].value",
}
"""Measured numbers, which have no natural maximum."""


def nodes(node: crd.Schema, path: str = "") -> Iterator[tuple[str, crd.Schema]]:
    """Every schema with its path: ``spec.roles[].name``; ``{}`` stands for the values of a map."""
    yield path, node
    for name, value in node.get("properties", {}).items():
        yield from nodes(value, f"{path}.{name}" if path else name)
    for keyword, mark in (("items", "[]"), ("additionalProperties", "{}")):
        if keyword in node:
            yield from nodes(node[keyword], path + mark)


NODES = dict(nodes(SCHEMA))
OWN = {path: node for path, node in NODES.items() if not path.startswith(tuple(f"{at}." for at in POD_TEMPLATES))}
LISTS = {path: node for path, node in NODES.items() if node.get("type") == "array"}
LEAVES = {path: node for path, node in OWN.items() if node["type"] not in {"object", "array"}}


def test_files_are_what_the_models_say() -> None:
    assert crd.main(["--check", "--root", str(REPOSITORY)]) == 0


def test_check_names_the_file_that_is_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    crd.main(["--write", "--root", str(tmp_path)])
    (tmp_path / crd.CHART_FILE).write_text("edited by hand", encoding="utf-8")

    assert crd.main(["--check", "--root", str(tmp_path)]) == 1
    assert capsys.readouterr().err == f"{crd.CHART_FILE} is not what the models say: run `make generate`\n"


def test_reference_has_every_field_and_no_pod_template() -> None:
    text = crd.reference_text()
    named = [path.rpartition(".")[2].removesuffix("[]") for path in OWN if path.startswith(("spec.", "status."))]

    assert [name for name in named if f"| `{name}` |" not in text] == []
    assert "imagePullPolicy" not in text


def test_check_names_missing_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert crd.main(["--check", "--root", str(tmp_path)]) == 1
    assert crd.CRD_FILE in capsys.readouterr().err


def test_written_files_pass_the_check(tmp_path: Path) -> None:
    crd.main(["--write", "--root", str(tmp_path)])

    assert crd.main(["--check", "--root", str(tmp_path)]) == 0


def test_yaml_says_what_the_definition_says() -> None:
    assert yaml.safe_load(crd.crd_text()) == crd.definition()


def test_the_chart_keeps_its_copy_on_uninstall() -> None:
    chart = yaml.safe_load(crd.chart_text())

    assert chart["metadata"].pop("annotations") == {"helm.sh/resource-policy": "keep"}
    assert chart == crd.definition()


def test_plain_apply_can_keep_the_definition_in_an_annotation() -> None:
    assert len(json.dumps(crd.definition(), separators=(",", ":"))) < crd.MAX_BYTES


@pytest.mark.parametrize("keyword", ["$ref", "$defs", "title", "anyOf", "allOf", "oneOf", "const", "prefixItems"])
def test_no_schema_uses(keyword: str) -> None:
    assert [path for path, node in NODES.items() if keyword in node] == []


def test_every_schema_has_one_type() -> None:
    untyped = [path for path, node in NODES.items() if "type" not in node]

    assert [path for path in untyped if not NODES[path].get("x-kubernetes-int-or-string")] == []


@pytest.mark.parametrize("path", LISTS)
def test_list_says_how_it_merges(path: str) -> None:
    keys = LISTS[path].get("x-kubernetes-list-map-keys", [])
    items = LISTS[path]["items"]

    assert LISTS[path]["x-kubernetes-list-type"] in ({"map"} if keys else {"set", "atomic"})
    assert [
        key for key in keys if key not in items.get("required", ()) and "default" not in items["properties"][key]
    ] == []


@pytest.mark.parametrize("path", [path for path in LISTS if path in OWN])
def test_list_has_a_maximum(path: str) -> None:
    assert LISTS[path]["maxItems"] > 0


@pytest.mark.parametrize("path", LEAVES)
def test_value_is_bounded(path: str) -> None:
    node = LEAVES[path]
    bounds = {"maximum", "maxLength", "enum"} & node.keys()

    type_meta = path in {"apiVersion", "kind", "metadata.name"}
    free = path in WITHOUT_BOUND or node.get("format") == "date-time" or node["type"] == "boolean" or type_meta
    assert bool(bounds) != free


@pytest.mark.parametrize(
    "path", [path for path in OWN if path and not path.startswith("metadata") and path[-2:] != "[]"]
)
def test_field_has_a_description(path: str) -> None:
    assert OWN[path]["description"].endswith(".")


def test_status_has_no_defaults() -> None:
    assert [path for path, node in OWN.items() if path.startswith("status") and "default" in node] == []


def test_defaults_of_the_spec() -> None:
    defaults = {path: node["default"] for path, node in OWN.items() if "default" in node}

    assert defaults == {
        "spec.replicas": 1,
        "spec.roles[].replicas": 1,
        "spec.suspend": False,
        "spec.managedBy": "dtj.dev/operator",
        "spec.failurePolicy.rules[].onPodConditions[].status": "True",
        "spec.failurePolicy": {"maxRestarts": 3},
        "spec.failurePolicy.maxRestarts": 3,
        "spec.cleanupPolicy": "Running",
        "spec.progress": {"intervalSeconds": 10},
        "spec.progress.intervalSeconds": 10,
        "spec.agent": {"mode": "Auto"},
        "spec.agent.mode": "Auto",
        "spec.networkIsolation": "None",
    }


@pytest.mark.parametrize("column", crd.COLUMNS, ids=[column[0] for column in crd.COLUMNS])
def test_column_shows_a_field_that_exists(column: tuple[str, str, str, str, int]) -> None:
    path = column[2].removeprefix(".")

    assert path in NODES or path == "metadata.creationTimestamp"


def rules_with_level() -> Iterator[tuple[str, dict[str, Any]]]:
    for path, node in NODES.items():
        for entry in node.get(crd.VALIDATIONS, ()):
            yield path, entry


@pytest.mark.parametrize(("level", "entry"), list(rules_with_level()), ids=lambda value: str(value)[:40])
def test_rule_points_at_a_field_that_exists(level: str, entry: dict[str, str]) -> None:
    field = (level + entry.get("fieldPath", "")).removeprefix(".")

    assert field in NODES
    assert entry["message"]


def test_every_rule_is_in_the_definition() -> None:
    written = [entry for _, entry in rules_with_level()]
    declared = (*rules.NAME, *rules.SPEC, *rules.TEMPLATE, *rules.FAILURE_RULE, *unsupported.RULES)

    assert [rule for rule in declared if rule.schema() not in written] == []


def test_nothing_is_refused_twice_for_not_working_yet() -> None:
    paths = [row.path for row in unsupported.TABLE]

    assert len(set(paths)) == len(paths)
