"""The agent answers the operator, other agents and Hugging Face's callback, and whatever else may knock."""

import http.client
import json
import os
import socket
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dtj_agent import openmetrics, server
from dtj_agent.endpoints import HUGGING_FACE_TOKEN_FILE, HUGGING_FACE_URL, Endpoints, hugging_face_is_wanted
from dtj_agent.heartbeats import Messenger
from dtj_agent.ranks import Heartbeat
from dtj_agent.state import News, Place, State
from tests.unit.agent.serving import AGENT_TOKEN, REPORT_TOKEN, Serving, answer, request, serving

PLACE = Place("0b1c", 2, 0, 4)
REPORT = News("report", step=30, total_steps=50, metrics={"loss": 0.5, 'a"b\\': 1})
FACE = {
    "trainerStatus": {
        "progressPercentage": 12, "estimatedRemainingSeconds": 300, "lastUpdatedTime": "2026-01-01T00:00:00+00:00",
        "metrics": [
            {"name": "loss", "value": "0.5"}, {"name": "grad_norm", "value": "nan"}, {"name": "epoch", "value": "0.1"},
            {"name": "current_step", "value": "60"}, {"name": "total_steps", "value": "500"},
            {"name": "current_epoch", "value": "0.12"},
        ],
    }
}  # fmt: skip


@pytest.fixture
def served() -> Iterator[Serving]:
    with serving(PLACE) as running:
        yield running


def test_the_operator_reads_the_progress(served: Serving) -> None:
    served.state.hear(REPORT._replace(step=29))
    served.state.hear(REPORT)
    told = served.progress()
    assert 0 <= told.pop("reportAge") < 30
    assert 0 <= told.pop("stepAge") < 30
    assert told == {
        "jobUid": "0b1c", "attempt": 2, "nodeRank": 0, "running": True, "source": "report", "step": 30,
        "totalSteps": 50, "firstStep": 29, "metrics": {"loss": 0.5, 'a"b\\': 1},
    }  # fmt: skip


def test_clients_of_the_standard_library_understand_it(served: Serving) -> None:
    client = http.client.HTTPConnection(*served.address, timeout=30)
    client.request("GET", "/v1/progress?now", headers={"authorization": f"bearer  {AGENT_TOKEN} "})
    response = client.getresponse()
    assert (response.status, response.headers["Content-Type"]) == (200, "application/json")
    assert json.load(response)["jobUid"] == "0b1c"
    client.request("GET", "/healthz")
    assert client.getresponse().read() == b"ok\n"
    client.close()


@pytest.mark.parametrize(
    ("method", "path", "token", "status"),
    [
        pytest.param("GET", "/healthz", None, 200, id="health needs no token"),
        pytest.param("GET", "/v1/progress", None, 401, id="no token"),
        pytest.param("GET", "/v1/progress", "", 401, id="empty token"),
        pytest.param("GET", "/v1/progress", "a1b", 401, id="part of the token"),
        pytest.param("GET", "/v1/progress", "a1b2\xe9", 401, id="another token"),
        pytest.param("GET", "/v1/progress", REPORT_TOKEN, 401, id="the training's token"),
        pytest.param("GET", "/metrics", None, 401, id="metrics without token"),
        pytest.param("POST", "/v1/ranks", REPORT_TOKEN, 401, id="ranks with the training's token"),
        pytest.param("POST", "/v1/huggingface", AGENT_TOKEN, 401, id="Hugging Face with the operator's token"),
        pytest.param("POST", "/v1/progress", AGENT_TOKEN, 405, id="POST of what is read"),
        pytest.param("GET", "/v1/ranks", AGENT_TOKEN, 405, id="GET of what is sent"),
        pytest.param("GET", "/", AGENT_TOKEN, 404, id="no such path"),
        pytest.param("GET", "/v1/progress/..", AGENT_TOKEN, 404, id="no such path either"),
    ],
)
def test_who_may_ask_what(served: Serving, method: str, path: str, token: str | None, status: int) -> None:
    assert served.ask(path, token, method)[0] == status


def test_without_a_token_of_its_own_it_lets_nobody_in() -> None:
    with serving(PLACE, agent_token="") as running:
        assert [running.ask("/v1/progress", token)[0] for token in (None, "", "None")] == [401, 401, 401]


HEAD = b"GET /healthz HTTP/1.1\r\n"


@pytest.mark.parametrize(
    ("data", "status"),
    [
        pytest.param(b"\r\n\r\n", 400, id="nothing"),
        pytest.param(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400, id="TLS"),
        pytest.param(b"GET /healthz\r\n\r\n", 400, id="HTTP/0.9"),
        pytest.param(b"GET /healthz HTTP/2.0\r\n\r\n", 400, id="HTTP/2"),
        pytest.param(b"GET http://agent/healthz HTTP/1.1\r\n\r\n", 400, id="to a proxy"),
        pytest.param(HEAD + b"no colon\r\n\r\n", 200, id="a field without colon"),
        pytest.param(HEAD + b"Content-Length: -1\r\n\r\n", 400, id="negative length"),
        pytest.param(HEAD + b"Content-Length: \xb2\r\n\r\n", 400, id="length that is no number"),
        pytest.param(HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 411, id="chunks"),
        pytest.param(HEAD + b"Content-Length: 65537\r\n\r\n", 413, id="too much announced"),
        pytest.param(HEAD + b"Content-Length: 10000000\r\n\r\n" + b"x" * 10_000_000, 413, id="10 MB"),
        pytest.param(HEAD + b"A: " + b"x" * 9000 + b"\r\n\r\n", 431, id="a long head"),
        pytest.param(b"x" * 10_000_000, 431, id="10 MB without an end"),
    ],
)
def test_what_is_no_request_it_serves(served: Serving, data: bytes, status: int) -> None:
    # 0: it had closed before all was sent, and the answer was lost with it.
    assert served.send(data)[0] in ({status, 0} if len(data) > 1_000_000 else {status})
    assert served.ask("/healthz")[0] == 200


def test_a_request_that_comes_byte_by_byte(served: Serving) -> None:
    with served.connect() as connection:
        for byte in request("/v1/huggingface", REPORT_TOKEN, "POST", json.dumps(FACE).encode()):
            connection.sendall(bytes([byte]))
        assert answer(connection) == (200, b"")


def test_those_who_ask_half_and_wait_keep_nobody_out(served: Serving) -> None:
    half = request("/v1/progress", AGENT_TOKEN)[:-2]
    slow = [served.connect() for _ in range(40)]
    for connection in slow:
        connection.sendall(half)
    assert served.ask("/v1/progress")[0] == 200
    assert [answer(connection) for connection in slow] == [(0, b"")] * 40  # given up, each after 2 s at most
    for connection in slow:
        connection.close()


def test_the_oldest_is_given_up_for_the_newest() -> None:
    with serving(PLACE, clock=lambda: 0.0) as served:  # nobody is ever late
        slow = [served.connect() for _ in range(server.MOST_CONNECTIONS)]
        assert served.ask("/healthz")[0] == 200
        assert answer(slow[0]) == (0, b"")
        slow[-1].sendall(request("/healthz", None))
        assert answer(slow[-1])[0] == 200
        for connection in slow:
            connection.close()


def test_one_who_goes_at_once(served: Serving) -> None:
    for _ in range(50):
        served.connect().close()
    assert served.ask("/healthz")[0] == 200


@given(st.binary(max_size=300) | st.binary(max_size=100).map(lambda data: b"POST /v1/ranks HTTP/1.1\r\n" + data))
def test_any_bytes_are_a_request_or_not(data: bytes) -> None:
    assert isinstance(server.parse(data), (server.Request, server.Answer, type(None)))


def test_open_metrics(served: Serving) -> None:
    served.state.hear(REPORT)
    served.state.hear_rank(Heartbeat(0, served.state.now()))
    status, body = served.ask("/metrics")
    lines = [line for line in body.decode().splitlines() if "age" not in line]
    assert (status, lines) == (
        200,
        [
            "# TYPE dtj_training_running gauge",
            "# HELP dtj_training_running Whether the command runs: 1, or 0 when it has ended.",
            "dtj_training_running 1",
            "# TYPE dtj_training_step gauge",
            "# HELP dtj_training_step Step that training is at.",
            "dtj_training_step 30",
            "# TYPE dtj_training_total_steps gauge",
            "# HELP dtj_training_total_steps Steps of the whole training.",
            "dtj_training_total_steps 50",
            "# TYPE dtj_training_first_step gauge",
            "# HELP dtj_training_first_step First step of this attempt.",
            "dtj_training_first_step 30",
            "# TYPE dtj_training_ranks_reporting gauge",
            "# HELP dtj_training_ranks_reporting Ranks that report of themselves.",
            "dtj_training_ranks_reporting 1",
            "# TYPE dtj_training_metric gauge",
            "# HELP dtj_training_metric What the training tells of itself, by name.",
            'dtj_training_metric{name="loss"} 0.5',
            'dtj_training_metric{name="a\\"b\\\\"} 1',
            "# EOF",
        ],
    )
    assert openmetrics.text({"running": True}).endswith("dtj_training_running 1\n# EOF\n")


def test_hugging_face_reports(served: Serving) -> None:
    assert served.post("/v1/huggingface", REPORT_TOKEN, FACE) == 200
    told = served.progress()
    assert {name: told[name] for name in ("source", "step", "totalSteps", "epoch", "metrics")} == {
        "source": "huggingface", "step": 60, "totalSteps": 500, "epoch": 0.12, "metrics": {"loss": 0.5},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("message", "status"),
    [
        pytest.param([], 400, id="a list"),
        pytest.param({}, 400, id="empty"),
        pytest.param({"trainerStatus": "fine"}, 400, id="text"),
        pytest.param({"trainerStatus": {}}, 200, id="nothing told"),
        pytest.param({"trainerStatus": {"metrics": [1, {}, {"name": 1, "value": "x"}]}}, 200, id="odd metrics"),
    ],
)
def test_hugging_face_reports_something_else(served: Serving, message: object, status: int) -> None:
    assert served.post("/v1/huggingface", REPORT_TOKEN, message) == status
    assert "step" not in served.progress()


@pytest.mark.parametrize(
    ("environ", "wanted"),
    [
        pytest.param({}, True, id="plain"),
        pytest.param({HUGGING_FACE_URL: "https://kubeflow"}, False, id="a server of the user's"),
        pytest.param({"http_proxy": "http://proxy"}, False, id="proxy"),
        pytest.param({"HTTP_PROXY": "http://proxy"}, False, id="PROXY"),
        pytest.param({"https_proxy": "http://proxy"}, True, id="proxy of something else"),
        pytest.param({"http_proxy": ""}, True, id="no proxy"),
        pytest.param({"HTTP_PROXY": "http://proxy", "NO_PROXY": "10.0.0.0/8, 127.0.0.1"}, True, id="exempt"),
        pytest.param({"http_proxy": "http://proxy", "no_proxy": "*"}, True, id="all exempt"),
        pytest.param({"http_proxy": "http://proxy", "no_proxy": "localhost"}, False, id="another name exempt"),
    ],
)
def test_hugging_face_is_told_to_report_where_it_can(environ: dict[str, str], wanted: bool) -> None:
    assert hugging_face_is_wanted(environ) == wanted


def test_hugging_face_finds_its_token_and_port() -> None:
    opened = Endpoints({})
    path = opened.variables[HUGGING_FACE_TOKEN_FILE]
    assert os.path.exists(path)  # noqa: PTH110 - as the callback does
    with open(path, encoding="utf-8") as file:  # noqa: PTH123
        assert file.read() == opened.token
    os.close(int(path.rpartition("/")[2]))
    assert opened.reports is not None
    os.close(opened.reports)
    with socket.socket(fileno=opened.hugging_face) as listener:
        host, port = listener.getsockname()
        assert opened.variables[HUGGING_FACE_URL] == f"http://{host}:{port}/v1/huggingface"


BEATS = [{"rank": 3, "age": 1.0, "step": 12, "stepAge": 2.0, "localSeconds": 0.5, "phase": "data"}]


@pytest.mark.parametrize(
    ("message", "status"),
    [
        pytest.param({"jobUid": "0b1c", "attempt": 2, "ranks": BEATS}, 204, id="of the job"),
        pytest.param({"jobUid": "0b1d", "attempt": 2, "ranks": BEATS}, 409, id="of another job"),
        pytest.param({"jobUid": "0b1c", "attempt": 1, "ranks": BEATS}, 409, id="of an earlier attempt"),
        pytest.param({"ranks": BEATS}, 409, id="of nobody"),
        pytest.param({"jobUid": "0b1c", "attempt": 2}, 400, id="without ranks"),
        pytest.param([], 400, id="a list"),
    ],
)
def test_heartbeats_of_other_pods(served: Serving, message: object, status: int) -> None:
    assert served.post("/v1/ranks", AGENT_TOKEN, message) == status
    assert served.progress().get("ranks") == ({"reporting": 1} if status == 204 else None)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


@given(JSON)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
def test_any_json_is_survived(served: Serving, message: object) -> None:
    for body in (message, {"trainerStatus": message}, {"jobUid": "0b1c", "attempt": 2, "ranks": [message]}):
        assert served.post("/v1/huggingface", REPORT_TOKEN, body) in (200, 400)
        assert served.post("/v1/ranks", AGENT_TOKEN, body) in (204, 400, 409)
    served.progress()


def test_an_agent_tells_node_rank_0(served: Serving) -> None:
    other = State(Place("0b1c", 2, 1, 4))
    messenger = Messenger(other, *served.address, AGENT_TOKEN)
    assert not messenger.send()  # nothing to say
    other.hear_rank(Heartbeat(2, other.now(), 12))
    other.hear_rank(Heartbeat(3, other.now(), 12))
    assert messenger.send()
    assert served.progress()["ranks"] == {"reporting": 2}
    assert not Messenger(other, *served.address, "wrong").send()


def test_node_rank_0_is_not_there(port: int) -> None:
    other = State(Place("0b1c", 2, 1, 4))
    other.hear_rank(Heartbeat(2, other.now(), 12))
    assert not Messenger(other, "127.0.0.1", port, AGENT_TOKEN).send()
    assert not Messenger(other, "no-such-host.invalid", port, AGENT_TOKEN).send()


def test_it_listens_on_both_families(port: int) -> None:
    with server.open_listener(port) as listener:
        for address in ["127.0.0.1", *(["::1"] if socket.has_dualstack_ipv6() else [])]:
            socket.create_connection((address, port), 30).close()
        with pytest.raises(OSError, match="in use"):
            server.open_listener(port)
        assert listener.getsockname()[1] == port
