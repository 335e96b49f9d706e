"""A job whose workers end badly: what is told as the cause, and what becomes of the other pods."""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.api.fake_kubelet import FakeKubelet, waiting
from tests.api.operator.polling import stays
from tests.api.operator.scene import JOB, NO_RESTARTS, Counters, Scene, condition, counters, worker

pytestmark = pytest.mark.api

LOST_PEER = "RuntimeError: [gloo/transport/tcp/pair.cc:547] Connection closed by peer"

Story = tuple[Callable[[FakeKubelet, str], None], dict[str, Any]]

STORIES: dict[str, Story] = {
    "the program raises": (
        lambda kubelet, pod: kubelet.fail(pod, 3, "epoch 1\n\nValueError: bad label\n"),
        {
            "class": "Application",
            "reason": "NonZeroExit",
            "exitCode": 3,
            "container": "trainer",
            "lastLines": ["epoch 1", "ValueError: bad label"],
        },
    ),
    "the program crashes": (
        lambda kubelet, pod: kubelet.fail(pod, 139, "Fatal Python error: Segmentation fault"),
        {"class": "Application", "reason": "KilledBySignal", "exitCode": 139, "signal": 11},
    ),
    "the container needs more memory than its limit": (
        lambda kubelet, pod: kubelet.fail(pod, 137, reason="OOMKilled"),
        {"class": "OutOfMemory", "reason": "OOMKilled", "exitCode": 137, "lastLines": None},
    ),
    "the node needs the memory": (
        lambda kubelet, pod: kubelet.evict(pod, "The node was low on resource: memory."),
        {"class": "Disruption", "reason": "Evicted", "exitCode": None},
    ),
    "the command does not exist": (
        lambda kubelet, pod: kubelet.fail(pod, 128, 'exec: "pyton": not found', reason="StartError"),
        {"class": "Configuration", "reason": "ContainerCannotRun", "exitCode": 128},
    ),
}


@pytest.mark.parametrize(("happens", "expected"), STORIES.values(), ids=STORIES.keys())
def test_last_failure(scene: Scene, happens: Callable[[FakeKubelet, str], None], expected: dict[str, Any]) -> None:
    scene.start()

    happens(scene.kubelet, worker(1))
    told = scene.status_in("Restarting", expected["reason"])["lastFailure"]

    assert {key: told.get(key) for key in expected} == expected
    assert (told["role"], told["index"], told["rank"], told["attempt"]) == ("worker", 1, 1, 0)
    assert (told["pod"], told["node"]) == (worker(1), scene.kubelet.node)
    assert told["action"] == ("RestartJobAndIgnore" if told["class"] == "Disruption" else "RestartJob")


def test_the_end_of_a_job_that_may_not_be_restarted(scene: Scene) -> None:
    scene.start(NO_RESTARTS)

    scene.kubelet.fail(worker(1), 3)
    failed = scene.status_in("Failed", "NonZeroExit")

    assert failed["lastFailure"]["action"] == "FailJob"
    assert (condition(failed, "Failed"), condition(failed, "Running")) == ("True", "False")
    assert "completionTime" in failed
    assert counters(failed) == Counters()


def test_survivors_are_deleted_and_the_failed_pod_is_kept(scene: Scene) -> None:
    pods = scene.start(NO_RESTARTS, replicas=4)

    scene.kubelet.fail(worker(2), 1, "boom")
    scene.status_in("Failed")

    left = scene.pods_are(worker(2))
    assert left[worker(2)] == pods[worker(2)]
    assert sorted(scene.all_of("services")) == [f"{JOB}-workers"]


def test_the_cause_is_told_although_its_victim_ended_first(scene: Scene) -> None:
    scene.start(NO_RESTARTS)
    now = datetime.now(UTC)

    scene.kubelet.fail(worker(0), 1, LOST_PEER, at=now)
    time.sleep(1)  # the situation itself: the other kubelet looks at its containers a second later
    scene.kubelet.fail(worker(1), 3, "ValueError: bad label", at=now + timedelta(seconds=1))
    told = scene.status_in("Failed")["lastFailure"]

    assert (told["rank"], told["exitCode"]) == (1, 3)


def test_a_lost_peer_is_the_cause_where_nothing_else_ends(scene: Scene) -> None:
    scene.start(NO_RESTARTS)

    scene.kubelet.fail(worker(0), 1, LOST_PEER)
    told = scene.status_in("Failed", within=10)["lastFailure"]

    assert (told["rank"], told["reason"]) == (0, "NonZeroExit")


def test_a_worker_that_fails_before_the_others_started(scene: Scene) -> None:
    scene.submit(NO_RESTARTS)
    scene.pods_are(worker(0), worker(1))
    scene.kubelet.report(worker(0), {"trainer": waiting("ContainerCreating")})

    scene.kubelet.fail(worker(1), 2, "error: unrecognized arguments: --epoch")
    failed = scene.status_in("Failed", "NonZeroExit")

    assert failed["lastFailure"]["rank"] == 1
    assert "runningTime" not in failed
    scene.pods_are(worker(1))


@pytest.mark.parametrize("end", ["Succeeded", "Failed"])
def test_a_finished_job_stays_finished_when_its_children_are_deleted(scene: Scene, end: str) -> None:
    scene.start({**NO_RESTARTS, "spec.cleanupPolicy": "None"})
    if end == "Succeeded":
        scene.kubelet.succeed(worker(0), worker(1))
    else:
        scene.kubelet.fail(worker(0), 1)
    finished = scene.status_in(end)

    for pod in (worker(0), worker(1)):
        scene.delete("pods", pod)
    scene.delete("services", f"{JOB}-workers")
    scene.pods_are()

    stays("pods and status", lambda: (scene.pod_uids(), scene.all_of("services"), scene.status()), seconds=2)
    assert scene.status() == finished
