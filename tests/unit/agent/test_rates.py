"""The pace of training, from sightings that come regularly, in bursts, twice, late or not at all."""

from collections.abc import Iterable
from math import isfinite

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtj_agent.rates import Pace

Sightings = Iterable[tuple[float, float]]


def after(sightings: Sightings) -> Pace:
    pace = Pace()
    for now, step in sightings:
        pace.saw(now, step)
    return pace


def steady(seconds_per_step: float, steps: int, begin: float = 0.0, first: int = 1) -> list[tuple[float, float]]:
    return [(begin + i * seconds_per_step, first + i) for i in range(steps)]


@pytest.mark.parametrize(
    ("sightings", "per_second"),
    [
        pytest.param([], None, id="nothing"),
        pytest.param(steady(1, 3), None, id="only what is ignored"),
        pytest.param(steady(0.5, 40), 2, id="each step"),
        pytest.param(steady(0.001, 5000), 1000, id="a thousand a second"),
        pytest.param(steady(3600, 5), 1 / 3600, id="one an hour"),
        pytest.param([(t, 500 * t / 150) for t in range(0, 1500, 150)], 500 / 150, id="a line every 500 steps"),
        pytest.param([(0, 0), (90, 1), (95, 2), *steady(0.5, 40, 95.5, 3)], 2, id="compilation at the start"),
        pytest.param([(0, 0), (1, 90_000), *steady(0.5, 40, 1.5, 90_001)], 2, id="a jump to the checkpoint"),
        pytest.param([s for s in steady(1, 50) for _ in range(3)], 1, id="each told three times"),
        pytest.param(
            [(10.0 * block, 100 * block + i) for block in range(10) for i in range(100)], 10, id="lines in blocks"
        ),
        pytest.param(
            [(10.0 * block + i / 1000, 100 * block + i) for block in range(10) for i in range(100)][:-99],
            10,
            id="lines in blocks, one after the other",
        ),
        pytest.param([*steady(0.5, 40), *steady(0.5, 40, 320, 41)], 2, id="validation for five minutes"),
        pytest.param([*steady(0.5, 200), *steady(5, 100, 105, 201)], 0.2, id="slower for good"),
        pytest.param([*steady(5, 100), *steady(0.5, 400, 500, 101)], 2, id="faster for good"),
        pytest.param([*steady(0.5, 40), *steady(2, 40, 20)], 0.5, id="a new fit"),
        pytest.param([*steady(0.5, 40), (20, 1), (21, 2)], None, id="a new fit, just begun"),
    ],
)
def test_pace(sightings: Sightings, per_second: float | None) -> None:
    assert after(sightings).per_second == (None if per_second is None else pytest.approx(per_second, rel=0.02))


def test_a_pause_does_not_change_what_is_usual() -> None:
    pace = after([*steady(0.5, 40), *steady(0.5, 10, 320, 41)])
    assert pace.usual_seconds == pytest.approx(0.5)


def test_one_sighting_may_stand_for_many_steps() -> None:
    pace = after((t, 500 * t / 150) for t in range(0, 1500, 150))
    assert pace.usual_seconds == pytest.approx(0.3)
    assert pace.usual_interval == pytest.approx(150)


COUNTS = st.floats(0, 2**53) | st.integers(0, 2**53)
INTERVALS = st.floats(0, 1e6) | st.sampled_from([0.0, 0.0001, 0.2, 1.0, 30.0])


@given(st.lists(st.tuples(INTERVALS, COUNTS)))
def test_it_is_never_absurd(moves: list[tuple[float, float]]) -> None:
    pace, now = Pace(), 0.0
    for passed, count in moves:
        now += passed
        pace.saw(now, count)
        for value in (pace.per_second, pace.usual_seconds, pace.usual_interval):
            assert value is None or (isfinite(value) and value > 0)


@given(st.floats(0.001, 1000), st.lists(st.integers(1, 20), min_size=8, max_size=200), st.floats(0, 1e9))
def test_steps_at_one_pace_give_this_pace_however_they_are_told(
    seconds_per_step: float, strides: list[int], begin: float
) -> None:
    step, pace = 0, Pace()
    for stride in strides:
        step += stride
        pace.saw(begin + step * seconds_per_step, step)
    if pace.per_second is not None:
        assert pace.per_second == pytest.approx(1 / seconds_per_step, rel=0.01)


@given(st.floats(0.001, 1000), st.floats(0.01, 100), st.integers(5, 50))
def test_a_new_fit_begins_anew(before: float, after_it: float, steps: int) -> None:
    old = steady(before, 30)
    new = steady(after_it, steps, begin=old[-1][0] + 1)
    assert after([*old, *new]).per_second == after(new).per_second
