"""The chart's values as a page for people: `python -m tests.docs.chart_values --write` makes it, `--check` compares it.

What a value means is the comment above it in values.yaml, its type comes from values.schema.json.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

REPOSITORY: Final = Path(__file__).parents[2]
CHART: Final = REPOSITORY / "helm" / "dtj-operator"
PAGE: Final = REPOSITORY / "docs" / "reference" / "chart.md"
HEAD: Final = """\
<!-- Generated from helm/dtj-operator/values.yaml and values.schema.json by `make generate`; do not edit. -->

# Values of the chart

`helm upgrade --install … --set NAME=VALUE`, or a file with `--values`. A value that is not listed here, or of another
type, is refused. A dot leads into an object: `image.tag` is `tag` in `image`.

| value | type | default | |
|---|---|---|---|
"""

Schema = dict[str, Any]


@dataclass(frozen=True)
class Row:
    """One value; ``type`` and ``default`` are empty for an object whose values have rows of their own."""

    path: str
    type: str
    default: str
    meaning: str

    def markdown(self) -> str:
        return "| " + " | ".join((f"`{self.path}`", self.type, self.default, self.meaning.replace("|", "\\|"))) + " |"


def rows(values: str, schema: Schema) -> Iterator[Row]:
    """Every value of the text of a values.yaml, in its order; ValueError where one has no comment or no schema."""
    root = yaml.compose(values, Loader=yaml.SafeLoader)
    yield from _rows("", root, schema, schema, values.splitlines())


def _rows(prefix: str, node: Any, schema: Schema, root: Schema, lines: list[str]) -> Iterator[Row]:  # noqa: ANN401
    for key, value in node.value:
        path = f"{prefix}{key.value}"
        if key.value not in schema.get("properties", {}):
            raise ValueError(f"values.schema.json does not know {path}")
        inner = _resolved(schema["properties"][key.value], root)
        meaning = _comment_above(key.start_mark.line, lines)
        if not meaning:
            raise ValueError(f"values.yaml: {path} has no comment above it")
        if "properties" in inner and isinstance(value, yaml.MappingNode):
            yield Row(path, "", "", meaning)
            yield from _rows(f"{path}.", value, inner, root, lines)
        else:
            yield Row(path, _type(inner), _default(value), meaning)


def _resolved(schema: Schema, root: Schema) -> Schema:
    if "$ref" not in schema:
        return schema
    target: Any = root
    for step in schema["$ref"].removeprefix("#/").split("/"):
        target = target[step]
    return _resolved(target, root)


def _comment_above(line: int, lines: list[str]) -> str:
    words: list[str] = []
    while line > 0 and lines[line - 1].lstrip().startswith("#"):
        line -= 1
        words.insert(0, lines[line].lstrip().removeprefix("#").strip())
    return " ".join(words)


def _type(schema: Schema) -> str:
    if "enum" in schema:
        return " ".join(f"`{choice}`" for choice in schema["enum"])
    kind = schema.get("type", "any")
    return " or ".join(kind) if isinstance(kind, list) else str(kind)


def _default(node: Any) -> str:  # noqa: ANN401
    loader = yaml.SafeLoader("")
    return f"`{json.dumps(loader.construct_document(node))}`"


def page() -> str:
    """Return the page as Markdown."""
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    table = rows((CHART / "values.yaml").read_text(encoding="utf-8"), schema)
    return HEAD + "".join(f"{row.markdown()}\n" for row in table)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.docs.chart_values", description=__doc__)
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--write", action="store_true", help="write the page")
    action.add_argument("--check", action="store_true", help="fail when the page is not what would be written")
    if parser.parse_args(arguments).write:
        PAGE.write_text(page(), encoding="utf-8")
    elif not PAGE.is_file() or PAGE.read_text(encoding="utf-8") != page():
        sys.stderr.write(f"{PAGE.relative_to(REPOSITORY)} is not what the chart says: run `make generate`\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
