"""Progress: read from the agent of rank 0, told in the object, and never in the way of the training."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from dtj.api import names
from tests.api.client import Object
from tests.api.fake_agent import FakeAgent, fake_agent
from tests.api.fake_kubelet import terminated
from tests.api.operator.polling import eventually
from tests.api.operator.scene import JOB, NO_RESTARTS, Scene, condition, worker, workers

pytestmark = pytest.mark.api

EVERY_SECOND = {"spec.progress": {"intervalSeconds": 1}}


@pytest.fixture
def agent() -> Iterator[FakeAgent]:
    with fake_agent() as own:
        yield own


def started(scene: Scene, agent: FakeAgent, changes: dict[str, Any] | None = None) -> Object:
    """A job whose two pods run, rank 0 at the agent's address."""
    scene.start({**EVERY_SECOND, **(changes or {})})
    scene.patch_status("pods", worker(0), {"podIP": agent.address})
    return scene.read(names.PLURAL, JOB)


def progress_where(scene: Scene, what: str, **fields: object) -> Object:
    status = scene.status_where(what, lambda now: fields.items() <= now.get("progress", {}).items(), within=40)
    found: Object = status["progress"]
    return found


HALF: dict[str, Any] = {"step": 50, "totalSteps": 100, "firstStep": 1, "stepsPerSecond": 2.0, "stepAge": 0.5}


def test_a_running_job_shows_how_far_it_is(scene: Scene, agent: FakeAgent) -> None:
    job = started(scene, agent)
    agent.reports(job, **HALF, epoch=3, metrics={"loss": 0.25})

    progress = progress_where(scene, "half of the steps are told", step=50)

    assert (progress["percent"], progress["completed"], progress["rate"]) == (50, "50%", "2/s")
    assert 20 <= progress["etaSeconds"] <= 25
    assert progress["metrics"] == [{"name": "loss", "value": 0.25}]
    assert (progress["source"], progress["epoch"], progress["attempt"]) == ("report", 3, 0)
    row = scene.client.kubectl_output("get", "dtj", JOB, "-n", scene.namespace, "--no-headers").split()
    assert (row[3], row[4]) == ("50%", progress["eta"])


def test_a_restart_falls_back_and_tells_what_was_lost(scene: Scene, agent: FakeAgent) -> None:
    job = started(scene, agent)
    agent.reports(job, **HALF)
    progress_where(scene, "the first attempt is heard", step=50)

    scene.kubelet.fail(worker(1), 3)
    scene.attempt_runs(1, kept=[worker(1)])
    scene.patch_status("pods", worker(0, attempt=1), {"podIP": agent.address})
    agent.reports(job, 1, **{**HALF, "step": 41, "firstStep": 41})

    progress = progress_where(scene, "the second attempt is heard", attempt=1)
    assert (progress["step"], progress["lostSteps"], progress["bestStep"]) == (41, 10, 50)


def test_what_was_done_last_is_not_lost_with_the_pod(scene: Scene, agent: FakeAgent) -> None:
    job = started(scene, agent)
    agent.reports(job, **HALF)
    progress_where(scene, "half of the steps are told", step=50)
    words = {"dtj": 1, "exitCode": 0, "progress": {"step": 100, "totalSteps": 100, "firstStep": 1}}

    scene.kubelet.report(worker(0), {"trainer": terminated(0, json.dumps(words))})
    scene.kubelet.succeed(worker(1))

    progress = scene.status_in("Succeeded")["progress"]
    assert (progress["step"], progress["completed"], progress.get("eta")) == (100, "100%", None)


def test_the_agents_last_words_are_those_of_the_failure(scene: Scene) -> None:
    scene.start(NO_RESTARTS)
    words = {"dtj": 1, "exitCode": 1, "rank": 1, "line": "ValueError: x", "lastLines": ["Traceback", "ValueError: x"]}

    scene.kubelet.fail(worker(1), 1, json.dumps(words))

    failure = scene.status_in("Failed")["lastFailure"]
    assert failure["message"] == "container trainer ended with exit code 1: rank 1: ValueError: x"
    assert failure["lastLines"] == ["Traceback", "ValueError: x"]


def test_a_training_that_hangs_starts_again(scene: Scene, agent: FakeAgent) -> None:
    job = started(scene, agent, {"spec.progress": {"intervalSeconds": 1, "stallTimeoutSeconds": 60}})
    agent.reports(job, **{**HALF, "stepAge": 61.0})

    scene.status_of_attempt(1)
    status = scene.attempt_runs(1)

    failure = status["lastFailure"]
    assert (failure["reason"], failure["class"], failure["pod"]) == ("Stalled", "Infrastructure", worker(0))
    assert (status["restarts"], condition(status, "Stalled")) == (1, "False")
    assert "Stalled" in scene.event_reasons()


AGENTS: dict[str, bytes | None] = {
    "nobody": None,
    "garbage": b"\x00<html>",
    "ten megabytes": b'{"jobUid": "' + b"x" * 10_000_000 + b'"}',
    "another job's numbers": json.dumps({"jobUid": "other", "attempt": 0, "step": 7}).encode(),
}


@pytest.mark.parametrize("answer", AGENTS.values(), ids=AGENTS.keys())
def test_who_cannot_be_read_disturbs_nothing(scene: Scene, agent: FakeAgent, answer: bytes | None) -> None:
    job = started(scene, agent, {"spec.progress": {"intervalSeconds": 1, "stallTimeoutSeconds": 10}})
    agent.reports(job)
    if answer is None:
        scene.patch_status("pods", worker(0), {"podIP": "127.0.0.1"})
    else:
        agent.answer = lambda: answer

    message = eventually(
        "the trouble is told",
        lambda: next(each for each in scene.status()["conditions"] if each["type"] == "Running")["message"],
        lambda told: "the progress cannot be read" in told,
        within=40,
    )

    assert message.startswith("2 pods running")
    status = scene.status()
    assert (status["phase"], status["attempt"], status.get("progress")) == ("Running", 0, None)


def test_an_agent_is_asked_only_while_its_pod_runs(scene: Scene, agent: FakeAgent) -> None:
    job = started(scene, agent)
    agent.reports(job, **HALF)
    progress_where(scene, "it is heard", step=50)

    scene.kubelet.succeed(*workers(2))
    scene.status_in("Succeeded")
    asked = len(agent.asked)
    scene.submit({"metadata.name": "later"})
    scene.status_in("Starting", job="later")

    assert len(agent.asked) <= asked + 1
    assert set(agent.asked) == {agent.token}
