"""Reports from training code, through the socket that the agent opens for the processes it starts."""

import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dtj_agent import protocol
from dtj_agent.endpoints import Endpoints
from dtj_agent.reports import Reports
from dtj_agent.state import Place, State

WITHOUT_HUGGING_FACE = {"http_proxy": "http://proxy"}
TOKEN = "a1b2"  # noqa: S105 - of this test


class Agent:
    """The receiving half, and a process that sends to it."""

    def __init__(self) -> None:
        opened = Endpoints(WITHOUT_HUGGING_FACE)
        assert opened.reports is not None
        self.state = State(Place("0b1c", 0, 0, 4), clock=lambda: 100.0)
        self.reports = Reports(opened.reports, TOKEN, self.state)
        self.process = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.process.connect("\0" + opened.variables[protocol.SOCKET])

    def send(self, data: bytes) -> None:
        self.process.send(data)
        self.reports.receive()

    def report(self, **fields: Any) -> None:  # noqa: ANN401 - whatever JSON can say
        self.send(json.dumps({"token": TOKEN, "local": 0, **fields}).encode())

    @property
    def told(self) -> dict[str, Any]:
        frame = {"jobUid", "attempt", "nodeRank", "running", "reportAge", "stepAge"}
        return {name: value for name, value in self.state.progress().items() if name not in frame}


@pytest.fixture
def agent() -> Iterator[Agent]:
    agent = Agent()
    yield agent
    agent.process.close()
    agent.reports.socket.close()


def test_a_report_is_all_of_it(agent: Agent) -> None:
    agent.report(
        rank=0, step=12, totalSteps=500, epoch=1.5, totalEpochs=10, samples=384, metrics={"loss": 0.5}, age=1.0,
        phase="forward", localSeconds=0.2, final=False,
    )  # fmt: skip
    assert agent.told == {
        "source": "report", "step": 12, "totalSteps": 500, "firstStep": 12, "epoch": 1.5, "totalEpochs": 10,
        "metrics": {"loss": 0.5}, "ranks": {"reporting": 1},
    }  # fmt: skip
    beat = {"rank": 0, "step": 12, "age": 0, "stepAge": 0, "localSeconds": 0.2, "phase": "forward"}
    assert agent.state.heartbeats() == [beat]


def test_the_first_process_of_the_pod_speaks_for_it(agent: Agent) -> None:
    agent.report(rank=0, step=12)
    agent.report(rank=1, local=1, step=11)
    assert agent.told == {"source": "report", "step": 12, "firstStep": 12, "ranks": {"reporting": 2}}


def test_a_process_without_rank(agent: Agent) -> None:
    agent.report(step=12)
    assert agent.told == {"source": "report", "step": 12, "firstStep": 12}


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"{", id="half"),
        pytest.param(b"[1]", id="a list"),
        pytest.param(b"\xff\xfe\x00", id="bytes"),
        pytest.param(b"[" * 8000, id="deep"),
        pytest.param(b"9" * 8000, id="a number that is too long"),
        pytest.param(b'{"local": 0, "step": 5}', id="no token"),
        pytest.param(b'{"token": "", "local": 0, "step": 5}', id="empty token"),
        pytest.param('{"token": "a1b2é", "local": 0, "step": 5}'.encode(), id="wrong token"),
        pytest.param(b'{"token": "\\ud800", "local": 0, "step": 5}', id="token that is no text"),
        pytest.param(b'{"token": 5, "local": 0, "step": 5}', id="token of another type"),
        pytest.param(b'{"token": "a1b2", "local": 0, "step": 5' + b" " * 8192 + b"}", id="too long"),
    ],
)
def test_what_is_no_report_is_ignored(agent: Agent, data: bytes) -> None:
    agent.report(step=12)
    agent.send(data)
    assert agent.told["step"] == 12


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)
FIELDS = ["rank", "local", "step", "totalSteps", "epoch", "metrics", "samples", "phase", "localSeconds", "age", "final"]


@given(st.dictionaries(st.sampled_from(FIELDS), JSON))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_it_says_the_answer_stays_json(agent: Agent, fields: dict[str, Any]) -> None:
    agent.report(**fields)
    json.dumps(agent.state.progress(), allow_nan=False)


def test_more_than_it_takes_at_once_waits(agent: Agent) -> None:
    agent.process.setblocking(False)
    sent = 0
    try:
        while sent < 200:
            agent.process.send(json.dumps({"token": TOKEN, "local": 0, "step": sent}).encode())
            sent += 1
    except BlockingIOError:
        assert sent > 0
    for _ in range(sent):
        agent.reports.receive()
    assert agent.told["step"] == sent - 1


def test_another_agent_of_the_pod_has_another_name() -> None:
    both = [Endpoints(WITHOUT_HUGGING_FACE) for _ in range(2)]
    for each in both:
        assert each.reports is not None
        socket.socket(fileno=each.reports).close()
    assert both[0].variables[protocol.SOCKET] != both[1].variables[protocol.SOCKET]
    assert both[0].variables[protocol.REPORT_TOKEN] != both[1].variables[protocol.REPORT_TOKEN]
