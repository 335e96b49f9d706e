"""How many nodes may fall silent before nobody believes it."""

import pytest

from dtj.lifecycle.children import NodeCondition
from dtj.lifecycle.node_loss import believable

SILENT = NodeCondition("Ready", "Unknown")

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


@pytest.mark.parametrize(("silent", "nodes", "believed"), SHARES.values(), ids=SHARES.keys())
def test_share(silent: int, nodes: int, believed: bool) -> None:
    lost = {f"node-{number}": SILENT for number in range(silent)}

    assert believable(lost, nodes) == (lost if believed else {})
