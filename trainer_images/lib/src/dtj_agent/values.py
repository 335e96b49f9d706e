"""Numbers and texts from outside made fit to be passed on, or left out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import isfinite

from dtj_agent.protocol import GREATEST_NUMBER, LONGEST_NAME, MOST_METRICS


def number(value: object) -> float | None:
    """A finite number that JSON carries unchanged; whole ones as int."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    # Not isfinite() first: it fails for whole numbers that are too large for a float.
    if isinstance(value, int):
        return value if abs(value) <= GREATEST_NUMBER else None
    if not isfinite(value):
        return None
    return int(value) if value.is_integer() and abs(value) <= GREATEST_NUMBER else value


def count(value: object) -> int | None:
    """A whole number from 0 on; fractions are cut off."""
    known = amount(value)
    return None if known is None else int(known)


def amount(value: object) -> float | None:
    """A number from 0 to the greatest whole one that JSON carries unchanged."""
    known = number(value)
    return known if known is not None and 0 <= known <= GREATEST_NUMBER else None


def text(value: object, longest: int) -> str | None:
    """At most ``longest`` printable characters; None when nothing is left."""
    if not isinstance(value, str):
        return None
    cut = value[: longest * 4]
    return "".join(character if character.isprintable() else " " for character in cut).strip()[:longest] or None


def metrics(*groups: object) -> dict[str, float]:
    """Finite numbers by name, later groups over earlier ones; names beyond the first 16 are left out."""
    found: dict[str, float] = {}
    for name, value in _pairs(groups):
        if len(found) < MOST_METRICS or name in found:
            found[name] = value
    return found


def _pairs(groups: Iterable[object]) -> Iterable[tuple[str, float]]:
    for group in groups:
        for given_name, given_value in group.items() if isinstance(group, Mapping) else ():
            name, value = text(given_name, LONGEST_NAME), number(given_value)
            if name is not None and value is not None:
                yield name, value
