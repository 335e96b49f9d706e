"""Whatever stands in a manifest: a conversion or a sentence, never a traceback."""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest

from dtj.convert import convert
from dtj.convert.assemble import refusals
from dtj.convert.notes import ConversionError
from tests.unit.convert.manifests import NAMES, sample

JUNK: tuple[Any, ...] = (None, "x", "", -1, 0, 7, 0.5, True, [], [None], ["x"], [[]], [{}], {}, {"x": 7}, {"name": 7})

Path = tuple[str | int, ...]


def paths(value: object, above: Path = ()) -> Iterator[Path]:
    """The paths of all that is inside of a value."""
    inner: Iterator[tuple[str | int, object]] = iter(())
    if isinstance(value, dict):
        inner = iter(value.items())
    elif isinstance(value, list):
        inner = enumerate(value)
    for key, below in inner:
        yield (*above, key)
        yield from paths(below, (*above, key))


def replaced(value: Any, path: Path, junk: object) -> Any:  # noqa: ANN401 - any JSON value
    result = deepcopy(value)
    inside = result
    for key in path[:-1]:
        inside = inside[key]
    inside[path[-1]] = junk
    return result


def outcome(documents: list[Any]) -> str:
    """The sentence that refuses the input; empty if it was converted."""
    try:
        for job in convert(documents).jobs:
            refusals(job.manifest)
    except ConversionError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("name", NAMES)
def test_any_part_replaced_by_anything(name: str) -> None:
    documents = sample(name)
    inside = [path for path in paths(documents) if len(path) > 1]
    sentences = {outcome(replaced(documents, path, junk)) for path in inside for junk in JUNK}

    assert "" in sentences
    assert len(sentences) > 10
    assert not any("\n" in sentence for sentence in sentences)
