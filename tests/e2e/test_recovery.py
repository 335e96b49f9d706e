"""What a job survives: real training goes on from its checkpoint, and ends where it would have ended anyway."""

import re
from datetime import datetime, timedelta
from pathlib import Path

import pytest
import yaml

from tests.e2e import host, nodes
from tests.e2e.jobs import (
    CHECKPOINT_DIR,
    DIGITS,
    SLEEP,
    TRAINER,
    condition,
    digits,
    job,
    pod_names,
    pod_spec,
    pods,
    resumed_at,
    status_of,
    status_when,
    steps,
    trained,
    training,
)
from tests.e2e.operator import Installed
from tests.e2e.storage import shared_volume
from tests.kubectl import Kubectl, Object, eventually

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("recovery")]  # one undisturbed run is enough for all

EXAMPLE = Path(__file__).parents[2] / "examples" / "pytorch-digits-checkpoints.yaml"
EPOCHS = 40
SOME = 8
"""Epochs before something happens: there are checkpoints, and the end is far."""
TO_THE_END = 120.0
KILLS = 3
"""Each takes as long as a lease; the api tier kills an operator without replicas ten times in a row."""
GPUS_OF_A_NODE = 4

OUT_OF_MEMORY_ONCE = f"""
import os, pathlib, runpy, sys, threading, time

def eat():
    while not pathlib.Path("{CHECKPOINT_DIR}/digits.pt").exists():
        time.sleep(0.05)
    bytearray(4 * 2**30)

if (os.environ["DTJ_ATTEMPT"], os.environ["DTJ_REPLICA_INDEX"]) == ("0", "1"):
    threading.Thread(target=eat, daemon=True).start()
sys.argv = {digits(EPOCHS)[1:]}
runpy.run_path("{DIGITS}", run_name="__main__")
"""
TRAIN_UNTIL_TOLD = f"""
import pathlib, time, torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
model = DistributedDataParallel(torch.nn.Linear(8, 1))
told, step = torch.zeros(1), 0
while not told:
    model(torch.randn(4, 8)).sum().backward()
    told += pathlib.Path("{CHECKPOINT_DIR}/stop").exists()
    dist.all_reduce(told)
    step += 1
    time.sleep(0.1)
print(f"steps={{step}}", flush=True)
dist.destroy_process_group()
"""


@pytest.fixture(scope="module")
def undisturbed(installed: Installed, bed: str) -> list[int]:
    """The steps that a run prints in which nothing goes wrong."""
    with installed.own_namespace() as kubectl:
        kubectl.apply(training("undisturbed", digits(EPOCHS)))
        assert _counters(status_when(kubectl, "undisturbed", "Succeeded", TO_THE_END)) == (0, 0, 0)
        return steps(kubectl("logs", "undisturbed-worker-0"))


def test_a_killed_worker(kubectl: Kubectl, claim: str, undisturbed: list[int]) -> None:
    kubectl.apply(training("killed", digits(EPOCHS), claim))
    before = trained(kubectl, "killed-worker-0", SOME)

    host.kill(kubectl.get("pod", "killed-worker-1"), TRAINER)

    status = status_when(kubectl, "killed", "Succeeded", TO_THE_END)
    assert _counters(status) == (1, 1, 0)
    told = ("attempt", "pod", "role", "index", "rank", "reason", "class", "signal", "exitCode", "action")
    assert {key: status["lastFailure"][key] for key in told} == {
        "attempt": 0,
        "pod": "killed-worker-1",
        "role": "worker",
        "index": 1,
        "rank": 1,
        "reason": "KilledBySignal",
        "class": "Application",
        "signal": 9,
        "exitCode": 137,
        "action": "RestartJob",
    }
    _assert_it_went_on(kubectl("logs", "killed-worker-0-r1"), before, undisturbed)
    kept = {"killed-worker-1": "Failed", "killed-worker-0-r1": "Succeeded", "killed-worker-1-r1": "Succeeded"}
    eventually(lambda: _phases(kubectl, "killed"), lambda phases: phases == kept)


def test_a_worker_that_runs_out_of_memory_once(kubectl: Kubectl, claim: str, undisturbed: list[int]) -> None:
    command = ["python", "-c", OUT_OF_MEMORY_ONCE]
    kubectl.apply(training("memory", command, claim, resources={"limits": {"memory": "1Gi"}}))

    status = status_when(kubectl, "memory", "Succeeded", TO_THE_END)

    assert _counters(status) == (1, 1, 0)
    failure = status["lastFailure"]
    assert (failure["reason"], failure["class"], failure["pod"]) == ("OOMKilled", "OutOfMemory", "memory-worker-1")
    _assert_it_went_on(kubectl("logs", "memory-worker-0-r1"), [], undisturbed)


@pytest.mark.alone
def test_a_lost_node(kubectl: Kubectl, installed: Installed, bed: str, claim: str, undisturbed: list[int]) -> None:
    kubectl.apply(training("moved", digits(EPOCHS), claim))
    before = trained(kubectl, "moved-worker-0", SOME)
    operator_node = installed.leader()["spec"]["nodeName"]
    [victim] = [pod for pod in pods(kubectl, "moved") if pod["spec"]["nodeName"] != operator_node]
    lost = victim["spec"]["nodeName"]

    with nodes.stopped(bed, lost, kubectl):
        since = nodes.lost_since(kubectl, lost)
        status = status_when(kubectl, "moved", "Succeeded", TO_THE_END)

        again = [pod for pod in pods(kubectl, "moved") if _attempt_of(pod) == 1]
        created = max(datetime.fromisoformat(pod["metadata"]["creationTimestamp"]) for pod in again)
        assert created - since <= timedelta(seconds=60)
        assert [pod["spec"]["nodeName"] for pod in again] == [operator_node, operator_node]
        assert _counters(status) == (1, 0, 1)
        told = ("attempt", "pod", "node", "reason", "class", "action")
        assert {key: status["lastFailure"][key] for key in told} == {
            "attempt": 0,
            "pod": victim["metadata"]["name"],
            "node": lost,
            "reason": "NodeLost",
            "class": "Disruption",
            "action": "RestartJobAndIgnore",
        }
        _assert_it_went_on(kubectl("logs", "moved-worker-0-r1"), before, undisturbed)


@pytest.mark.alone
def test_the_operator_is_killed_again_and_again(kubectl: Kubectl, installed: Installed) -> None:
    kubectl.apply(training("steady", ["python", "-c", TRAIN_UNTIL_TOLD]))
    status_when(kubectl, "steady", "Running")
    before = _uids(kubectl, "steady")

    for _ in range(KILLS):
        installed.kill_leader()
    kubectl("exec", "steady-worker-0", "--", "touch", f"{CHECKPOINT_DIR}/stop")

    assert _counters(status_when(kubectl, "steady", "Succeeded", TO_THE_END)) == (0, 0, 0)
    assert _uids(kubectl, "steady") == before
    assert re.fullmatch(r"steps=\d+\n", kubectl("logs", "steady-worker-1"))


def test_suspended_and_resumed(kubectl: Kubectl, claim: str, undisturbed: list[int]) -> None:
    kubectl.apply(training("paused", digits(EPOCHS), claim))
    before = trained(kubectl, "paused-worker-0", SOME)

    _suspend(kubectl, "paused", suspend=True)
    kubectl("wait", "--for=condition=Suspended", "dtj/paused", "--timeout=20s")
    eventually(lambda: pod_names(kubectl, "paused"), lambda names: names == [])
    status = status_of(kubectl, "paused")
    assert (status["phase"], status["reason"]) == ("Suspended", "JobSuspended")

    _suspend(kubectl, "paused", suspend=False)
    status = status_when(kubectl, "paused", "Succeeded", TO_THE_END)
    assert _counters(status) == (1, 0, 0)
    assert condition(status, "Suspended")["status"] == "False"
    assert "lastFailure" not in status
    _assert_it_went_on(kubectl("logs", "paused-worker-0-r1"), before, undisturbed)


@pytest.mark.alone
def test_the_example_goes_on_after_a_pod_was_deleted(kubectl: Kubectl, bed: str, undisturbed: list[int]) -> None:
    claim, manifest = yaml.safe_load_all(EXAMPLE.read_text())
    name = manifest["metadata"]["name"]
    [trainer] = manifest["spec"]["template"]["spec"]["containers"]
    trainer["command"] = [re.sub(r"^--epochs=\d+$", f"--epochs={EPOCHS}", word) for word in trainer["command"]]
    with shared_volume(bed, kubectl, claim["metadata"]["name"]):
        kubectl.apply(claim)
        kubectl.apply(manifest)
        before = trained(kubectl, f"{name}-worker-0", SOME)

        kubectl("delete", "pod", f"{name}-worker-1")

        status = status_when(kubectl, name, "Succeeded", TO_THE_END)
        assert _counters(status) == (1, 0, 1)
        assert (status["lastFailure"]["reason"], status["lastFailure"]["pod"]) == ("PodDeleted", f"{name}-worker-1")
        _assert_it_went_on(kubectl("logs", f"{name}-worker-0-r1"), before, undisturbed)


def test_deleted_while_its_pods_are_created(kubectl: Kubectl) -> None:
    for number, at_least in enumerate((0, 1)):
        name = f"brief-{number}"
        manifest = job(name, ["sleep", "600"], replicas=20)
        manifest["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 1
        kubectl.apply(manifest)
        _wait_for_pods(kubectl, name, at_least)
        kubectl("delete", "dtj", name, "--wait=false")

    eventually(lambda: _owned(kubectl), lambda names: names == [], within=90)

    # Whatever the operator still had to do for those jobs, it has done by the time it has run another one.
    kubectl.apply(job("next", ["true"], replicas=1))
    status_when(kubectl, "next", "Succeeded")
    assert {name for name in _owned(kubectl) if not name.startswith("next-")} == set()


@pytest.mark.alone
@pytest.mark.usefixtures("bed")
def test_half_a_gang_gives_its_node_back(kubectl: Kubectl) -> None:
    one_gpu = {"limits": {"nvidia.com/gpu": "1"}}
    blocker = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "blocker"}}
    kubectl.apply({**blocker, "spec": pod_spec(SLEEP, resources=one_gpu)})
    kubectl("wait", "--for=condition=Ready", "pod/blocker", "--timeout=50s")
    whole_node = {"limits": {"nvidia.com/gpu": str(GPUS_OF_A_NODE)}}
    manifest = training("half", digits(2), resources=whole_node)
    manifest["spec"] |= {"startupDeadlineSeconds": 5, "processesPerReplica": 1}
    kubectl.apply(manifest)
    eventually(lambda: _placed(kubectl, "half"), lambda placed: len(placed) == 1)

    given_back = eventually(lambda: status_of(kubectl, "half"), lambda status: status.get("attempt") == 1, within=20)
    failure = given_back["lastFailure"]
    assert (failure["reason"], failure["class"]) == ("StartupDeadlineExceeded", "Startup")
    assert "nvidia.com/gpu" in failure["message"]
    eventually(lambda: [pod for pod in pods(kubectl, "half") if _attempt_of(pod) == 0], lambda left: left == [])
    kubectl("delete", "pod", "blocker", "--grace-period=1")

    status = status_when(kubectl, "half", "Succeeded", TO_THE_END)
    assert status["restarts"] == status["attempt"] >= 1
    assert status["restartsSinceProgress"] == 0, "waiting for capacity costs no restart"


def _assert_it_went_on(log: str, before: list[int], undisturbed: list[int]) -> None:
    """The later attempt starts where the checkpoint is, repeats and leaves out nothing, and ends at the same step."""
    resumed = resumed_at(log)
    assert resumed >= max(before, default=1)
    assert [step for step in undisturbed if step > resumed] == steps(log)


def _wait_for_pods(kubectl: Kubectl, job_name: str, at_least: int) -> None:
    eventually(lambda: pod_names(kubectl, job_name), lambda names: len(names) >= at_least)


def _counters(status: Object) -> tuple[int, int, int]:
    return status.get("attempt", 0), status.get("restarts", 0), status.get("disruptions", 0)


def _phases(kubectl: Kubectl, job_name: str) -> dict[str, str]:
    return {pod["metadata"]["name"]: pod["status"]["phase"] for pod in pods(kubectl, job_name)}


def _uids(kubectl: Kubectl, job_name: str) -> list[str]:
    return [pod["metadata"]["uid"] for pod in pods(kubectl, job_name)]


def _attempt_of(pod: Object) -> int:
    return int(pod["metadata"]["labels"]["dtj.dev/attempt"])


def _placed(kubectl: Kubectl, job_name: str) -> list[str]:
    return [pod["spec"]["nodeName"] for pod in pods(kubectl, job_name) if "nodeName" in pod["spec"]]


def _suspend(kubectl: Kubectl, job_name: str, *, suspend: bool) -> None:
    kubectl("patch", "dtj", job_name, "--type=merge", "-p", f'{{"spec": {{"suspend": {str(suspend).lower()}}}}}')


def _owned(kubectl: Kubectl) -> list[str]:
    return [item["metadata"]["name"] for kind in ("pods", "services") for item in kubectl.all(kind)]
