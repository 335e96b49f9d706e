"""What the contestants create: the same work for all."""

from dtj.api.job import DistributedTrainingJob
from dtj.plan.validation import mistakes_in
from tests.bench.scale import manifests


def test_the_floor_creates_the_operators_pods_owned_by_nobody() -> None:
    service, pods = manifests.service_and_pods("job-0", 3, "bench")

    assert service["spec"]["clusterIP"] == "None"
    assert [pod["metadata"]["name"] for pod in pods] == ["job-0-worker-0", "job-0-worker-1", "job-0-worker-2"]
    assert all("ownerReferences" not in each["metadata"] for each in (service, *pods))
    assert {pod["spec"]["subdomain"] for pod in pods} == {service["metadata"]["name"]}


def test_the_next_attempt_has_other_names() -> None:
    _, before = manifests.service_and_pods("job-0", 2, "bench")
    _, after = manifests.service_and_pods("job-0", 2, "bench", attempt=1)

    assert not {pod["metadata"]["name"] for pod in before} & {pod["metadata"]["name"] for pod in after}


def test_an_indexed_job_asks_for_the_same_container() -> None:
    own = manifests.training_job("job-0", 2)["spec"]["template"]["spec"]["containers"]
    service, job = manifests.indexed_job("job-0", 2)

    assert job["spec"]["template"]["spec"]["containers"] == own
    assert (job["spec"]["completions"], job["spec"]["parallelism"]) == (2, 2)
    assert service["spec"]["selector"].items() <= job["spec"]["template"]["metadata"]["labels"].items()


def test_poison_is_nothing_that_the_operator_could_know_beforehand() -> None:
    for job in (manifests.refused_job("refused"), manifests.crashing_job("crashing")):
        job["metadata"] |= {"namespace": "bench", "uid": manifests.UID}
        assert not mistakes_in(DistributedTrainingJob.model_validate(job))
