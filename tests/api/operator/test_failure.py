"""A job whose workers end badly: what is told as the cause, and what becomes of the other pods."""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.api.fake_kubelet import FakeKubelet, waiting
from tests.api.operator.polling import stays
from tests.api.operator.scene import JOB, Scene, condition, worker

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
    failed = scene.status_in("Failed", expected["reason"])

    told = failed["lastFailure"]
    assert {key: told.get(key) for key in expected} == expected
    assert (told["role"], told["index"], told["rank"], told["attempt"]) == ("worker", 1, 1, 0)
    assert (told["pod"], told["node"], told["action"]) == (worker(1), scene.kubelet.node, "FailJob")
    assert (condition(failed, "Failed"), condition(failed, "Running")) == ("True", "False")
    assert "completionTime" in failed


def test_survivors_are_deleted_and_the_failed_pod_is_kept(scene: Scene) -> None:
    pods = scene.start(replicas=4)

    scene.kubelet.fail(worker(2), 1, "boom")
    scene.status_in("Failed")

    left = scene.pods_are(worker(2))
    assert left[worker(2)] == pods[worker(2)]
    assert sorted(scene.all_of("services")) == [f"{JOB}-workers"]


def test_the_cause_is_told_although_its_victim_ended_first(scene: Scene) -> None:
    scene.start()
    now = datetime.now(UTC)

    scene.kubelet.fail(worker(0), 1, LOST_PEER, at=now)
    time.sleep(1)  # the situation itself: the other kubelet looks at its containers a second later
    scene.kubelet.fail(worker(1), 3, "ValueError: bad label", at=now + timedelta(seconds=1))
    told = scene.status_in("Failed")["lastFailure"]

    assert (told["rank"], told["exitCode"]) == (1, 3)


def test_a_lost_peer_is_the_cause_where_nothing_else_ends(scene: Scene) -> None:
    scene.start()

    scene.kubelet.fail(worker(0), 1, LOST_PEER)
    told = scene.status_in("Failed", within=10)["lastFailure"]

    assert (told["rank"], told["reason"]) == (0, "NonZeroExit")


def test_a_worker_that_fails_before_the_others_started(scene: Scene) -> None:
    scene.submit()
    scene.pods_are(worker(0), worker(1))
    scene.kubelet.report(worker(0), {"trainer": waiting("ContainerCreating")})

    scene.kubelet.fail(worker(1), 2, "error: unrecognized arguments: --epoch")
    failed = scene.status_in("Failed", "NonZeroExit")

    assert failed["lastFailure"]["rank"] == 1
    assert "runningTime" not in failed
    scene.pods_are(worker(1))


def test_a_pod_deleted_by_hand_fails_the_running_job(scene: Scene) -> None:
    scene.start()

    scene.delete("pods", worker(1))
    failed = scene.status_in("Failed", "PodDeleted")

    assert failed["lastFailure"]["pod"] == worker(1)
    assert failed["lastFailure"]["class"] == "Disruption"
    scene.pods_are()


def test_a_pod_that_vanishes_fails_the_running_job(scene: Scene) -> None:
    scene.start()

    scene.client.request("DELETE", scene.path("pods", worker(0)), {"gracePeriodSeconds": 0})
    failed = scene.status_in("Failed", "PodDeleted")

    assert failed["lastFailure"]["pod"] == worker(0)
    scene.pods_are()


@pytest.mark.parametrize("end", ["Succeeded", "Failed"])
def test_a_finished_job_stays_finished_when_its_children_are_deleted(scene: Scene, end: str) -> None:
    scene.start({"spec.cleanupPolicy": "None"})
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
