"""TFJob: who leads, who counts for the end, one process for all accelerators of a pod."""

import pytest

from dtj.convert.notes import ConversionError
from tests.unit.convert.manifests import a_group, a_pod, a_tf_job, converted, said, trainer

# Groups of the old job; workers and roles of the new one; whose success ends it (none: the default).
GROUPS: dict[str, tuple[dict[str, int], int, dict[str, int], list[str] | None]] = {
    "workers": ({"Worker": 3}, 3, {}, None),
    "a chief": ({"Chief": 1, "Worker": 2}, 2, {"chief": 1}, ["chief"]),
    "a master is a chief": ({"Master": 1, "Worker": 2}, 2, {"chief": 1}, ["chief"]),
    "a chief alone is a worker": ({"Chief": 1}, 1, {}, None),
    "a chief whose workers have no pods": ({"Chief": 1, "Worker": 0, "PS": 2}, 1, {"ps": 2}, None),
    "all": ({"Chief": 1, "Worker": 4, "PS": 2, "Evaluator": 1}, 4, {"chief": 1, "ps": 2, "evaluator": 1}, ["chief"]),
}


@pytest.mark.parametrize(("old", "workers", "roles", "success"), GROUPS.values(), ids=GROUPS.keys())
def test_groups_become_roles(
    old: dict[str, int], workers: int, roles: dict[str, int], success: list[str] | None
) -> None:
    job = converted(a_tf_job(**old))
    spec = job.manifest["spec"]

    assert spec["replicas"] == workers
    assert {role["name"]: role["replicas"] for role in spec.get("roles", [])} == roles
    assert spec.get("successPolicy", {}).get("roles") == success
    assert said(job, "dropped") == {}


def test_each_role_keeps_its_own_pod() -> None:
    spec = converted(a_tf_job(Master=1, Worker=2, PS=1)).manifest["spec"]
    kinds = {role["name"]: trainer(role["template"])["command"][1] for role in spec["roles"]}

    assert kinds == {"chief": "Master", "ps": "PS"}
    assert trainer(spec["template"])["command"][1] == "Worker"


@pytest.mark.parametrize(
    ("policy", "told", "dropped"), [("", True, False), ("AllWorkers", False, False), ("Half", False, True)]
)
def test_the_end_of_a_job_without_a_chief(policy: str, told: bool, dropped: bool) -> None:
    job = converted(a_tf_job({"successPolicy": policy}, Worker=2))

    assert ("spec.successPolicy" in said(job, "note")) is told
    assert ("spec.successPolicy" in said(job, "dropped")) is dropped
    assert "successPolicy" not in job.manifest["spec"]


@pytest.mark.parametrize(("policy", "told"), [({}, True), ({"cleanPodPolicy": "None"}, False)])
def test_what_happens_to_pods_that_outlive_the_chief(policy: dict[str, str], told: bool) -> None:
    job = converted(a_tf_job({"runPolicy": policy}, Chief=1, Worker=2))

    assert ("spec.runPolicy.cleanPodPolicy" in said(job, "note")) is told


@pytest.mark.parametrize(("gpus", "expected"), [(0, None), (1, None), (4, 1)])
def test_one_process_drives_all_accelerators(gpus: int, expected: int | None) -> None:
    template = a_pod("tensorflow", resources={"limits": {"nvidia.com/gpu": gpus}})
    job = converted(a_tf_job({"tfReplicaSpecs": {"Worker": a_group(template, 2)}}))

    assert job.manifest["spec"].get("processesPerReplica") == expected


def test_a_user_may_not_bring_the_cluster_specification() -> None:
    template = a_pod("tensorflow", env=[{"name": "TF_CONFIG", "value": "{}"}, {"name": "RANK", "value": "0"}])
    job = converted(a_tf_job({"tfReplicaSpecs": {"Worker": a_group(template)}}))

    assert trainer(job.manifest["spec"]["template"])["env"] == [{"name": "RANK", "value": "0"}]
    assert "spec.tfReplicaSpecs.Worker.template.spec.containers[0].env[0]" in said(job, "note")


WRONG = {
    "chief and master": ({"Chief": 1, "Master": 1, "Worker": 1}, "Chief or Master, not both"),
    "two chiefs": ({"Chief": 2, "Worker": 1}, "only one can lead"),
    "parameter servers alone": ({"PS": 2}, "neither Worker nor Chief has pods"),
}


@pytest.mark.parametrize(("groups", "sentence"), WRONG.values(), ids=WRONG.keys())
def test_what_cannot_be_read(groups: dict[str, int], sentence: str) -> None:
    with pytest.raises(ConversionError, match=sentence):
        converted(a_tf_job(**groups))
