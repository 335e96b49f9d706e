"""From the cluster's OpenAPI document to a structural schema."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from dtj.api import pod_template

ITEM = {
    "type": "object",
    "description": "left out",
    "required": ["name"],
    "properties": {
        "name": {"type": "string", "default": ""},
        "protocol": {"type": "string", "default": "TCP", "enum": ["TCP", "UDP"]},
    },
}


def document(**pod_fields: Any) -> dict[str, Any]:  # noqa: ANN401
    """A core API whose pod spec has these fields."""
    spec = {"type": "object", "properties": {"ephemeralContainers": {"type": "array", "items": ITEM}} | pod_fields}
    metadata = {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "labels": {"type": "object", "additionalProperties": {"type": "string", "default": ""}},
            "annotations": {"type": "object", "additionalProperties": {"type": "string", "default": ""}},
            "creationTimestamp": reference("Time"),
        },
    }
    definitions = {
        pod_template.ROOT: {
            "type": "object",
            "properties": {
                "metadata": {"allOf": [reference(pod_template.OBJECT_META)], "default": {}},
                "spec": {"allOf": [reference("PodSpec")], "default": {}},
            },
        },
        "PodSpec": spec,
        pod_template.OBJECT_META: metadata,
        pod_template.QUANTITY: {"oneOf": [{"type": "string"}, {"type": "number"}]},
        pod_template.INT_OR_STRING: {"oneOf": [{"type": "integer"}, {"type": "string"}], "format": "int-or-string"},
        "Time": {"type": "string", "format": "date-time"},
        "Item": ITEM,
        "Endless": {"type": "object", "properties": {"again": reference("Endless")}},
    }
    return {"components": {"schemas": definitions}}


def reference(name: str) -> dict[str, str]:
    return {"$ref": f"{pod_template.REF_PREFIX}{name}"}


def extracted(**pod_fields: Any) -> dict[str, Any]:  # noqa: ANN401
    properties: dict[str, Any] = pod_template.extract(document(**pod_fields))["properties"]["spec"]["properties"]
    return properties


FIELDS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "description and default are left out": (
        {"type": "boolean", "description": "x", "default": False},
        {"type": "boolean"},
    ),
    "format and enum stay": (
        {"type": "string", "format": "byte", "enum": ["a"]},
        {"type": "string", "format": "byte", "enum": ["a"]},
    ),
    "a quantity": (
        reference(pod_template.QUANTITY),
        {"x-kubernetes-int-or-string": True, "pattern": pod_template.QUANTITY_PATTERN},
    ),
    "a port": (reference(pod_template.INT_OR_STRING), {"x-kubernetes-int-or-string": True}),
    "a reference": (reference("Time"), {"type": "string", "format": "date-time"}),
    "a map": (
        {"type": "object", "additionalProperties": reference(pod_template.INT_OR_STRING)},
        {"type": "object", "additionalProperties": {"x-kubernetes-int-or-string": True}},
    ),
    "a list that says nothing of merging": (
        {"type": "array", "items": {"type": "string", "default": ""}},
        {"type": "array", "x-kubernetes-list-type": "atomic", "items": {"type": "string"}},
    ),
    "a list map keeps the defaults of its optional keys only": (
        {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name", "protocol"],
            "x-kubernetes-patch-strategy": "merge",
            "items": {"allOf": [reference("Item")], "default": {}},
        },
        {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name", "protocol"],
            "items": {
                "type": "object",
                "required": ["name"],
                "properties": {
                    "name": {"type": "string"},
                    "protocol": {"type": "string", "enum": ["TCP", "UDP"], "default": "TCP"},
                },
            },
        },
    ),
}


@pytest.mark.parametrize(("field", "expected"), FIELDS.values(), ids=FIELDS.keys())
def test_field(field: dict[str, Any], expected: dict[str, Any]) -> None:
    assert extracted(field=field) == {"field": expected}


def test_metadata_is_what_a_template_can_say() -> None:
    metadata = pod_template.extract(document())["properties"]["metadata"]["properties"]

    assert metadata == {
        "annotations": {"type": "object", "additionalProperties": {"type": "string"}},
        "creationTimestamp": {"type": "string", "format": "date-time", "nullable": True},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
    }


def test_a_recursive_schema_is_refused() -> None:
    with pytest.raises(ValueError, match="recursive"):
        extracted(field=reference("Endless"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{}", "it is not the core API's"),
        ("not JSON", "Expecting value"),
    ],
)
def test_wrong_document_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str, message: str
) -> None:
    path = tmp_path / "openapi.json"
    path.write_text(content, encoding="utf-8")
    committed = pod_template.DATA.read_bytes()

    assert pod_template.main([str(path)]) == 1
    error = capsys.readouterr().err
    assert error.startswith(str(path))
    assert message in error
    assert pod_template.DATA.read_bytes() == committed


def test_missing_document_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert pod_template.main([str(tmp_path / "none.json")]) == 1
    assert "none.json" in capsys.readouterr().err


def test_usage_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert pod_template.main([]) == 2
    assert "usage:" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["1", "0", "0.5", ".5", "500m", "64Gi", "1e9", "1E3", "+1", "-1", "100k", "1Ki", "2."])
def test_quantity(text: str) -> None:
    assert re.fullmatch(pod_template.QUANTITY_PATTERN, text)


@pytest.mark.parametrize("text", ["16GB", "", "four", "1 Gi", "1K", "1gi", "1.2.3", "e9", "Gi", "."])
def test_no_quantity(text: str) -> None:
    assert not re.fullmatch(pod_template.QUANTITY_PATTERN, text)


def test_committed_schema_is_compact() -> None:
    text = pod_template.DATA.read_text(encoding="utf-8")

    assert text == json.dumps(json.loads(text), separators=(",", ":")) + "\n"


def test_callers_own_what_they_load() -> None:
    pod_template.load()["properties"].clear()

    assert pod_template.load()["properties"]
