"""A job whose pods do not start: its status says why, without a storm of writes."""

from collections.abc import Callable

import pytest

from dtj.api import names
from tests.api.fake_kubelet import TRAINER, FakeKubelet, waiting
from tests.api.operator.polling import eventually, stays
from tests.api.operator.scene import Scene, condition, worker

pytestmark = pytest.mark.api

NO_NODE = "0/2 nodes are available: 2 Insufficient nvidia.com/gpu."
NOT_FOUND = 'failed to pull and unpack image "docker.io/dtj/pytroch:dev": not found'
BACK_OFF = f'Back-off pulling image "dtj/pytroch:dev": ErrImagePull: {NOT_FOUND}'

Happening = Callable[[FakeKubelet, str], None]


def container_waits(reason: str, message: str) -> Happening:
    return lambda kubelet, pod: kubelet.report(pod, {TRAINER: waiting(reason, message)})


REASONS: dict[str, tuple[Happening, str, str]] = {
    "no node has enough GPUs": (lambda kubelet, pod: kubelet.refuse_to_place(pod, NO_NODE), "Unschedulable", NO_NODE),
    "the image does not exist": (container_waits("ErrImagePull", NOT_FOUND), "ImagePullBackOff", NOT_FOUND),
    "the image's name is none": (
        container_waits("InvalidImageName", 'couldn\'t parse image name "dtj/pytorch:a:b"'),
        "InvalidImageName",
        "couldn't parse image name",
    ),
    "a Secret is missing": (
        container_waits("CreateContainerConfigError", 'secret "token" not found'),
        "CreateContainerConfigError",
        'secret "token" not found',
    ),
}


@pytest.mark.parametrize(("happens", "reason", "message"), REASONS.values(), ids=REASONS.keys())
def test_status_says_why(scene: Scene, happens: Happening, reason: str, message: str) -> None:
    scene.submit()
    scene.pods_are(worker(0), worker(1))
    scene.kubelet.run(worker(0))

    happens(scene.kubelet, worker(1))
    pending = scene.status_in("Pending", reason)

    (told,) = pending["conditions"]
    assert (told["type"], told["status"], told["reason"]) == ("Running", "False", reason)
    assert message in told["message"]
    assert "1 of 2 pods" in told["message"]


def test_a_job_goes_on_once_its_pods_can_start(scene: Scene) -> None:
    scene.submit()
    pods = scene.pods_are(worker(0), worker(1))
    for pod in pods:
        scene.kubelet.refuse_to_place(pod, NO_NODE)
    scene.status_in("Pending", "Unschedulable")

    scene.kubelet.run(*pods)
    running = scene.status_in("Running", "AllPodsRunning")

    assert condition(running, "Running") == "True"
    assert scene.pod_uids() == pods


def test_a_pull_that_backs_off_and_tries_again_is_one_write(scene: Scene) -> None:
    scene.submit()
    scene.pods_are(worker(0), worker(1))
    scene.kubelet.run(worker(1))
    container_waits("ErrImagePull", NOT_FOUND)(scene.kubelet, worker(0))
    scene.status_in("Pending", "ImagePullBackOff")
    before = scene.audit.writes(scene.namespace)

    for _ in range(20):
        container_waits("ImagePullBackOff", BACK_OFF)(scene.kubelet, worker(0))
        container_waits("ErrImagePull", NOT_FOUND)(scene.kubelet, worker(0))
    scene.kubelet.run(worker(0))  # behind all of that in the operator's watch
    scene.status_in("Running")

    since = scene.audit.writes(scene.namespace) - before
    assert since[f"PATCH {names.PLURAL}/status"] == 1, "only that it runs"


def test_a_trouble_that_comes_again_is_one_event_that_counts(scene: Scene) -> None:
    scene.submit()
    scene.pods_are(worker(0), worker(1))
    scene.kubelet.run(worker(1))
    for _ in range(3):
        container_waits("ErrImagePull", NOT_FOUND)(scene.kubelet, worker(0))
        scene.status_in("Pending", "ImagePullBackOff")
        container_waits("ContainerCreating", "")(scene.kubelet, worker(0))
        scene.status_in("Starting")

    def told() -> list[int]:
        events = scene.all_of("events").values()
        return [int(event["count"]) for event in events if event["reason"] == "ImagePullBackOff"]

    eventually("one event, counted three times", told, lambda counts: counts == [3])


def test_a_running_job_is_quiet(scene: Scene) -> None:
    scene.start()

    stays("the operator's requests", lambda: scene.audit.requests(scene.namespace), seconds=15)
