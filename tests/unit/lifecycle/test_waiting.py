"""Why pods have not started: the one thing that a person can act on."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtj.api.reasons import Reason
from dtj.lifecycle.children import Pod
from dtj.lifecycle.waiting import ACTIONABLE, Waiting, why_waiting
from tests.builders import PodBuilder, a_job, a_pod
from tests.unit.lifecycle.pods import any_pod

JOB = a_job().replicas(3).begun().build()
POD = a_pod(JOB)
NOT_FOUND = 'failed to pull and unpack image "docker.io/library/nope:1": not found'

REASONS: dict[str, tuple[PodBuilder, tuple[Reason, str]]] = {
    "nothing said yet": (POD, (Reason.CONTAINER_CREATING, "containers are created")),
    "containers are created": (
        POD.waiting("ContainerCreating"),
        (Reason.CONTAINER_CREATING, "containers are created"),
    ),
    "init containers run": (
        POD.waiting("PodInitializing"),
        (Reason.CONTAINER_CREATING, "containers are created"),
    ),
    "no node fits": (
        POD.unschedulable("0/2 nodes are available: 2 Insufficient nvidia.com/gpu."),
        (Reason.UNSCHEDULABLE, "0/2 nodes are available: 2 Insufficient nvidia.com/gpu."),
    ),
    "a gate is closed": (POD.scheduling_gated(), (Reason.SCHEDULING_GATED, "waits for its gate")),
    "the image was not found": (
        POD.waiting("ErrImagePull", NOT_FOUND),
        (Reason.IMAGE_PULL_BACK_OFF, f"container trainer: {NOT_FOUND}"),
    ),
    "the image was not found, next try later": (
        POD.waiting("ImagePullBackOff", f'Back-off pulling image "nope:1": ErrImagePull: {NOT_FOUND}'),
        (Reason.IMAGE_PULL_BACK_OFF, f"container trainer: {NOT_FOUND}"),
    ),
    "the image of a sidecar": (
        POD.waiting("ErrImagePull", NOT_FOUND, container="sidecar"),
        (Reason.IMAGE_PULL_BACK_OFF, f"container sidecar: {NOT_FOUND}"),
    ),
    "a reason without a message": (
        POD.waiting("ErrImageNeverPull"),
        (Reason.ERR_IMAGE_NEVER_PULL, "container trainer: ErrImageNeverPull"),
    ),
    "no image name": (
        POD.waiting("InvalidImageName", "couldn't parse image reference"),
        (Reason.INVALID_IMAGE_NAME, "container trainer: couldn't parse image reference"),
    ),
    "a key that is missing": (
        POD.waiting("CreateContainerConfigError", "couldn't find key a in ConfigMap b"),
        (Reason.CREATE_CONTAINER_CONFIG_ERROR, "container trainer: couldn't find key a in ConfigMap b"),
    ),
    "the runtime refuses": (
        POD.waiting("CreateContainerError", "context deadline exceeded"),
        (Reason.CREATE_CONTAINER_ERROR, "container trainer: context deadline exceeded"),
    ),
    "the command cannot be started": (
        POD.waiting("RunContainerError", "no such file"),
        (Reason.RUN_CONTAINER_ERROR, "container trainer: no such file"),
    ),
    "scheduled": (
        POD.condition("PodScheduled", "True"),
        (Reason.CONTAINER_CREATING, "containers are created"),
    ),
}


@pytest.mark.parametrize(("pod", "why"), REASONS.values(), ids=REASONS.keys())
def test_why_one_pod_waits(pod: PodBuilder, why: tuple[Reason, str]) -> None:
    found = why_waiting([pod.build()])

    assert found == Waiting(*why, pod.build())


def test_nobody_waits() -> None:
    assert why_waiting([]) is None


def test_the_most_telling_reason_with_the_pods_that_share_it() -> None:
    pods = [
        a_pod(JOB, 0).waiting("ContainerCreating"),
        a_pod(JOB, 1).waiting("ErrImagePull", NOT_FOUND),
        a_pod(JOB, 2).waiting("ImagePullBackOff", f'Back-off pulling image "nope:1": {NOT_FOUND}'),
    ]

    found = why_waiting([pod.build() for pod in pods])

    assert found == Waiting(Reason.IMAGE_PULL_BACK_OFF, f"container trainer: {NOT_FOUND}", pods[1].build(), pods=2)


def test_the_kubelets_two_words_for_one_trouble_do_not_make_the_status_flap() -> None:
    pulling = why_waiting([POD.waiting("ErrImagePull", NOT_FOUND).build()])
    backing_off = why_waiting(
        [POD.waiting("ImagePullBackOff", f'Back-off pulling image "nope:1": ErrImagePull: {NOT_FOUND}').build()]
    )

    assert pulling is not None
    assert backing_off is not None
    assert pulling[:2] == backing_off[:2]


def test_what_heals_by_itself_asks_nobody_to_act() -> None:
    assert not ACTIONABLE & {Reason.CONTAINER_CREATING, Reason.SCHEDULING_GATED}


@given(st.lists(any_pod(JOB), min_size=1, max_size=4))
def test_whatever_pods_say_there_is_one_reason(pods: list[Pod]) -> None:
    found = why_waiting(pods)

    assert found is not None
    assert 1 <= found.pods <= len(pods)
