"""What a user sees when something is wrong, and that nothing is left behind."""

import os
import signal
from pathlib import Path

import pytest

from tests.e2e.conftest import OPERATOR_NAMESPACE, Installed
from tests.e2e.jobs import condition, job, status_when
from tests.kubectl import Kubectl, Object, eventually

pytestmark = pytest.mark.e2e

WAIT_FOR_SIGTERM = "import signal, sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit(143)); signal.pause()"
SLEEP = ["python", "-c", WAIT_FOR_SIGTERM]
CRASH = """
import os, sys, time
if os.environ["DTJ_REPLICA_INDEX"] == "1":
    print("loading weights", file=sys.stderr)
    raise SystemExit("ValueError: the file is no checkpoint")
time.sleep(600)
"""
TRAIN_SLOWLY = ["python", "/examples/digits_ddp.py", "--epochs=60"]
FIVE_MISTAKES = """
apiVersion: dtj.dev/v1alpha1
kind: DistributedTrainingJob
metadata: {name: my.job}
spec:
  framework: PyTorch
  replicas: 0
  suspend: true
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
    kubectl.apply(job("crash", ["python", "-c", CRASH]))

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
    remaining = eventually(lambda: _pod_names(kubectl, "crash"), lambda names: names == ["crash-worker-1"])
    assert remaining == ["crash-worker-1"], "the survivor is stopped, the failed pod keeps its log"
    assert "loading weights" in kubectl("logs", "crash-worker-1")


def test_a_worker_that_needs_too_much_memory(kubectl: Kubectl) -> None:
    eats = ["python", "-c", "import time; b = bytearray(512 * 1024 * 1024); time.sleep(600)"]
    kubectl.apply(job("memory", eats, replicas=1, resources={"limits": {"memory": "100Mi"}}))

    failure = status_when(kubectl, "memory", "Failed")["lastFailure"]

    assert (failure["reason"], failure["class"], failure["exitCode"]) == ("OOMKilled", "OutOfMemory", 137)


def test_more_gpus_than_there_are(kubectl: Kubectl) -> None:
    kubectl.apply(job("many", SLEEP, resources={"limits": {"nvidia.com/gpu": "1000"}}))

    status = _pending_because(kubectl, "many", "Unschedulable")

    assert "nvidia.com/gpu" in condition(status, "Running")["message"]


def test_five_mistakes_are_five_refusals(kubectl: Kubectl) -> None:
    refused = kubectl.run("apply", "-f", "-", stdin=FIVE_MISTAKES)

    assert refused.returncode == 1
    fields = ("metadata.name", "spec.replicas", "spec.suspend", "restartPolicy", "RANK")
    assert [field for field in fields if field not in refused.stderr] == []


def test_the_operator_is_killed_in_the_middle_of_a_run(kubectl: Kubectl, installed: Installed) -> None:
    kubectl.apply(job("steady", TRAIN_SLOWLY, framework="PyTorch", env=[{"name": "OMP_NUM_THREADS", "value": "1"}]))
    status_when(kubectl, "steady", "Running")
    before = _pod_uids(kubectl, "steady")

    _kill_operator(installed)

    status_when(kubectl, "steady", "Succeeded", within=120)
    assert _pod_uids(kubectl, "steady") == before


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
    assert _pod_names(kubectl, "done") == []


def _pending_because(kubectl: Kubectl, name: str, reason: str) -> Object:
    return eventually(
        lambda: kubectl.get("dtj", name).get("status", {}),
        lambda status: (status.get("phase"), status.get("reason")) == ("Pending", reason),
        within=30,
    )


def _kill_operator(installed: Installed) -> None:
    """SIGKILL from outside: no grace, no chance to say goodbye. Returns when a new one is ready."""
    system = installed.namespaced(OPERATOR_NAMESPACE)
    [before] = system.all("pods", "app.kubernetes.io/name=dtj-operator")
    if installed.has_bed:
        for process in _processes_of(before):
            os.kill(process, signal.SIGKILL)
    else:
        system("delete", "pod", before["metadata"]["name"], "--grace-period=0", "--force")
    eventually(
        lambda: [_life(pod) for pod in system.all("pods", "app.kubernetes.io/name=dtj-operator")],
        lambda lives: len(lives) == 1 and lives[0]["ready"] and lives[0]["container"] != _life(before)["container"],
    )


def _life(pod: Object) -> Object:
    [container] = pod["status"].get("containerStatuses") or [{}]
    return {"container": container.get("containerID"), "ready": container.get("ready", False)}


def _processes_of(pod: Object) -> list[int]:
    """Processes of a pod's containers, found by the cgroup that the kubelet named after the pod's UID."""
    uid = pod["metadata"]["uid"]
    found = [int(path.parent.name) for path in Path("/proc").glob("[0-9]*/cgroup") if uid in _text(path)]
    programs = [process for process in found if "operator" in _text(Path(f"/proc/{process}/cmdline"))]
    assert programs, f"no process of pod {pod['metadata']['name']} runs on this machine"
    return programs


def _text(path: Path) -> str:
    """Processes end while one looks at them."""
    try:
        return path.read_text()
    except OSError:
        return ""


def _pods(kubectl: Kubectl, job_name: str) -> list[Object]:
    return kubectl.all("pods", f"dtj.dev/job-name={job_name}")


def _pod_names(kubectl: Kubectl, job_name: str) -> list[str]:
    return [pod["metadata"]["name"] for pod in _pods(kubectl, job_name)]


def _pod_uids(kubectl: Kubectl, job_name: str) -> list[str]:
    return [pod["metadata"]["uid"] for pod in _pods(kubectl, job_name)]


def _owned(kubectl: Kubectl) -> list[Object]:
    return [*kubectl.all("pods"), *kubectl.all("services")]
