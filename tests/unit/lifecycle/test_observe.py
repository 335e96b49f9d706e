"""Every pod in exactly one bucket."""

from collections.abc import Sequence
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtj.api import names
from dtj.lifecycle.children import Pod
from dtj.lifecycle.observe import Bucket, Observed, observe, occupies_node
from dtj.plan.topology import Slot
from tests.builders import NOW, PodBuilder, a_job, a_pod, a_service
from tests.unit.lifecycle.pods import any_pod

JOB = a_job().replicas(3).role("master").begun(attempt=1).build()
POD = a_pod(JOB)
SECOND = timedelta(seconds=1)

BUCKETS: dict[str, tuple[PodBuilder, Bucket]] = {
    "just created": (POD.unschedulable(), Bucket.PENDING),
    "on a node, nothing said of its containers": (POD, Bucket.PENDING),
    "waiting for its image": (POD.waiting("ImagePullBackOff"), Bucket.PENDING),
    "running": (POD.running(), Bucket.RUNNING),
    "running before its sidecar": (
        POD.running().waiting("ContainerCreating", container="sidecar"),
        Bucket.RUNNING,
    ),
    "sidecar runs, trainer not yet": (
        POD.running(container="sidecar").waiting("ContainerCreating"),
        Bucket.PENDING,
    ),
    "succeeded": (POD.succeeded(), Bucket.SUCCEEDED),
    "trainer succeeded, sidecar still running": (POD.running(container="sidecar").ended(0), Bucket.SUCCEEDED),
    "trainer succeeded, sidecar failed": (
        POD.in_phase("Failed").ended(1, container="sidecar").ended(0),
        Bucket.SUCCEEDED,
    ),
    "succeeded, no container says so": (POD.in_phase("Succeeded"), Bucket.SUCCEEDED),
    "succeeded, then deleted": (POD.succeeded().being_deleted(at=NOW + SECOND), Bucket.SUCCEEDED),
    "deleted, then exited with 0 as asked to": (POD.succeeded().being_deleted(at=NOW - SECOND), Bucket.TERMINATING),
    "succeeded in the second of its deletion": (POD.succeeded().being_deleted(), Bucket.TERMINATING),
    "failed": (POD.failed(3), Bucket.FAILED),
    "trainer failed, sidecar still running": (POD.running(container="sidecar").ended(1), Bucket.FAILED),
    "evicted, no container says so": (POD.pod_failed("Evicted"), Bucket.FAILED),
    "evicted, the container was last seen running": (POD.running().pod_failed("Evicted"), Bucket.FAILED),
    "an init container failed": (
        POD.in_phase("Failed").waiting("PodInitializing").init_ended(1),
        Bucket.FAILED,
    ),
    "failed, then deleted": (POD.failed(3).being_deleted(at=NOW + SECOND), Bucket.FAILED),
    "deleted, then ended by SIGTERM": (POD.failed(143).being_deleted(at=NOW - SECOND), Bucket.TERMINATING),
    "running and being deleted": (POD.running().being_deleted(), Bucket.TERMINATING),
    "pending and being deleted": (POD.being_deleted(), Bucket.TERMINATING),
    "of an older attempt": (a_pod(JOB, attempt=0).running(), Bucket.OLDER),
    "of an older attempt, failed": (a_pod(JOB, attempt=0).failed(), Bucket.OLDER),
    "of an attempt that this process has not heard of": (a_pod(JOB, attempt=2).running(), Bucket.NEWER),
    "of no slot": (a_pod(JOB, 3).running(), Bucket.OLDER),
    "of no role of the job": (a_pod(JOB, role="chief").running(), Bucket.OLDER),
    "of no slot, but of a later attempt: the view of the job is old": (a_pod(JOB, 3, attempt=2), Bucket.NEWER),
    "its attempt was tampered with": (POD.labelled(ATTEMPT="one").running(), Bucket.OLDER),
}


def seen(*pods: PodBuilder) -> Observed:
    return observe(JOB, [pod.build() for pod in pods], None, None)


@pytest.mark.parametrize(("pod", "bucket"), BUCKETS.values(), ids=BUCKETS.keys())
def test_bucket(pod: PodBuilder, bucket: Bucket) -> None:
    observed = seen(pod)

    assert [each for each in Bucket if observed.pods[each]] == [bucket]
    assert observed.count(bucket) == 1


@given(st.lists(any_pod(JOB), max_size=8))
def test_every_pod_is_in_exactly_one_bucket(pods: Sequence[Pod]) -> None:
    observed = observe(JOB, pods, None, None)
    sorted_in = [pod for bucket in Bucket for pod in observed.pods[bucket]]

    assert sorted(map(id, sorted_in)) == sorted(map(id, pods))


def test_the_order_in_which_pods_are_heard_of_does_not_matter() -> None:
    pods = [a_pod(JOB, index, attempt=attempt).running().build() for index in (2, 0, 1) for attempt in (0, 1, 2)]

    assert observe(JOB, pods, None, None) == observe(JOB, pods[::-1], None, None)


def test_slots_are_filled_by_pods_of_this_attempt_in_whatever_state() -> None:
    pods = (POD.failed(), a_pod(JOB, 1).being_deleted(), a_pod(JOB, 2, attempt=0).running())

    assert seen(*pods).filled == {Slot(names.WORKER_ROLE, 0), Slot(names.WORKER_ROLE, 1)}


def test_a_pod_of_another_namespace_is_none_of_the_job() -> None:
    """Whoever knows the job's UID may name it as the owner of a pod of theirs."""
    foreign = a_pod(a_job().replicas(3).begun(attempt=1).namespace("elsewhere").build()).failed()

    assert not any(seen(foreign).pods.values())


def test_counts_of_one_role() -> None:
    observed = seen(POD.running(), a_pod(JOB, 1).running(), a_pod(JOB, 0, role="master").running())

    assert observed.count(Bucket.RUNNING) == 3
    assert observed.count(Bucket.RUNNING, "master") == 1


def test_the_service_is_passed_on() -> None:
    service = a_service(JOB)

    assert observe(JOB, [], service, None).service is service


OCCUPIES: dict[str, tuple[PodBuilder, bool]] = {
    "pending": (POD, True),
    "running": (POD.running(), True),
    "trainer ended, sidecar runs": (POD.running(container="sidecar").ended(0), True),
    "all containers ended, the phase lags behind": (POD.ended(0), False),
    "succeeded": (POD.succeeded(), False),
    "failed": (POD.failed(), False),
    "succeeded, no container says so": (POD.in_phase("Succeeded"), False),
}


@pytest.mark.parametrize(("pod", "occupies"), OCCUPIES.values(), ids=OCCUPIES.keys())
def test_occupies_its_node(pod: PodBuilder, occupies: bool) -> None:
    assert occupies_node(pod.build()) is occupies
