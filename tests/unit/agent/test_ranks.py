"""Which rank holds up the others, from what each said of itself, and when."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtj_agent.ranks import Heartbeat, Ranks, Track, heartbeat

NOW = 1000.0
PHASES = {1: "data"}


def beat(
    rank: int, age: float = 1.0, step: int | None = None, local: float | None = None, *, final: bool = False
) -> Heartbeat:
    return Heartbeat(rank, NOW - age, step, local_seconds=local, phase=PHASES.get(rank), final=final)


def track(steps_per_second: float) -> Track:
    """Of a training that was at step 1000 now."""
    known = Track()
    for seconds in range(60, -1, -1):
        known.saw(NOW - seconds, int(1000 - seconds * steps_per_second))
    return known


def summary(*beats: Heartbeat, pace: float = 10.0) -> dict[str, Any] | None:
    ranks = Ranks(world_size=8)
    for each in beats:
        ranks.hear(each)
    return ranks.summary(NOW, track(pace), pace)


ALIKE = {"reporting": 3}


@pytest.mark.parametrize(
    ("beats", "expected"),
    [
        pytest.param([], None, id="none reports"),
        pytest.param([beat(0)], {"reporting": 1}, id="one"),
        pytest.param([beat(0, 0, 1000), beat(1, 4, 960), beat(2, 2, 980)], ALIKE, id="told at different times"),
        pytest.param([beat(0, 0, 1000), beat(1, 4, 957), beat(2, 2, 979)], ALIKE, id="underway for a moment"),
        pytest.param(
            [beat(0, 0, 1000), beat(1, 4, 900), beat(2, 2, 950)],
            {"reporting": 3, "slowest": {"rank": 1, "behindSteps": 60, "phase": "data"}},
            id="two behind",
        ),
        pytest.param(
            [beat(0, 0, 1000, 0.1), beat(1, 4, 900, 0.25), beat(2, 2, 980, 0.1)],
            {
                "reporting": 3,
                "slowest": {
                    "rank": 1,
                    "behindSteps": 60,
                    "localSeconds": 0.25,
                    "typicalLocalSeconds": 0.1,
                    "phase": "data",
                },
            },
            id="behind, and why",
        ),
        pytest.param([beat(0, local=0.1), beat(1, local=0.11), beat(2, local=0.105)], ALIKE, id="equally fast"),
        pytest.param(
            [beat(0, local=0.1), beat(1, local=0.12), beat(2, local=0.105), beat(3)],
            {
                "reporting": 4,
                "slowest": {
                    "rank": 1,
                    "behindSteps": 0,
                    "localSeconds": 0.12,
                    "typicalLocalSeconds": 0.105,
                    "phase": "data",
                },
            },
            id="in step, but slower",
        ),
        pytest.param(
            [beat(0, local=0.1), beat(1, local=0.3)],
            {
                "reporting": 2,
                "slowest": {
                    "rank": 1,
                    "behindSteps": 0,
                    "localSeconds": 0.3,
                    "typicalLocalSeconds": 0.1,
                    "phase": "data",
                },
            },
            id="the slower of two",
        ),
        pytest.param(
            [beat(0, local=0.1), beat(1, age=45, local=0.1), beat(2, age=31)],
            {"reporting": 1, "slowest": {"rank": 1, "silentSeconds": 45.0}},
            id="frozen",
        ),
        pytest.param([beat(0, age=45), beat(1, age=40)], {"reporting": 0}, id="all silent"),
        pytest.param([beat(0), beat(1), beat(2), beat(3, age=45, final=True)], ALIKE, id="one has finished"),
        pytest.param([beat(0, final=True), beat(1, final=True)], {"reporting": 0}, id="all have finished"),
        pytest.param([beat(0), beat(1), beat(2), beat(8), beat(10**9)], ALIKE, id="ranks that the job does not have"),
        pytest.param([beat(0), beat(1), beat(2), beat(2, age=5, local=9.9)], ALIKE, id="an older one comes later"),
    ],
)
def test_summary(beats: list[Heartbeat], expected: dict[str, Any] | None) -> None:
    assert summary(*beats) == expected


def test_a_step_stands_since_it_was_first_told() -> None:
    ranks = Ranks(world_size=1)
    for now, step in ((10, 5), (20, 5), (30, 6), (40, 6)):
        ranks.hear(Heartbeat(0, heard_at=now, step=step))
    assert ranks.messages(now=45) == [{"rank": 0, "age": 5, "step": 6, "stepAge": 15}]


def test_track_between_sightings() -> None:
    known = Track()
    for now, step in ((10, 100), (20, 200)):
        known.saw(now, step)
    assert [known.at(time) for time in (9, 10, 15, 20, 99)] == [None, 100, 150, 200, 200]


def test_track_forgets_an_earlier_fit() -> None:
    known = Track()
    for now, step in ((10, 100), (20, 200), (30, 5)):
        known.saw(now, step)
    assert [known.at(time) for time in (20, 30)] == [None, 5]


@given(st.lists(st.tuples(st.floats(0, 10), st.integers(0, 100)), max_size=400))
def test_track_stays_within_what_it_saw(moves: list[tuple[float, int]]) -> None:
    known, now, step = Track(), 0.0, 0
    for passed, steps in moves:
        now, step = now + passed, step + steps
        known.saw(now, step)
        for time in (now - 1, now, now + 1):
            found = known.at(time)
            assert found is None or 0 <= found <= step
    if moves:
        assert known.at(now) == step


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)
FIELDS = ["rank", "age", "step", "stepAge", "localSeconds", "phase", "final"]


@given(JSON | st.dictionaries(st.sampled_from(FIELDS), JSON), st.floats(0, 1e9))
def test_whatever_another_pod_sends_is_a_heartbeat_or_nothing(message: object, now: float) -> None:
    known = heartbeat(message, now)
    if known is not None:
        ranks = Ranks(world_size=4)
        ranks.hear(known)
        ranks.summary(now, Track(), None)
        assert known.heard_at <= now


def test_a_heartbeat_arrives_as_it_was_sent() -> None:
    sent = Heartbeat(3, 90.0, 120, 80.0, 0.5, "forward")
    assert heartbeat(sent.message(now=100.0), now=2100.0) == Heartbeat(3, 2090.0, 120, 2080.0, 0.5, "forward")
