"""Text to documents and back: YAML as Kubernetes reads it."""

from collections.abc import Iterable
from typing import Any

import yaml

from dtj.convert.notes import ConversionError

_TIMESTAMP = "tag:yaml.org,2002:timestamp"


class _Loader(yaml.SafeLoader):
    """Without dates: to Kubernetes they are strings."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != _TIMESTAMP]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


class _Dumper(yaml.SafeDumper):
    """Scripts as blocks, lists of numbers on a line, nothing by reference."""

    def ignore_aliases(self, data: object) -> bool:
        del data
        return True


def _text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


def _list(dumper: _Dumper, values: list[object]) -> yaml.SequenceNode:
    numbers = bool(values) and all(isinstance(value, int) for value in values)
    return dumper.represent_sequence("tag:yaml.org,2002:seq", values, flow_style=numbers)


_Dumper.add_representer(str, _text)
_Dumper.add_representer(list, _list)


def read_documents(content: bytes | str) -> list[dict[str, Any]]:
    """Return the objects in a YAML stream, those of a ``List`` one by one; raise ConversionError if it is not YAML."""
    try:
        documents = [each for each in yaml.load_all(content, _Loader) if each is not None]
    except (yaml.YAMLError, UnicodeDecodeError, ValueError) as error:
        raise ConversionError(f"not YAML: {error}") from error
    except RecursionError as error:
        raise ConversionError("nested too deeply") from error
    found: list[dict[str, Any]] = []
    for document in documents:
        if not isinstance(document, dict):
            raise ConversionError("expected Kubernetes objects with apiVersion and kind")
        items = document.get("items")
        if str(document.get("kind", "")).endswith("List") and isinstance(items, list):
            found.extend(item for item in items if isinstance(item, dict))
        else:
            found.append(document)
    return found


def write_documents(manifests: Iterable[dict[str, Any]]) -> str:
    """Return manifests as a YAML stream."""
    return yaml.dump_all(manifests, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)
