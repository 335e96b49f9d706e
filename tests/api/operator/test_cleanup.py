"""What ``spec.cleanupPolicy`` leaves of a job that ended."""

import pytest

from tests.api.fake_kubelet import TRAINER, terminated
from tests.api.operator.polling import eventually, stays
from tests.api.operator.scene import JOB, NO_RESTARTS, Scene, worker

pytestmark = pytest.mark.api

SERVICE = f"{JOB}-workers"
ALL = {worker(0), worker(1)}

SUCCEEDED: dict[str, tuple[set[str], set[str]]] = {
    "Running": (ALL, {SERVICE}),
    "All": (set(), set()),
    "None": (ALL, {SERVICE}),
}
FAILED: dict[str, tuple[set[str], set[str]]] = {
    "Running": ({worker(1)}, {SERVICE}),
    "All": (set(), set()),
    "None": (ALL, {SERVICE}),
}


@pytest.mark.parametrize(("policy", "left"), SUCCEEDED.items(), ids=SUCCEEDED.keys())
def test_after_success(scene: Scene, policy: str, left: tuple[set[str], set[str]]) -> None:
    scene.start({"spec.cleanupPolicy": policy})
    scene.kubelet.succeed(*ALL)
    scene.status_in("Succeeded")

    assert_left(scene, *left)


@pytest.mark.parametrize(("policy", "left"), FAILED.items(), ids=FAILED.keys())
def test_after_failure(scene: Scene, policy: str, left: tuple[set[str], set[str]]) -> None:
    scene.start({**NO_RESTARTS, "spec.cleanupPolicy": policy})
    scene.kubelet.fail(worker(1), 1)
    scene.status_in("Failed")

    assert_left(scene, *left)


def test_a_sidecar_that_never_ends_does_not_keep_the_job_running(scene: Scene) -> None:
    containers = [{"name": TRAINER, "image": "dtj/pytorch:dev"}, {"name": "proxy", "image": "example.com/proxy:1"}]
    scene.start({"spec.template.spec.containers": containers})

    for pod in ALL:
        scene.kubelet.report(pod, {TRAINER: terminated(0)})
    scene.status_in("Succeeded")

    scene.pods_are()


def assert_left(scene: Scene, pods: set[str], services: set[str]) -> None:
    """These are what is left, and nothing of it goes later."""

    def what_is_left() -> tuple[set[str], set[str]]:
        scene.kubelet.finish_deletions()
        return set(scene.all_of("pods")), set(scene.all_of("services"))

    eventually(f"left are {pods} and {services}", what_is_left, lambda left: left == (pods, services))
    stays("what is left", what_is_left, seconds=1)
