"""What a user sees when something is wrong, and that nothing is left behind."""

import pytest

from tests.e2e.jobs import SLEEP, condition, job, pod_names, status_of, status_when
from tests.kubectl import Kubectl, Object, eventually

pytestmark = pytest.mark.e2e

CRASH = """
import os, sys, time
if os.environ["DTJ_REPLICA_INDEX"] == "1":
    print("loading weights", file=sys.stderr)
    raise SystemExit("ValueError: the file is no checkpoint")
time.sleep(600)
"""
FIVE_MISTAKES = """
apiVersion: dtj.dev/v1alpha1
kind: DistributedTrainingJob
metadata: {name: my.job}
spec:
  framework: PyTorch
  replicas: 0
  failurePolicy: {maxRestarts: -1}
  template:
    spec:
      restartPolicy: Always
      containers:
      - name: trainer
        image: dtj/pytorch:dev
        env: [{name: RANK, value: "0"}]
"""


def test_a_bad_image_is_named(kubectl: Kubectl) -> None:
    manifest = job("image", SLEEP)
    manifest["spec"]["template"]["spec"]["containers"][0]["image"] = "dtj/pytroch:dev"
    kubectl.apply(manifest)

    status = _pending_because(kubectl, "image", "ImagePullBackOff")

    assert "dtj/pytroch:dev" in condition(status, "Running")["message"]
    assert "image" in kubectl("get", "dtj")
    assert "ImagePullBackOff" in kubectl("get", "dtj")


def test_a_crashing_worker_is_the_cause_that_is_shown(kubectl: Kubectl) -> None:
    kubectl.apply(job("crash", ["python", "-c", CRASH], max_restarts=0))

    kubectl("wait", "--for=jsonpath={.status.completionTime}", "dtj/crash", "--timeout=50s")
    status = status_when(kubectl, "crash", "Failed")

    failure = status["lastFailure"]
    shown = {key: failure[key] for key in ("pod", "role", "index", "rank", "exitCode", "reason", "class", "action")}
    assert shown == {
        "pod": "crash-worker-1",
        "role": "worker",
        "index": 1,
        "rank": 1,
        "exitCode": 1,
        "reason": "NonZeroExit",
        "class": "Application",
        "action": "FailJob",
    }
    assert failure["lastLines"] == ["loading weights", "ValueError: the file is no checkpoint"]
    remaining = eventually(lambda: pod_names(kubectl, "crash"), lambda names: names == ["crash-worker-1"])
    assert remaining == ["crash-worker-1"], "the survivor is stopped, the failed pod keeps its log"
    assert "loading weights" in kubectl("logs", "crash-worker-1")


def test_a_worker_that_needs_too_much_memory(kubectl: Kubectl) -> None:
    eats = ["python", "-c", "import time; b = bytearray(512 * 1024 * 1024); time.sleep(600)"]
    kubectl.apply(job("memory", eats, replicas=1, max_restarts=0, resources={"limits": {"memory": "100Mi"}}))

    failure = status_when(kubectl, "memory", "Failed")["lastFailure"]

    assert (failure["reason"], failure["class"], failure["exitCode"]) == ("OOMKilled", "OutOfMemory", 137)


def test_more_gpus_than_there_are(kubectl: Kubectl) -> None:
    kubectl.apply(job("many", SLEEP, resources={"limits": {"nvidia.com/gpu": "1000"}}))

    status = _pending_because(kubectl, "many", "Unschedulable")

    assert "nvidia.com/gpu" in condition(status, "Running")["message"]


def test_five_mistakes_are_five_refusals(kubectl: Kubectl) -> None:
    refused = kubectl.run("apply", "-f", "-", stdin=FIVE_MISTAKES)

    assert refused.returncode == 1
    fields = ("metadata.name", "spec.replicas", "spec.failurePolicy.maxRestarts", "restartPolicy", "RANK")
    assert [field for field in fields if field not in refused.stderr] == []


def test_a_deleted_job_leaves_nothing(kubectl: Kubectl) -> None:
    kubectl.apply(job("brief", SLEEP))
    status_when(kubectl, "brief", "Running")

    kubectl("delete", "dtj", "brief")

    eventually(lambda: [item["metadata"]["name"] for item in _owned(kubectl)], lambda names: names == [])


def test_a_finished_job_stays_finished(kubectl: Kubectl) -> None:
    kubectl.apply(job("done", ["true"], replicas=1))
    finished = status_when(kubectl, "done", "Succeeded")

    kubectl("delete", "pod", "done-worker-0", "--wait=true")
    kubectl("annotate", "dtj", "done", "looked=again")

    kubectl.apply(job("next", ["true"], replicas=1))
    status_when(kubectl, "next", "Succeeded")
    assert kubectl.get("dtj", "done")["status"] == finished
    assert pod_names(kubectl, "done") == []


def _pending_because(kubectl: Kubectl, name: str, reason: str) -> Object:
    return eventually(
        lambda: status_of(kubectl, name),
        lambda status: (status.get("phase"), status.get("reason")) == ("Pending", reason),
        within=30,
    )


def _owned(kubectl: Kubectl) -> list[Object]:
    return [*kubectl.all("pods"), *kubectl.all("services")]
