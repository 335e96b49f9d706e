"""What is told of the training, from all that was heard of it, in order of trust."""

import json
from collections.abc import Mapping, Sequence
from math import inf, nan
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtj.lifecycle.agent_report import AgentReport
from dtj_agent.ranks import Heartbeat
from dtj_agent.state import News, Place, State

PLACE = Place(job_uid="0b1c", attempt=2, node_rank=0, world_size=4)
FRAME = {"jobUid": "0b1c", "attempt": 2, "nodeRank": 0, "running": True}


class Clock:
    def __init__(self) -> None:
        self.now = 5000.0

    def __call__(self) -> float:
        return self.now


def told(*news: News, apart_s: float = 1.0) -> dict[str, Any]:
    """The numbers right after the last of ``news``, without times."""
    clock = Clock()
    state = State(PLACE, clock)
    for each in news:
        clock.now += apart_s
        state.hear(each)
    times = {"reportAge", "stepAge", "secondsPerStep", "secondsPerChange", *FRAME}
    return {name: value for name, value in state.progress().items() if name not in times}


LOSS = {"loss": 0.5}
TQDM = News("tqdm", step=450, total_steps=1000)
KERAS = News("keras", step=12, total_steps=9370, epoch=1, total_epochs=10, metrics=LOSS)
KERAS_TOLD = {
    "source": "keras", "step": 12, "totalSteps": 9370, "epoch": 1, "totalEpochs": 10, "firstStep": 12, "metrics": LOSS
}  # fmt: skip
LOG = News("transformers", epoch=0.25, metrics=LOSS)
PATTERN = News("pattern", step=7)
PATTERN_TOLD = {"source": "pattern", "step": 7, "firstStep": 7}
FACE = News("huggingface", step=70, total_steps=100, percent=70, eta_seconds=3)
FACE_TOLD = {"source": "huggingface", "step": 70, "totalSteps": 100, "firstStep": 70}
REPORT = News("report", step=30, total_steps=50, metrics={"accuracy": 0.9})
REPORT_TOLD = {"source": "report", "step": 30, "totalSteps": 50, "firstStep": 30, "metrics": {"accuracy": 0.9}}


@pytest.mark.parametrize(
    ("news", "expected"),
    [
        pytest.param([], {}, id="nothing"),
        pytest.param([KERAS], KERAS_TOLD, id="one source"),
        pytest.param([KERAS, TQDM, KERAS], KERAS_TOLD, id="a preset before tqdm's bar"),
        pytest.param([TQDM, KERAS, TQDM], KERAS_TOLD, id="a preset after tqdm's bar"),
        pytest.param([KERAS, PATTERN, KERAS, TQDM], PATTERN_TOLD, id="the user's pattern after a preset"),
        pytest.param([PATTERN, FACE, PATTERN, KERAS], FACE_TOLD, id="Hugging Face after a pattern"),
        pytest.param([FACE, REPORT, FACE, PATTERN, KERAS, TQDM], REPORT_TOLD, id="a report after all"),
        pytest.param([REPORT, FACE, PATTERN, KERAS, TQDM], REPORT_TOLD, id="a report before all"),
        pytest.param(
            [KERAS, News("torchtitan", step=5, metrics={"tps": 9})],
            {**KERAS_TOLD, "metrics": {"loss": 0.5, "tps": 9}},
            id="the first of two presets counts the steps",
        ),
        pytest.param(
            [LOG, TQDM, LOG._replace(epoch=0.5)],
            {"source": "tqdm", "step": 450, "totalSteps": 1000, "firstStep": 450, "epoch": 0.5, "metrics": LOSS},
            id="lines with losses go along with the bar",
        ),
        pytest.param([LOG], {"source": "transformers", "epoch": 0.25, "metrics": LOSS}, id="only an epoch"),
        pytest.param(
            [News("pattern", metrics=LOSS), TQDM, News("pattern", metrics={"loss": 0.4})],
            {"source": "tqdm", "step": 450, "totalSteps": 1000, "firstStep": 450, "metrics": {"loss": 0.4}},
            id="a pattern for the loss, and a bar for the step",
        ),
        pytest.param(
            [KERAS, News("report", metrics={"accuracy": 0.9})],
            {**KERAS_TOLD, "metrics": {"loss": 0.5, "accuracy": 0.9}},
            id="a report of metrics only",
        ),
        pytest.param(
            [REPORT, News("report", step=31), News("report", metrics={"accuracy": 1})],
            {**REPORT_TOLD, "step": 31, "metrics": {"accuracy": 1}},
            id="what is left out stays",
        ),
        pytest.param(
            [News("huggingface", percent=30, eta_seconds=60)],
            {"source": "huggingface", "percent": 30, "etaSeconds": 60},
            id="no steps",
        ),
        pytest.param(
            [FACE, News("huggingface", percent=100, eta_seconds=0)], {**FACE_TOLD, "step": 100}, id="the end is full"
        ),
        pytest.param(
            [FACE._replace(eta_seconds=600), News("huggingface", percent=100, eta_seconds=0)],
            FACE_TOLD,
            id="stopped early",
        ),
        pytest.param(
            [
                News("huggingface", total_steps=100, percent=40),
                TQDM._replace(step=0, total_steps=100),
                TQDM._replace(step=41, total_steps=100),
                FACE,
            ],
            {**FACE_TOLD, "firstStep": 41},
            id="a bar knows the first step of what Hugging Face counts",
        ),
        pytest.param(
            [TQDM._replace(step=41, total_steps=100), FACE], {**FACE_TOLD, "firstStep": 41}, id="it came before"
        ),
        pytest.param(
            [TQDM._replace(step=0), TQDM],
            {"source": "tqdm", "step": 450, "totalSteps": 1000, "firstStep": 450},
            id="a bar begins at 0",
        ),
        pytest.param([REPORT._replace(step=0), REPORT], {**REPORT_TOLD, "firstStep": 0}, id="a report begins at 0"),
        pytest.param(
            [REPORT._replace(step=20), REPORT._replace(step=5)],
            {**REPORT_TOLD, "step": 5, "firstStep": 20},
            id="a step that goes back",
        ),
    ],
)
def test_the_most_trusted_source_counts(news: Sequence[News], expected: Mapping[str, Any]) -> None:
    assert told(*news) == expected


@pytest.mark.parametrize(
    ("news", "expected"),
    [
        pytest.param({"step": -1}, {}, id="negative"),
        pytest.param({"step": 2**53, "total_steps": 0}, {}, id="too large, and nothing to do"),
        pytest.param({"step": 10**400}, {}, id="far too large"),
        pytest.param({"step": True}, {}, id="no number"),
        pytest.param({"step": "12"}, {}, id="text"),
        pytest.param({"step": 12.0}, {"step": 12, "firstStep": 12}, id="whole float"),
        pytest.param({"epoch": nan, "total_epochs": inf}, {}, id="not finite"),
        pytest.param({"percent": 250.0}, {"percent": 100}, id="more than all"),
        pytest.param({"samples_per_second": 99.25}, {"samplesPerSecond": 99.25}, id="samples"),
        pytest.param(
            {"metrics": {"a": nan, "b": -inf, "c": 1.5, "d": -0.0}}, {"metrics": {"c": 1.5, "d": 0}}, id="nan"
        ),
        pytest.param({"metrics": {"": 1, "\x1b[1m": 2, "x" * 99: 3}}, {"metrics": {"[1m": 2, "x" * 64: 3}}, id="names"),
        pytest.param(
            {"metrics": {f"m{i}": i for i in range(99)}}, {"metrics": {f"m{i}": i for i in range(16)}}, id="many"
        ),
    ],
)
def test_what_is_no_number_is_left_out(news: dict[str, Any], expected: Mapping[str, Any]) -> None:
    assert told(News("report", **news)) == {"source": "report", **expected}


def test_times_are_ages_of_the_monotonic_clock() -> None:
    clock = Clock()
    state = State(PLACE, clock)
    state.hear(REPORT._replace(age=1e9))  # older than the agent
    assert "stepAge" not in state.progress(), "where it begins is no step yet"
    state.hear(REPORT._replace(step=31))
    clock.now += 20
    state.hear(REPORT._replace(step=31, age=9.0))  # the process lives, and tells again what it told 9 s ago
    clock.now += 1
    progress = state.progress()
    assert (progress["reportAge"], progress["stepAge"]) == (10, 21)


def test_pace_is_of_the_source_that_counts() -> None:
    clock = Clock()
    state = State(PLACE, clock)
    for step in range(40):
        clock.now += 0.5
        state.hear(News("tqdm", step=10 * step))
        state.hear(News("report", step=step, samples=32 * step))
    progress = state.progress()
    assert (progress["stepsPerSecond"], progress["secondsPerStep"], progress["secondsPerChange"]) == (2, 0.5, 0.5)
    assert progress["samplesPerSecond"] == 64


def test_no_pace_is_more_than_the_operator_takes() -> None:
    clock = Clock()
    state = State(PLACE, clock)
    for step in range(5):
        clock.now += 0.25
        state.hear(News("report", step=step * 2**51))
    told = state.progress()
    assert told["stepsPerSecond"] == 2**53 - 1
    msgspec.convert(told, AgentReport)


def test_other_ranks_are_told_of() -> None:
    clock = Clock()
    state = State(PLACE, clock)
    state.hear_rank(Heartbeat(0, clock.now, 10))
    state.hear_rank(Heartbeat(1, clock.now, 10))
    state.hear_rank(Heartbeat(4, clock.now, 10))  # of four: 0 to 3
    state.hear_rank(None)
    assert state.progress() == {**FRAME, "ranks": {"reporting": 2}}


def test_the_end_and_the_last_line() -> None:
    state = State(PLACE, Clock(), last_line=lambda: "\x1b[1msaved\t" + "x" * 999)
    state.hear(REPORT)
    state.end()
    progress = state.progress()
    assert (progress["running"], progress["lastLine"]) == (False, ("[1msaved " + "x" * 999)[:256])
    assert state.last_words() == REPORT_TOLD


@pytest.mark.parametrize(
    ("environ", "place"),
    [
        pytest.param({}, Place(None, None, None, 1), id="by hand"),
        pytest.param(
            {
                "DTJ_JOB_UID": "0b1c", "DTJ_ATTEMPT": "2", "DTJ_NODE_RANK": "0", "DTJ_NNODES": "2",
                "DTJ_PROCESSES_PER_REPLICA": "2",
            },
            PLACE,
            id="in a job",
        ),
        pytest.param({"DTJ_ATTEMPT": "-1", "DTJ_NNODES": "many", "DTJ_NODE_RANK": "9" * 40},
            Place(None, None, None, 1),
            id="nonsense",
        ),
    ],
)  # fmt: skip
def test_place(environ: Mapping[str, str], place: Place) -> None:
    assert Place.from_environment(environ) == place


NUMBERS = st.none() | st.integers() | st.floats() | st.booleans() | st.sampled_from([2**53 - 2, 2**53 - 1, 2**53])
NEWS = st.builds(
    News,
    source=st.sampled_from(["report", "huggingface", "pattern", "keras", "transformers", "tqdm"]),
    step=NUMBERS,
    total_steps=NUMBERS,
    epoch=NUMBERS,
    total_epochs=NUMBERS,
    percent=NUMBERS,
    eta_seconds=NUMBERS,
    samples=NUMBERS,
    samples_per_second=NUMBERS,
    metrics=st.dictionaries(st.text(max_size=99), NUMBERS, max_size=20),
    age=NUMBERS,
)
BEATS = st.builds(
    Heartbeat, st.integers(0, 5), st.floats(0, 5000), st.none() | st.integers(0, 99), local_seconds=st.floats(0, 9)
)


@given(st.lists(st.tuples(st.floats(0, 100), NEWS | BEATS)))
def test_what_is_told_is_always_plain_and_bounded(heard: list[tuple[float, News | Heartbeat]]) -> None:
    clock = Clock()
    state = State(PLACE, clock, last_line=lambda: "\U0001f600" * 999)
    for passed, each in heard:
        clock.now += passed
        state.hear(each) if isinstance(each, News) else state.hear_rank(each)
    text = json.dumps(state.progress(), allow_nan=False)
    msgspec.json.decode(text, type=AgentReport)  # as the operator reads it
    assert len(text) < 16 * 1024
    assert "null" not in text
    assert all(value >= 0 for name, value in state.progress().items() if name.endswith("Age"))
