"""Models → CustomResourceDefinition. ``python -m dtj.api.crd --write`` makes the files, ``--check`` compares them.

There are two files of the same definition; the chart's copy is a template that Helm keeps on uninstall, since deleting
the definition would delete every job. The third file is the reference for people.
"""

import argparse
import sys
from pathlib import Path
from typing import Any, Final

import yaml

from dtj.api import names, pod_template, reference, rules, unsupported
from dtj.api.job import DistributedTrainingJob
from dtj.api.model import INT32_MAX, POD_TEMPLATE, Value
from dtj.api.rules import Rule
from dtj.api.spec import JobSpec
from dtj.api.status import JobStatus

Schema = dict[str, Any]

MAX_BYTES: Final = 262_144
"""Limit of all annotations of an object: plain ``kubectl apply`` keeps the whole definition in one."""

GENERATED: Final = "Generated from the models in operator/src/dtj/api by `make generate`; do not edit."
CRD_FILE: Final = f"crds/{names.PLURAL}.{names.GROUP}.yaml"
CHART_FILE: Final = "helm/dtj-operator/templates/crd.yaml"
CHART_CONDITION: Final = 'if include "dtj-operator.on" (.Values.crds).install'
"""When the chart brings the definition; a value of the chart."""
REFERENCE_FILE: Final = "docs/reference/api.md"
VALIDATIONS: Final = "x-kubernetes-validations"

COLUMNS: Final = (
    ("Phase", "string", ".status.phase", "Where the job is.", 0),
    ("Ready", "string", ".status.ready", "Ready pods and how many there should be.", 0),
    ("Progress", "string", ".status.progress.completed", "How much of the training is done.", 0),
    ("ETA", "string", ".status.progress.eta", "Time still needed, as far as can be told.", 0),
    ("Restarts", "integer", ".status.restarts", "Failures survived.", 0),
    ("Reason", "string", ".status.reason", "Why the job is where it is.", 0),
    ("Age", "date", ".metadata.creationTimestamp", "Time since the job was created.", 0),
    ("Framework", "string", ".spec.framework", "Wiring of the pods.", 1),
    ("Step", "integer", ".status.progress.step", "Last finished step.", 1),
    ("Rate", "string", ".status.progress.rate", "Speed of the training.", 1),
    ("Attempt", "integer", ".status.attempt", "Which attempt this is, from 0.", 1),
)


def definition() -> dict[str, Any]:
    """Return the CustomResourceDefinition as plain JSON values."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{names.PLURAL}.{names.GROUP}"},
        "spec": {
            "group": names.GROUP,
            "names": {
                "kind": names.KIND,
                "listKind": f"{names.KIND}List",
                "plural": names.PLURAL,
                "singular": names.SINGULAR,
                "shortNames": [names.SHORT_NAME],
                "categories": ["all"],
            },
            "scope": "Namespaced",
            "versions": [
                {
                    "name": names.VERSION,
                    "served": True,
                    "storage": True,
                    "additionalPrinterColumns": [_column(*column) for column in COLUMNS],
                    "subresources": {
                        "status": {},
                        "scale": {
                            "specReplicasPath": ".spec.replicas",
                            "statusReplicasPath": ".status.replicas",
                            "labelSelectorPath": ".status.selector",
                        },
                    },
                    "schema": {"openAPIV3Schema": _root_schema()},
                }
            ],
        },
    }


def _column(name: str, kind: str, path: str, description: str, priority: int) -> dict[str, Any]:
    column = {"name": name, "type": kind, "jsonPath": path, "description": description}
    return column | ({"priority": priority} if priority else {})


def _root_schema() -> Schema:
    spec = structural_schema(JobSpec)
    spec["description"] = str(DistributedTrainingJob.model_fields["spec"].description)
    spec[VALIDATIONS] = _entries((*unsupported.RULES, *rules.SPEC))
    spec["properties"]["failurePolicy"]["properties"]["rules"]["items"][VALIDATIONS] = _entries(rules.FAILURE_RULE)
    status = structural_schema(JobStatus, defaults=False)
    status["description"] = str(DistributedTrainingJob.model_fields["status"].description)
    return {
        "type": "object",
        "description": DistributedTrainingJob.__doc__,
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string", "description": f"Always {names.API_VERSION}."},
            "kind": {"type": "string", "description": f"Always {names.KIND}."},
            "metadata": {"type": "object", "properties": {"name": {"type": "string"}}},  # for the rules' field path
            "spec": spec,
            "status": status,
        },
        VALIDATIONS: _entries(rules.NAME),
    }


def _entries(entries: tuple[Rule, ...]) -> list[dict[str, Any]]:
    return [entry.schema() for entry in entries]


def structural_schema(model: type[Value], *, defaults: bool = True) -> Schema:
    """Return the model's schema as the API server wants it: references inlined, no null, titles or unions.

    ``defaults=False`` leaves default values out, as for a status, which only its writer fills.
    """
    schema = model.model_json_schema(by_alias=True)
    return _structural(schema, schema.get("$defs", {}), defaults=defaults)


def _structural(node: Schema, definitions: Schema, *, defaults: bool) -> Schema:
    node = _without_null(node)
    if "$ref" in node:
        target = definitions[node["$ref"].removeprefix("#/$defs/")]
        node = target | {keyword: value for keyword, value in node.items() if keyword != "$ref"}
    if node.pop(POD_TEMPLATE, False):
        return _pod_template(node["description"])
    dropped = {"title", "$defs"}
    if not defaults or node.get("default") is None:
        dropped.add("default")
    if node.get("additionalProperties") is False:  # the API server prunes or refuses unknown fields by itself
        dropped.add("additionalProperties")
    result = {keyword: value for keyword, value in node.items() if keyword not in dropped}
    if isinstance(result.get("default"), dict):
        result["default"] = {name: value for name, value in result["default"].items() if value is not None}
    if "properties" in result:
        result["properties"] = {
            name: _structural(value, definitions, defaults=defaults) for name, value in result["properties"].items()
        }
    if "items" in result:
        result["items"] = _structural(result["items"], definitions, defaults=defaults)
    if result.get("type") == "integer":
        result["format"] = "int32" if result["maximum"] <= INT32_MAX else "int64"
    return result


def _without_null(node: Schema) -> Schema:
    """A field that may be None in Python is simply optional in a CRD."""
    if "anyOf" not in node:
        return dict(node)
    choices = [choice for choice in node["anyOf"] if choice.get("type") != "null"]
    if len(choices) != 1:
        raise TypeError(f"a CRD field has one type, but this has {len(choices)}: {node}")
    return _without_null(choices[0] | {keyword: value for keyword, value in node.items() if keyword != "anyOf"})


def _pod_template(description: str) -> Schema:
    return {"description": description, **pod_template.load(), VALIDATIONS: _entries(rules.TEMPLATE)}


class _Dumper(yaml.SafeDumper):
    """Writes every value out: the two pod templates would otherwise become an anchor and an alias."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002
        return True


def crd_text() -> str:
    """Return the content of ``crds/``'s file."""
    return f"# {GENERATED}\n{_yaml(definition())}"


def chart_text() -> str:
    """Return the content of the chart's template."""
    content = definition()
    content["metadata"]["annotations"] = {"helm.sh/resource-policy": "keep"}
    text = _yaml(content).replace("{{", '{{ "{{" }}')
    # In comments, so that the file is YAML as it stands.
    return f"# {GENERATED}\n# {{{{ {CHART_CONDITION} }}}}\n{text}# {{{{ end }}}}\n"


def reference_text() -> str:
    """Return the reference as Markdown: every field of spec and status with its type, default and description."""
    schema = _root_schema()
    sections = (reference.sections(name, schema["properties"][name]) for name in ("spec", "status"))
    return f"<!-- {GENERATED} -->\n\n# {names.KIND} {names.API_VERSION}\n\n{schema['description']}\n{''.join(sections)}"


def _yaml(content: dict[str, Any]) -> str:
    return yaml.dump(content, Dumper=_Dumper, sort_keys=False, width=120, allow_unicode=True)


def main(arguments: list[str]) -> int:
    """Write or check the files under ``--root`` (the repository; default: the current folder)."""
    parser = argparse.ArgumentParser(prog="python -m dtj.api.crd", description=__doc__)
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--write", action="store_true", help="write the files")
    action.add_argument("--check", action="store_true", help="fail when a file is not what would be written")
    parser.add_argument("--root", type=Path, default=Path(), help="the repository's folder")
    options = parser.parse_args(arguments)
    files = {CRD_FILE: crd_text(), CHART_FILE: chart_text(), REFERENCE_FILE: reference_text()}
    stale = []
    for name, text in files.items():
        path = options.root / name
        if options.write:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        elif not path.is_file() or path.read_text(encoding="utf-8") != text:
            stale.append(name)
    for name in stale:
        print(f"{name} is not what the models say: run `make generate`", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
