"""Reports reach the agent's socket, and nothing that happens there reaches training."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest

from dtj_trainer import delivery
from dtj_trainer.delivery import Delivery, current_rank, message
from dtj_trainer.environment import ProcessRank
from dtj_trainer.reporter import MAX_METRICS, Change, Progress, Reporter
from trainer_images.build import ROOT

LIBRARY = ROOT / "trainer_images/lib/src"
LONGEST = 8 * 1024
WITHIN = 30.0


class Agent:
    """The receiving end."""

    def __init__(self) -> None:
        self.name = f"dtj-test-{os.getpid()}-{os.urandom(4).hex()}"
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind("\0" + self.name)
        self.socket.settimeout(WITHIN)
        self.environment = {"DTJ_JOB_NAME": "digits", "DTJ_AGENT_SOCKET": self.name, "DTJ_REPORT_TOKEN": "a1b2"}

    def receive(self) -> dict[str, Any]:
        message = json.loads(self.socket.recv(LONGEST + 1))
        assert isinstance(message, dict)
        return message

    def received(self) -> list[dict[str, Any]]:
        """All that is there, without waiting."""
        messages = []
        self.socket.setblocking(False)
        while True:
            try:
                messages.append(self.receive())
            except BlockingIOError:
                self.socket.settimeout(WITHIN)
                return messages


@pytest.fixture
def agent() -> Iterator[Agent]:
    agent = Agent()
    yield agent
    agent.socket.close()


def train(code: str, environment: Mapping[str, str]) -> str:
    """Run a program that must end well and say nothing on stderr; what it prints."""
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "ignore::DeprecationWarning", "-c", f"import dtj_trainer\n{code}"],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(LIBRARY), **environment},
        capture_output=True,
        text=True,
        timeout=WITHIN,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_the_last_report_is_sent_as_final_when_the_program_ends(agent: Agent) -> None:
    train(
        "dtj_trainer.report(step=1, total_steps=9, epoch=1, total_epochs=3, samples=32)\n"
        "dtj_trainer.report(step=2, metrics={'loss': 0.5}, phase='train', local_seconds=0.25)",
        {**agent.environment, "RANK": "5", "LOCAL_RANK": "1"},
    )
    last = agent.received()[-1]
    assert 0 <= last.pop("age") < WITHIN
    assert last == {
        "token": "a1b2",
        "rank": 5,
        "local": 1,
        "step": 2,
        "totalSteps": 9,
        "epoch": 1.0,
        "totalEpochs": 3.0,
        "samples": 32,
        "metrics": {"loss": 0.5},
        "phase": "train",
        "localSeconds": 0.25,
        "final": True,
    }


def test_what_was_never_reported_is_left_out(agent: Agent) -> None:
    train("dtj_trainer.report(epoch=1)", agent.environment)
    assert agent.received()[-1].keys() == {"token", "local", "epoch", "age", "final"}


def test_a_flood_of_reports_is_one_datagram_a_second(agent: Agent) -> None:
    seconds = 1.3
    printed = train(
        "import time\n"
        f"end, step = time.monotonic() + {seconds}, 0\n"
        "while time.monotonic() < end:\n"
        "    step += 1; dtj_trainer.report(step=step)\n"
        "print(step)",
        agent.environment,
    )
    messages = agent.received()
    steps = [message["step"] for message in messages]
    assert steps == sorted(steps)
    assert (steps[-1], messages[-1]["final"]) == (int(printed), True)
    # At the first report, after a second, and at the end; a machine that is busy elsewhere may make one less.
    assert 2 <= len(messages) <= 3


@pytest.mark.parametrize("missing", ["DTJ_JOB_NAME", "DTJ_AGENT_SOCKET", "DTJ_REPORT_TOKEN"])
def test_without_an_agent_there_is_no_thread(agent: Agent, missing: str) -> None:
    environment = {name: value for name, value in agent.environment.items() if name != missing}
    printed = train("import threading; dtj_trainer.report(step=1); print(threading.active_count())", environment)
    assert printed == "1\n"
    assert agent.received() == []


def test_an_agent_that_is_gone_is_no_error(agent: Agent) -> None:
    agent.socket.close()
    train("dtj_trainer.report(step=1)", agent.environment)


def test_an_agent_that_does_not_read_is_not_waited_for(agent: Agent) -> None:
    filler = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    filler.setblocking(False)
    with filler, suppress(BlockingIOError):
        while True:
            filler.sendto(b"{}", "\0" + agent.name)
    printed = train(
        "import time, atexit\n"
        "began = time.monotonic()\n"
        "atexit.register(lambda: print(time.monotonic() - began < 10))\n"
        "dtj_trainer.report(step=1)",
        agent.environment,
    )
    assert printed == "True\n"


FORKED = """
import os
dtj_trainer.report(step=1, phase="parent")
child = os.fork()
if child == 0:
    {in_child}
    raise SystemExit
os.waitpid(child, 0)
"""


@pytest.mark.parametrize(
    ("in_child", "finals"),
    [
        pytest.param("pass", [{"step": 1, "phase": "parent"}], id="one that does not train"),
        pytest.param("dtj_trainer.report(step=7)", [{"step": 7}, {"step": 1, "phase": "parent"}], id="one that trains"),
    ],
)
def test_a_forked_process_tells_only_its_own(agent: Agent, in_child: str, finals: list[dict[str, Any]]) -> None:
    train(FORKED.format(in_child=in_child), agent.environment)
    told = [{name: m[name] for name in ("step", "phase") if name in m} for m in agent.received() if m["final"]]
    assert told == finals


@pytest.mark.parametrize("method", ["fork", "forkserver"])
def test_processes_of_multiprocessing_tell_their_end(agent: Agent, method: str) -> None:
    train(
        "import multiprocessing\n"
        f"child = multiprocessing.get_context('{method}').Process(target=dtj_trainer.report, kwargs={{'step': 3}})\n"
        "child.start(); child.join()",
        agent.environment,
    )
    assert [m["step"] for m in agent.received() if m["final"]] == [3]


@pytest.fixture
def sending(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reporter]:
    """A reporter in this process, whose delivery is not slowed down to seconds."""
    for name, value in agent.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(delivery, "INTERVAL_S", 0.01)
    monkeypatch.setattr(delivery, "HEARTBEAT_S", 0.05)
    reporter = Reporter(lambda: sender.start())  # noqa: PLW0108 - made below
    sender = Delivery(reporter)
    yield reporter
    sender.finish()


def test_without_news_the_same_is_told_again_older(agent: Agent, sending: Reporter) -> None:
    sending.report(step=4)
    first, second = agent.receive(), agent.receive()
    assert (first["step"], second["step"]) == (4, 4)
    assert second["age"] > first["age"]
    assert not second["final"]


def test_news_are_told_when_the_agent_listens_again(agent: Agent, sending: Reporter) -> None:
    sending.report(step=1)
    assert agent.receive()["step"] == 1
    agent.socket.close()
    sending.report(step=2)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as agent.socket:
        agent.socket.bind("\0" + agent.name)
        agent.socket.settimeout(WITHIN)
        assert agent.receive()["step"] == 2


@pytest.mark.parametrize("character", ["x", "\N{GRINNING FACE}", "\0", "\ud800", '"'], ids=ascii)
def test_a_datagram_is_never_too_long(character: str) -> None:
    metrics = {f"{i:02}{character * 1000}": -1.2345678901234567e-300 for i in range(MAX_METRICS)}
    numbers = Progress(2**53, 2**53, 1e308, 1e308, 2**53, metrics, 0.0, character * 1000, 1e308)
    data = message(Change(numbers, 1, 0.0), token="f" * 64)
    assert len(data) <= LONGEST
    assert len(json.loads(data)["metrics"]) == MAX_METRICS


def torch(rank: int, world_size: int, *, initialized: bool = True) -> SimpleNamespace:
    """What torch.distributed answers."""
    return SimpleNamespace(
        is_available=lambda: True,
        is_initialized=lambda: initialized,
        get_rank=lambda: rank,
        get_world_size=lambda: world_size,
    )


@pytest.mark.parametrize(
    ("distributed", "expected"),
    [
        pytest.param(torch(0, 8, initialized=False), ProcessRank(4, 0), id="not begun: as the environment says"),
        pytest.param(torch(4, 8), ProcessRank(4, 0), id="the same"),
        pytest.param(torch(6, 8), ProcessRank(6, 2), id="started by the program itself"),
        pytest.param(SimpleNamespace(), ProcessRank(4, 0), id="just being imported"),
    ],
)
def test_torch_knows_the_ranks_of_processes_that_a_program_starts(
    distributed: object, expected: ProcessRank, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"RANK": "4", "LOCAL_RANK": "0", "DTJ_NNODES": "2"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setitem(sys.modules, "torch.distributed", distributed)
    assert current_rank() == expected
