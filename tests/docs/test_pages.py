"""What the pages must cover: every page linked, every example on its framework's page, every alert with a section."""

import re

import pytest
import yaml

from tests.docs import chart_values
from tests.docs.blocks import REPOSITORY

DOCS = REPOSITORY / "docs"
INDEX = (DOCS / "index.md").read_text(encoding="utf-8")
EXAMPLES = sorted(path.name for path in (REPOSITORY / "examples").glob("*.yaml"))
ALERTS = REPOSITORY / "helm" / "dtj-operator" / "alerts" / "dtj.yaml"
SCHEMA = {"properties": {"one": {"$ref": "#/$defs/number"}}, "$defs": {"number": {"type": "integer"}}}


def alerts() -> list[str]:
    groups = yaml.safe_load(ALERTS.read_text(encoding="utf-8"))["groups"]
    return [rule["alert"] for group in groups for rule in group["rules"]]


@pytest.mark.parametrize("page", sorted(str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")))
def test_the_start_page_links_every_page(page: str) -> None:
    assert page == "index.md" or f"]({page})" in INDEX


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_is_on_the_page_of_its_framework(example: str) -> None:
    page = DOCS / "frameworks" / f"{example.partition('-')[0]}.md"
    assert f"(../../examples/{example})" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize("alert", alerts())
def test_an_alert_has_a_section_with_what_to_do(alert: str) -> None:
    section = re.search(
        rf"^### {alert}\n\n(.+?)(?=^##|\Z)", (DOCS / "operations.md").read_text(), re.MULTILINE | re.DOTALL
    )
    assert section
    assert len(section[1].split()) > 20


def test_no_section_is_about_an_alert_that_is_none() -> None:
    assert set(re.findall(r"^### (Dtj\w+)$", (DOCS / "operations.md").read_text(), re.MULTILINE)) == set(alerts())


def test_a_value_of_the_chart_becomes_a_row() -> None:
    (row,) = chart_values.rows("# How many.\n# Or none.\none: 1\n", SCHEMA)
    assert row.markdown() == "| `one` | integer | `1` | How many. Or none. |"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ("one: 1\n", "values.yaml: one has no comment above it"),
        ("# Two.\ntwo: 2\n", "values.schema.json does not know two"),
    ],
)
def test_a_value_without_its_words_or_its_type_is_a_mistake(values: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        list(chart_values.rows(values, SCHEMA))
