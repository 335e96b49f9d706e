"""Names that leave room for pods; labels and annotations."""

from typing import Any

import pytest

from dtj.api.job import DistributedTrainingJob
from dtj.convert.assemble import refusals
from dtj.plan.validation import mistakes_in
from tests.unit.convert.manifests import a_pytorch_job, a_tf_job, converted, said


def of(**metadata: object) -> Any:  # noqa: ANN401 - a conversion
    return converted({**a_pytorch_job(), "metadata": metadata})


NAMES = {
    "fits": ("digits-2", "digits-2"),
    "dots": ("digits.v1", "digits-v1"),
    "capitals": ("Digits", "digits"),
    "a digit first": ("3d-net", "job-3d-net"),
    "a hyphen last": ("digits-", "digits"),
    "nothing that fits": ("...", "job"),
}


@pytest.mark.parametrize(("old", "new"), NAMES.values(), ids=NAMES.keys())
def test_names(old: str, new: str) -> None:
    job = of(name=old)

    assert job.manifest["metadata"] == {"name": new}
    assert ("metadata.name" in said(job, "dropped")) is (old != new)


def test_long_names_are_cut_and_stay_apart() -> None:
    long = "a" * 60
    names = [of(name=long + end).manifest["metadata"]["name"] for end in ("1", "2")]

    assert len({*names}) == 2
    assert {len(name) for name in names} == {48}


def test_a_name_leaves_room_for_the_longest_pod() -> None:
    job = converted({**a_tf_job(Worker=1, Evaluator=1000), "metadata": {"name": "a" * 63}})
    as_custom = {**job.manifest, "spec": {**job.manifest["spec"], "framework": "Custom"}}

    assert mistakes_in(DistributedTrainingJob.model_validate(as_custom)) == ()


def test_a_generated_name_stays_one() -> None:
    job = of(generateName="Digits-run-")

    assert job.manifest["metadata"] == {"generateName": "digits-run-"}
    assert refusals(job.manifest) == ()


def test_no_name_is_said() -> None:
    assert refusals(of(namespace="a").manifest) == ("metadata.name: a name is needed; pods are named after it",)


def test_what_the_server_wrote_is_left_out_silently() -> None:
    written = {"uid": "1", "resourceVersion": "2", "generation": 3, "managedFields": [{}], "creationTimestamp": "4"}
    applied = {"kubectl.kubernetes.io/last-applied-configuration": "{}"}
    job = of(name="digits", labels={"a": "b"}, annotations=applied, **written)

    assert job.manifest["metadata"] == {"name": "digits", "labels": {"a": "b"}}
    assert said(job, "dropped") == {}


@pytest.mark.parametrize("field", ["ownerReferences", "finalizers", "somethingNew"])
def test_what_others_rely_on_is_told(field: str) -> None:
    job = of(name="digits", **{field: [{"name": "a"}]})

    assert set(said(job, "dropped")) == {f"metadata.{field}"}


def test_a_queue_that_nobody_reads_is_pointed_out() -> None:
    job = of(name="digits", labels={"kueue.x-k8s.io/queue-name": "research"})

    assert job.manifest["metadata"]["labels"] == {"kueue.x-k8s.io/queue-name": "research"}
    assert set(said(job, "dropped")) == {"metadata.labels.kueue.x-k8s.io/queue-name"}
