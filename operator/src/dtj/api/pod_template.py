"""Schema of a pod template: the cluster's own PodTemplateSpec, structural and small enough to stand in a CRD twice.

The committed ``pod_template.json`` is rewritten from what a running API server of version ``KUBERNETES`` says of its
core API; the document in the Kubernetes source serves too, but lacks the possible values of enumerations::

    kubectl get --raw /openapi/v3/api/v1 | python -m dtj.api.pod_template -
"""

import json
import sys
from collections.abc import Mapping
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any, Final

Schema = dict[str, Any]

KUBERNETES: Final = "1.36"
DATA: Final = Path(__file__).with_name("pod_template.json")
ROOT: Final = "io.k8s.api.core.v1.PodTemplateSpec"
REF_PREFIX: Final = "#/components/schemas/"
QUANTITY: Final = "io.k8s.apimachinery.pkg.api.resource.Quantity"
INT_OR_STRING: Final = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"

QUANTITY_PATTERN: Final = r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?$"
OBJECT_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
METADATA_KEPT: Final = ("annotations", "creationTimestamp", "labels")
"""All that a template's metadata can say: the operator makes names, and ``creationTimestamp: null`` is what generators
such as ``kubectl create --dry-run -o yaml`` leave behind."""
SPEC_DROPPED: Final = ("ephemeralContainers",)
"""A pod can't be created with them."""
KEYWORDS_KEPT: Final = (
    "type",
    "format",
    "enum",
    "required",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-map-type",
)
MAX_DEPTH: Final = 32

MAX_ITEMS: Final = {"containers": 16, "initContainers": 16, "env": 512}
"""Without them the API server must assume the worst and refuses the rules that look into these lists as too costly."""
MAX_NAME: Final = 256
MAX_LABELS: Final = 128


@cache
def cached() -> Schema:
    """Return the same as ``load``, to read only."""
    return load()


def load() -> Schema:
    """Return the pod template's schema as it stands in the CRD, without rules; the caller owns the copy."""
    template: Schema = json.loads(DATA.read_text(encoding="utf-8"))
    template["required"] = ["spec"]
    metadata, spec = template["properties"]["metadata"]["properties"], template["properties"]["spec"]["properties"]
    for name in ("labels", "annotations"):
        metadata[name]["maxProperties"] = MAX_LABELS
    spec["containers"]["minItems"] = 1
    for kind in ("containers", "initContainers"):
        spec[kind]["maxItems"] = MAX_ITEMS[kind]
        container = spec[kind]["items"]["properties"]
        container["name"]["maxLength"] = MAX_NAME
        container["env"]["maxItems"] = MAX_ITEMS["env"]
        container["env"]["items"]["properties"]["name"]["maxLength"] = MAX_NAME
    return template


def extract(document: Mapping[str, Any]) -> Schema:
    """Return the structural schema of PodTemplateSpec from an OpenAPI v3 document of the core API.

    References are inlined; descriptions and defaults are left out, except the defaults of keys of list maps.
    Raises ValueError when the document has no PodTemplateSpec or is recursive.
    """
    definitions: Mapping[str, Schema] = document.get("components", {}).get("schemas", {})
    if ROOT not in definitions:
        raise ValueError(f"the document describes no {ROOT}: it is not the core API's (/openapi/v3/api/v1)")
    template = _structural(definitions[ROOT], definitions, depth=0)
    for name in SPEC_DROPPED:
        del template["properties"]["spec"]["properties"][name]
    return template


def text(document: Mapping[str, Any]) -> str:
    """Return the content of ``pod_template.json`` for an OpenAPI v3 document of the core API."""
    return json.dumps(extract(document), separators=(",", ":")) + "\n"


def _structural(node: Schema, definitions: Mapping[str, Schema], depth: int) -> Schema:
    if depth > MAX_DEPTH:
        raise ValueError(f"the schema of {ROOT} is nested deeper than {MAX_DEPTH} levels: is it recursive?")
    name, node = _resolve(node, definitions)
    if name == QUANTITY:
        return _int_or_string() | {"pattern": QUANTITY_PATTERN}
    if name == INT_OR_STRING:
        return _int_or_string()
    result: Schema = {keyword: deepcopy(node[keyword]) for keyword in KEYWORDS_KEPT if keyword in node}
    if "properties" in node:
        result["properties"] = {
            key: _structural(value, definitions, depth + 1)
            for key, value in sorted(node["properties"].items())
            if name != OBJECT_META or key in METADATA_KEPT
        }
    if name == OBJECT_META:
        result["properties"]["creationTimestamp"]["nullable"] = True
    for keyword in ("items", "additionalProperties"):
        if keyword in node:
            result[keyword] = _structural(node[keyword], definitions, depth + 1)
    if result.get("type") == "array":
        _complete_list(result, node["items"], definitions)
    return result


def _resolve(node: Schema, definitions: Mapping[str, Schema]) -> tuple[str, Schema]:
    """Follow a reference, written plainly or as a single ``allOf``; return its name ("" for none) and its target."""
    reference = node.get("$ref") or next((part["$ref"] for part in node.get("allOf", ())), None)
    if reference is None:
        return "", node
    name = reference.removeprefix(REF_PREFIX)
    return name, definitions[name]


def _int_or_string() -> Schema:
    return {"x-kubernetes-int-or-string": True}


def _complete_list(result: Schema, items: Schema, definitions: Mapping[str, Schema]) -> None:
    """A list says how it merges, and the keys of a list map are there or have a default: the API server insists."""
    result.setdefault("x-kubernetes-list-type", "atomic")
    _, original = _resolve(items, definitions)
    for key in result.get("x-kubernetes-list-map-keys", ()):
        default = original["properties"][key].get("default")
        if key not in result["items"].get("required", ()):
            result["items"]["properties"][key]["default"] = default


def main(arguments: list[str]) -> int:
    """Rewrite ``pod_template.json``; the one argument is the path of the OpenAPI document, or ``-``."""
    if len(arguments) != 1:
        print("usage: python -m dtj.api.pod_template FILE|-   (OpenAPI v3 document of the core API)", file=sys.stderr)
        return 2
    try:
        document = sys.stdin.read() if arguments[0] == "-" else Path(arguments[0]).read_text(encoding="utf-8")
        DATA.write_text(text(json.loads(document)), encoding="utf-8")
    except (OSError, ValueError) as error:
        print(f"{arguments[0]}: {error}", file=sys.stderr)
        return 1
    print(f"{DATA.name}: {DATA.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
