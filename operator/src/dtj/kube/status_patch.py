"""The smallest merge patch between two JSON objects (RFC 7386)."""

from typing import Any


def merge_patch(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """What to send so that ``old`` becomes ``new``; lists are replaced whole, what is gone becomes null."""
    patch: dict[str, Any] = dict.fromkeys(old.keys() - new.keys())
    for key, value in new.items():
        before = old.get(key)
        if isinstance(value, dict) and isinstance(before, dict):
            if changed := merge_patch(before, value):
                patch[key] = changed
        elif key not in old or before != value:
            patch[key] = value
    return patch
