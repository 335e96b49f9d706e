"""Every place of a pod template that names a Secret, found in the template's schema: none can be forgotten."""

from collections.abc import Iterator
from typing import Any

from dtj.api import pod_template
from tests.api.client import Object
from tests.api.resource import TEMPLATE

Schema = dict[str, Any]
Path = tuple[str, ...]

REFERENCES = frozenset({"secretRef", "secretKeyRef", "nodePublishSecretRef"})
EACH = "[]"
TYPES: dict[str, object] = {"string": "a", "integer": 1, "boolean": False, "array": [], "object": {}}


def places() -> dict[str, Path]:
    """The path to each name of a Secret below the template's spec, by the path as text."""
    found = _names_of_secrets(pod_template.cached()["properties"]["spec"], ())
    return {".".join(path).replace(f".{EACH}", EACH): path for path in found}


def pod_spec(secret: str, path: Path) -> Object:
    """A pod's spec that names the Secret there, with what the schema requires around it."""
    built: Object = _built(pod_template.cached()["properties"]["spec"], path, secret)
    return {**built, "containers": built["containers"] or TEMPLATE["spec"]["containers"]}


def _names_of_secrets(schema: Schema, path: Path) -> Iterator[Path]:
    if "items" in schema:
        yield from _names_of_secrets(schema["items"], (*path, EACH))
    for name, part in schema.get("properties", {}).items():
        if name == "secretName":
            yield (*path, name)
        elif name in REFERENCES or (name == "secret" and "name" in part["properties"]):
            yield (*path, name, "name")
        elif name == "imagePullSecrets":
            yield (*path, name, EACH, "name")
        else:
            yield from _names_of_secrets(part, (*path, name))


def _built(schema: Schema, path: Path, leaf: str) -> Any:  # noqa: ANN401
    if not path:
        return leaf
    step, *rest = path
    if step == EACH:
        return [_built(schema["items"], tuple(rest), leaf)]
    required = {name: TYPES[schema["properties"][name]["type"]] for name in schema.get("required", ())}
    return {**required, step: _built(schema["properties"][step], tuple(rest), leaf)}
