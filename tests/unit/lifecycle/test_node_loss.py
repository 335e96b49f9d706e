"""How many nodes may fall silent, and for how long they must be, before they count as lost."""

import pytest

from dtj.lifecycle.node_loss import SECONDS_FOR_FEW, SECONDS_FOR_MANY, lost_nodes

SHARES: dict[str, tuple[int, int, bool]] = {
    "none": (0, 10, True),
    "one of two": (1, 2, True),
    "two of three: a small cluster": (2, 3, True),
    "three of six": (3, 6, True),
    "three of five": (3, 5, False),
    "half of a large cluster": (50, 100, True),
    "more than half of it": (55, 100, False),
    "the only one": (1, 1, False),
    "both": (2, 2, False),
    "all": (100, 100, False),
}


def silent(count: int, seconds: float) -> dict[str, float]:
    return {f"node-{number}": seconds for number in range(count)}


@pytest.mark.parametrize(("count", "nodes", "believed"), SHARES.values(), ids=SHARES.keys())
def test_share(count: int, nodes: int, believed: bool) -> None:
    ages = silent(count, SECONDS_FOR_MANY)

    assert lost_nodes(ages, nodes) == (ages.keys() if believed else frozenset())


AGES: dict[str, tuple[int, int, float, bool]] = {
    "one of many, just now": (1, 10, 0.0, False),
    "one of many, a moment ago": (1, 10, SECONDS_FOR_FEW, True),
    "a tenth": (10, 100, SECONDS_FOR_FEW, True),
    "more than a tenth": (11, 100, SECONDS_FOR_FEW, False),
    "one of two, a moment ago": (1, 2, SECONDS_FOR_FEW, False),
    "one of two, for a while": (1, 2, SECONDS_FOR_MANY, True),
}


@pytest.mark.parametrize(("count", "nodes", "seconds", "lost"), AGES.values(), ids=AGES.keys())
def test_age(count: int, nodes: int, seconds: float, lost: bool) -> None:
    assert bool(lost_nodes(silent(count, seconds), nodes)) is lost


def test_in_a_network_failure_that_shows_node_by_node_no_node_is_lost() -> None:
    """All of a hundred nodes within ten seconds, in the order in which they miss their lease."""
    for moment in range(31):
        ages = {f"node-{number}": moment - number / 10 for number in range(100) if number / 10 <= moment}
        believed = lost_nodes(ages, 100)
        assert len(believed) <= len(ages) * 0.1 or len(ages) <= 10, (moment, len(believed))


def test_each_node_has_its_own_age() -> None:
    assert lost_nodes({"old": SECONDS_FOR_MANY, "new": 0.0}, 5) == {"old"}
