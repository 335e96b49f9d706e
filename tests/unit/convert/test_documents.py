"""YAML as Kubernetes reads and people like it."""

import pytest

from dtj.convert.documents import read_documents, write_documents
from dtj.convert.notes import ConversionError


def test_dates_are_text() -> None:
    assert read_documents("kind: A\nvalue: 2024-05-06\ntime: 2024-05-06T07:08:09Z") == [
        {"kind": "A", "value": "2024-05-06", "time": "2024-05-06T07:08:09Z"}
    ]


def test_a_list_is_its_items() -> None:
    assert read_documents("kind: List\nitems: [{kind: A}, {kind: B}]\n---\n\n---\nkind: C") == [
        {"kind": "A"},
        {"kind": "B"},
        {"kind": "C"},
    ]


WRONG = {
    "no YAML": "a: [",
    "a word": "hello",
    "a list": "- kind: A",
    "no text": b"\xff\xfe\n",
    "a date of no calendar": "a: !!timestamp 2024-99-99",
    "too deep": "[" * 500,
}


@pytest.mark.parametrize("content", WRONG.values(), ids=WRONG.keys())
def test_what_is_no_manifest(content: bytes | str) -> None:
    with pytest.raises(ConversionError):
        read_documents(content)


def test_scripts_are_blocks_and_numbers_stand_in_a_line() -> None:
    shared = {"a": 1}
    text = write_documents([{"script": "one\ntwo\n", "codes": [1, 2], "x": shared, "y": shared}])

    assert text == "script: |\n  one\n  two\ncodes: [1, 2]\nx:\n  a: 1\ny:\n  a: 1\n"
