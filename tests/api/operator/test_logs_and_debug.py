"""What the process tells beside its metrics: lines about the right job, what it knows of one, and no secret."""

import json
import re
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.api.client import Object
from tests.api.fake_agent import FakeAgent, fake_agent
from tests.api.operator.auditing_proxy import AuditingProxy
from tests.api.operator.polling import eventually
from tests.api.operator.process import COMMAND, Operator
from tests.api.operator.scene import JOB, Scene, worker, workers
from tests.api.resource import Resource
from tests.unit.controller.test_health import free_port

pytestmark = pytest.mark.api

CANARIES = {name: f"canary-{name}" for name in ("environment", "annotation", "argument", "secretkey", "credentials")}
"""Words that are nobody's business; one for each place, so that a leak tells where it came from."""
TRAINER: dict[str, Any] = {
    "name": "trainer",
    "image": "dtj/pytorch:dev",
    "command": ["python", "/examples/digits_ddp.py"],
    "args": [f"--password={CANARIES['argument']}"],
    "env": [
        {"name": "API_TOKEN", "value": CANARIES["environment"]},
        {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "keys", "key": CANARIES["secretkey"]}}},
    ],
}
SECRETIVE: dict[str, Any] = {
    "metadata.annotations": {"example.com/token": CANARIES["annotation"]},
    "spec.progress": {"intervalSeconds": 1},
    "spec.template.spec.containers": [TRAINER],
}
DEBUG_PORT = free_port()


@pytest.fixture(scope="module")
def module_operator(
    resource: Resource, proxy: AuditingProxy, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Operator]:
    """One that says all it can, with a token of its own."""
    directory = tmp_path_factory.mktemp("operator")
    kubeconfig = proxy.write_kubeconfig(directory / "kubeconfig")
    content = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))
    content["users"][0]["user"] = {"token": CANARIES["credentials"]}
    kubeconfig.write_text(yaml.safe_dump(content), encoding="utf-8")
    options = ["--verbose", "--log-format=json", "--debug-endpoint", f"--debug-port={DEBUG_PORT}"]
    with Operator(kubeconfig, directory / "log", *options) as own:
        yield own


@pytest.fixture
def agent() -> Iterator[FakeAgent]:
    with fake_agent() as own:
        yield own


def lines(operator: Operator) -> list[dict[str, Any]]:
    """Every line of the log; one that is no object fails the test."""
    return [json.loads(line) for line in operator.log.splitlines()]


def live(scene: Scene, agent: FakeAgent) -> Object:
    """Two attempts of a job, the second heard of and then silent, and its end."""
    scene.start(SECRETIVE)
    job = scene.read("distributedtrainingjobs", JOB)
    scene.kubelet.fail(worker(1), 3)
    scene.attempt_runs(1, kept=[worker(1)])
    agent.reports(job, 1, step=5, totalSteps=10, firstStep=1, stepAge=0.5)
    scene.patch_status("pods", worker(0, attempt=1), {"podIP": agent.address})
    scene.status_where("progress is told", lambda status: status.get("progress", {}).get("step") == 5, within=60)
    return job


def test_lines_are_about_their_job_and_attempt_and_tell_no_secret(
    scene: Scene, agent: FakeAgent, operator: Operator
) -> None:
    job = live(scene, agent)
    token = agent.token
    agent.token = "another"  # noqa: S105 - it refuses from now on
    eventually("the trouble is told", lambda: operator.log, lambda log: "the progress cannot be read" in log, within=60)
    scene.kubelet.succeed(*workers(2, attempt=1))
    scene.status_in("Succeeded")
    eventually("the end is told", lambda: operator.log, lambda log: "Succeeded (Succeeded)" in log)

    own = [line for line in lines(operator) if line.get("namespace") == scene.namespace]
    assert {(line["job"], line["uid"]) for line in own} == {(JOB, job["metadata"]["uid"])}
    told = {(line["attempt"], line["message"]) for line in own if line["level"] in {"INFO", "WARNING"}}
    expected = {
        (0, "Running (AllPodsRunning)"),
        (1, "Restarting (NonZeroExit)"),
        (1, "Running (AllPodsRunning)"),
        (1, "Succeeded (Succeeded)"),
    }
    assert expected <= told
    assert any(attempt == 1 and "does not answer" not in words for attempt, words in told if "progress cannot" in words)
    decisions = [line["message"] for line in own if line["level"] == "DEBUG"]
    assert any(f"create pod {worker(0, attempt=1)}" in words for words in decisions)
    assert [word for word in (*CANARIES.values(), token, "Bearer") if word in operator.log] == []


def ask(*job: str) -> subprocess.CompletedProcess[str]:
    command = [str(COMMAND), "operator", "debug", f"--debug-port={DEBUG_PORT}", *job]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)


def test_what_is_known_of_a_job_can_be_asked_for(scene: Scene, agent: FakeAgent) -> None:
    live(scene, agent)
    answer = ask(f"{scene.namespace}/{JOB}")

    assert answer.returncode == 0, answer.stderr
    told = json.loads(answer.stdout)
    assert (told["name"], told["leading"], told["status"]["attempt"]) == (JOB, True, 1)
    assert told["pods"]["running"]["names"] == [f"{name} on {scene.node.name}" for name in workers(2, attempt=1)]
    assert told["training"]["report"]["step"] == 5
    assert told["memory"]["committedAttempt"] == 1
    assert all(re.match(r"status|look again|nothing", line) for line in told["decision"]), told["decision"]
    assert [word for word in (*CANARIES.values(), agent.token) if word in answer.stdout] == []

    assert f"{scene.namespace}/{JOB}" in json.loads(ask().stdout)["names"]
    missing = ask(f"{scene.namespace}/letters")
    assert (missing.returncode, "is known here" in missing.stderr) == (1, True)
