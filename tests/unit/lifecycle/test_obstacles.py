"""Refusals that are pointless to repeat."""

import pytest

from dtj.api.reasons import Reason
from dtj.lifecycle.obstacles import Obstacle


@pytest.mark.parametrize(
    ("until_spec_changes", "generation", "blocks"),
    [(True, 3, True), (True, 4, False), (False, 3, False)],
    ids=["same spec", "new spec", "may go away by itself"],
)
def test_blocks(until_spec_changes: bool, generation: int, blocks: bool) -> None:
    obstacle = Obstacle(Reason.INVALID_TEMPLATE, "no", generation=3, until_spec_changes=until_spec_changes)

    assert obstacle.blocks(generation) is blocks
