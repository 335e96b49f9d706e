"""Progress in real pods: what untouched scripts print is in ``kubectl get dtj``, and a hang does not last."""

import pytest

from tests.e2e import host
from tests.e2e.jobs import CHECKPOINT_DIR, TRAINER, condition, job, pods, status_of, status_when, training
from tests.kubectl import Kubectl, Object, eventually

pytestmark = pytest.mark.e2e

EVERY_SECOND = {"intervalSeconds": 1}
TO_THE_END = 120.0

COUNT = f"""
import os, pathlib, sys, time
pathlib.Path("/tmp/pid").write_text(str(os.getpid()))
saved = pathlib.Path("{CHECKPOINT_DIR}/step")
first = int(saved.read_text()) if saved.exists() else 0
for step in range(first + 1, 201):
    time.sleep(0.1)
    print(f"step={{step}}/200 loss={{1 / step:.4f}}", flush=True)
    if step % 50 == 0 and os.environ["DTJ_NODE_RANK"] == "0":
        saved.write_text(str(step))
    if step == 70 and os.environ["DTJ_ATTEMPT"] == "0" and os.environ["DTJ_NODE_RANK"] == sys.argv[1]:
        raise ValueError("step 70 is unlucky")
"""
NOBODY, FIRST = "none", "0"


def counting(name: str, unlucky: str, *, claim: str | None = None, **progress: int) -> Object:
    """Prints a step ten times a second to 200, saves every fiftieth, and may raise at step 70 of its first attempt."""
    manifest = training(name, ["python", "-c", COUNT, unlucky], claim)
    manifest["spec"]["progress"] = {**EVERY_SECOND, **progress}
    return manifest


def progress_of(status: Object) -> Object:
    found: Object = status.get("progress", {})
    return found


def test_what_is_printed_is_shown_while_it_runs(kubectl: Kubectl) -> None:
    kubectl.apply(counting("shown", NOBODY))

    running = eventually(lambda: status_of(kubectl, "shown"), lambda now: "eta" in progress_of(now), 40)

    progress = progress_of(running)
    assert (progress["source"], progress["totalSteps"]) == ("keyvalue", 200)
    assert progress["percent"] == progress["step"] * 100 // 200
    assert 5 <= progress["stepsPerSecond"] <= 10.5
    assert [metric["name"] for metric in progress["metrics"]] == ["loss"]
    phase, ready, percent, eta = kubectl("get", "dtj", "shown", "--no-headers").split()[1:5]
    assert (phase, ready) == ("Running", "2/2")
    assert percent.endswith("%")
    assert eta[-1] in "sm"
    done = progress_of(status_when(kubectl, "shown", "Succeeded", TO_THE_END))
    assert (done["step"], done["completed"], done.get("eta")) == (200, "100%", None)


def test_an_exception_is_the_reason_and_its_steps_are_lost(kubectl: Kubectl, claim: str) -> None:
    kubectl.apply(counting("unlucky", FIRST, claim=claim))

    status = status_when(kubectl, "unlucky", "Succeeded", TO_THE_END)

    failure, progress = status["lastFailure"], progress_of(status)
    assert failure["message"] == "container trainer ended with exit code 1: ValueError: step 70 is unlucky"
    assert failure["lastLines"][-1] == "ValueError: step 70 is unlucky"
    assert (progress["step"], progress["attempt"]) == (200, 1)
    assert (progress["lostSteps"], progress["bestStep"]) == (20, 70), "it went on from the checkpoint of step 50"


HOLD = f"""
import os, pathlib, time
saved = pathlib.Path("{CHECKPOINT_DIR}/step")
first = int(saved.read_text()) if saved.exists() else 0
for step in range(first + 1, 101):
    time.sleep(0.05)
    print(f"step={{step}}/100", flush=True)
    if step == 50 and os.environ["DTJ_NODE_RANK"] == "0":
        saved.write_text("50")
    while step == 70 and os.environ["DTJ_ATTEMPT"] == "0":
        time.sleep(1)
"""


@pytest.mark.parametrize("victim", [0, 1], ids=["who tells the steps", "another"])
def test_a_killed_worker_shows_lost_steps(kubectl: Kubectl, claim: str, victim: int) -> None:
    """The agent is killed with the training: what the status knew before is all that is left of rank 0."""
    manifest = training("killed", ["python", "-c", HOLD], claim)
    manifest["spec"]["progress"] = EVERY_SECOND
    kubectl.apply(manifest)
    eventually(lambda: progress_of(status_of(kubectl, "killed")), lambda now: now.get("step") == 70, 40)

    host.kill(kubectl.get("pod", f"killed-worker-{victim}"), TRAINER)

    status = status_when(kubectl, "killed", "Succeeded", TO_THE_END)
    failure, progress = status["lastFailure"], progress_of(status)
    assert (failure["reason"], failure["pod"]) == ("KilledBySignal", f"killed-worker-{victim}")
    assert (progress["step"], progress["attempt"], progress["completed"]) == (100, 1, "100%")
    assert (progress["lostSteps"], progress["bestStep"]) == (20, 70), "it went on from the checkpoint of step 50"


SLOW_DISK = """
import os, time, torch, torch.distributed as dist
import dtj_trainer

class Batches:
    def __len__(self):
        return 1000

    def __iter__(self):
        for _ in range(len(self)):
            time.sleep(0.2 if os.environ["RANK"] == "1" else 0.02)
            yield torch.ones(1)

dist.init_process_group("gloo")
for batch in dtj_trainer.track(Batches()):
    dist.all_reduce(batch)
"""


def test_the_rank_that_the_others_wait_for_is_named(kubectl: Kubectl) -> None:
    manifest = training("uneven", ["python", "-c", SLOW_DISK])
    manifest["spec"]["progress"] = EVERY_SECOND
    kubectl.apply(manifest)

    status = eventually(lambda: status_of(kubectl, "uneven"), lambda now: "slowestRank" in progress_of(now), 60)

    progress, slowest = progress_of(status), progress_of(status)["slowestRank"]
    assert (progress["source"], progress["totalSteps"]) == ("report", 1000)
    assert progress["stepsPerSecond"] < 5, "all wait for the slowest, so the rate does not show which it is"
    assert (slowest["rank"], slowest["behindSteps"]) == (1, 0)
    assert slowest["localSeconds"] >= 0.2
    assert 0.02 <= slowest["typicalLocalSeconds"] < 0.2


def test_a_frozen_training_stalls_and_recovers(kubectl: Kubectl, claim: str) -> None:
    kubectl.apply(counting("frozen", NOBODY, claim=claim, stallTimeoutSeconds=10))
    eventually(lambda: progress_of(status_of(kubectl, "frozen")), lambda now: "eta" in now, 40)

    kubectl("exec", "frozen-worker-0", "--", "sh", "-c", "kill -STOP $(cat /tmp/pid)")

    stalled = eventually(lambda: status_of(kubectl, "frozen"), lambda now: now["attempt"] == 1, 40)
    assert (stalled["lastFailure"]["reason"], stalled["lastFailure"]["pod"]) == ("Stalled", "frozen-worker-0")
    assert condition(stalled, "Stalled")["reason"] == "Stalled"
    status = status_when(kubectl, "frozen", "Succeeded", TO_THE_END)
    assert (status["restarts"], condition(status, "Stalled")["status"]) == (1, "False")


QUIET = """
import os, subprocess, sys, time
subprocess.Popen(["sleep", "300"], start_new_session=True)
os.close(1)
time.sleep(5)
"""


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(["sh", "-c", "exit 0"], id="ends at once"),
        pytest.param(["python", "-c", QUIET], id="closes its output and leaves a process behind"),
        pytest.param(["sh", "-c", "yes flood | head -c 20000000"], id="floods"),
    ],
)
def test_programs_that_tell_nothing_run_as_ever(kubectl: Kubectl, command: list[str]) -> None:
    kubectl.apply(job("quiet", command, replicas=1))

    status = status_when(kubectl, "quiet", "Succeeded")

    assert (status["attempt"], status.get("progress")) == (0, None)
    assert len(pods(kubectl, "quiet")) == 1
