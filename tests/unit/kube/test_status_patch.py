"""The smallest merge patch: applied to the old object it gives the new one."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtj.kube.status_patch import merge_patch

Json = dict[str, Any]

_keys = st.sampled_from("abc")
_leaves = st.one_of(st.booleans(), st.integers(0, 3), st.text(max_size=2), st.lists(st.integers(0, 2), max_size=2))
_values: st.SearchStrategy[Any] = st.recursive(_leaves, lambda inner: st.dictionaries(_keys, inner, max_size=3))
objects: st.SearchStrategy[Json] = st.dictionaries(_keys, _values, max_size=3)


def apply(target: object, patch: object) -> object:
    """RFC 7386, section 2."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = apply(result.get(key), value)
    return result


@given(objects, objects)
def test_the_patch_makes_the_new_of_the_old(old: Json, new: Json) -> None:
    assert apply(old, merge_patch(old, new)) == new


@given(objects)
def test_nothing_changed_nothing_sent(same: Json) -> None:
    assert merge_patch(same, same) == {}


@given(objects, objects)
def test_only_what_changed_is_sent(old: Json, new: Json) -> None:
    assert not [key for key in merge_patch(old, new) if key in old and key in new and old[key] == new[key]]


PATCHES: dict[str, tuple[Json, Json, Json]] = {
    "added": ({}, {"a": 1}, {"a": 1}),
    "changed": ({"a": 1, "b": 2}, {"a": 3, "b": 2}, {"a": 3}),
    "gone": ({"a": 1}, {}, {"a": None}),
    "inside": ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1}}, {"a": {"c": None}}),
    "a list is replaced whole": ({"a": [1, 2]}, {"a": [1, 3]}, {"a": [1, 3]}),
    "an object takes a list's place": ({"a": [1]}, {"a": {"b": 1}}, {"a": {"b": 1}}),
    "an empty object appears": ({}, {"a": {}}, {"a": {}}),
}


@pytest.mark.parametrize(("old", "new", "patch"), PATCHES.values(), ids=PATCHES.keys())
def test_patch(old: Json, new: Json, patch: Json) -> None:
    assert merge_patch(old, new) == patch
