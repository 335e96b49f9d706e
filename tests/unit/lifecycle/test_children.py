"""The fields of children that decisions read, decoded from what the API server sends."""

import msgspec
import pytest

from dtj.lifecycle.children import Pod
from tests.builders import JOB_UID, NOW, a_pod, rfc3339


def test_a_pod_as_the_server_sends_it() -> None:
    sent = a_pod(index=3).running().being_deleted(grace=0).raw()
    sent["metadata"]["managedFields"] = [{"manager": "kubelet"}]
    sent["status"]["containerStatuses"][0]["imageID"] = "sha256:0"
    pod = msgspec.json.decode(msgspec.json.encode(sent), type=Pod)

    assert (pod.name, pod.role, pod.index, pod.attempt) == ("digits-worker-3", "worker", 3, 0)
    assert pod.metadata.deletion_timestamp == NOW
    assert pod.metadata.controller_uid == JOB_UID
    assert pod.trainer is not None
    assert pod.trainer.state.running is not None


def test_a_pod_of_which_hardly_anything_is_known() -> None:
    pod = msgspec.json.decode(b'{"metadata": {"name": "a"}}', type=Pod)

    assert (pod.role, pod.index, pod.attempt, pod.trainer, pod.terminating) == ("", -1, -1, None, False)
    assert pod.metadata.controller_uid is None
    assert pod.condition("PodScheduled") is None


@pytest.mark.parametrize("label", ["", "x", "-1", "1.5", " 1", "\u0661", "\u00b2"])
def test_a_label_that_is_no_number_matches_nothing(label: str) -> None:
    pod = a_pod().labelled(INDEX=label, ATTEMPT=label).build()

    assert (pod.index, pod.attempt) == (-1, -1)


def test_only_the_owner_that_manages_it_counts() -> None:
    raw = a_pod().raw()
    raw["metadata"]["ownerReferences"].insert(0, {"uid": "other", "kind": "Node", "name": "node-1"})

    assert msgspec.convert(raw, Pod).metadata.controller_uid == JOB_UID


@pytest.mark.parametrize("name", ["trainer", "main", "z"])
def test_the_trainer_is_found_by_its_name_wherever_the_kubelet_sorts_it(name: str) -> None:
    pod = a_pod(trainer=name).running(container="sidecar").ended(3).build()

    assert pod.trainer is not None
    assert pod.trainer.name == name


def test_without_the_label_it_is_the_one_named_trainer() -> None:
    raw = a_pod().running(container="sidecar").ended(3).raw()
    del raw["metadata"]["labels"]["dtj.dev/trainer-container"]
    pod = msgspec.convert(raw, Pod)

    assert pod.trainer is not None
    assert pod.trainer.name == "trainer"


def test_times_know_their_zone() -> None:
    pod = a_pod().failed().build()

    assert pod.trainer is not None
    assert pod.trainer.state.terminated is not None
    assert pod.trainer.state.terminated.finished_at is not None
    assert rfc3339(pod.trainer.state.terminated.finished_at) == rfc3339(NOW)


def test_the_request_of_a_deletion_lies_a_grace_period_before_its_timestamp() -> None:
    metadata = a_pod().being_deleted(NOW, grace=300).build().metadata

    assert metadata.deletion_requested_at == NOW
    assert a_pod().build().metadata.deletion_requested_at is None
