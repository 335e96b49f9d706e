"""Schema → Markdown tables, one for each object: the reference of the API for people."""

from typing import Any

Schema = dict[str, Any]


def sections(path: str, schema: Schema) -> str:
    """Return a section for the object at ``path``, then one for each object inside it except pod templates."""
    lines = [
        f"\n## {path}\n",
        f"{schema.get('description', '')}\n",
        "| field | type | default | |",
        "|---|---|---|---|",
    ]
    properties: dict[str, Schema] = schema["properties"]
    lines += [_row(name, field, required=name in schema.get("required", ())) for name, field in properties.items()]
    inner = ((f"{path}.{name}", field) for name, field in properties.items() if not _is_pod_template(field))
    return "\n".join(lines) + "\n" + "".join(_inner_sections(at, field) for at, field in inner)


def _inner_sections(path: str, field: Schema) -> str:
    if field["type"] == "array":
        return _inner_sections(f"{path}[]", field["items"])
    return sections(path, field) if field["type"] == "object" else ""


def _is_pod_template(field: Schema) -> bool:
    return "containers" in field.get("properties", {}).get("spec", {}).get("properties", {})


def _row(name: str, field: Schema, *, required: bool) -> str:
    default = "required" if required else f"`{_plain(field['default'])}`" if "default" in field else ""
    description = " ".join(field["description"].split()).replace("|", "\\|")
    return f"| `{name}` | {_type(field)} | {default} | {description} |"


def _type(field: Schema) -> str:
    if field["type"] == "array":
        return f"list of {_type(field['items'])}, at most {field['maxItems']}"
    if "enum" in field:
        return " ".join(f"`{value}`" for value in field["enum"])
    if _is_pod_template(field):
        return "PodTemplateSpec"
    if field["type"] == "integer":
        return f"integer, {field['minimum']} to {field['maximum']}"
    return "time" if field.get("format") == "date-time" else str(field["type"])


def _plain(default: object) -> str:
    return str(default).lower() if isinstance(default, bool) else str(default)
