"""PyTorchJob: master and workers, processes per pod, elasticity."""

import pytest

from dtj.convert.notes import ConversionError
from tests.unit.convert.manifests import a_group, a_pod, a_pytorch_job, converted, said, trainer

GPUS = {"limits": {"nvidia.com/gpu": 8}}
SPECS = "spec.pytorchReplicaSpecs"


def test_a_master_like_its_workers_is_the_first_of_them() -> None:
    job = converted(a_pytorch_job(master=a_pod(ports=[{"name": "pytorchjob-port", "containerPort": 23456}])))

    assert job.manifest["spec"]["replicas"] == 3
    assert not {"roles", "successPolicy"} & job.manifest["spec"].keys()
    assert "3 workers" in said(job, "note")[f"{SPECS}.Master"]


def test_a_master_of_its_own_is_a_role_whose_end_is_the_jobs() -> None:
    spec = converted(a_pytorch_job(master=a_pod("pytorch", "python", "train.py", "--save"))).manifest["spec"]

    assert spec["replicas"] == 2
    assert spec["successPolicy"] == {"roles": ["master"]}
    [role] = spec["roles"]
    assert (role["name"], role["replicas"]) == ("master", 1)
    assert trainer(role["template"])["command"][-1] == "--save"


@pytest.mark.parametrize("kind", ["Master", "Worker", "worker"])
def test_one_group_alone(kind: str) -> None:
    job = converted(a_pytorch_job(pytorchReplicaSpecs={kind: {"template": a_pod()}}))

    assert job.manifest["spec"]["replicas"] == 1
    assert "roles" not in job.manifest["spec"]


# nprocPerNode, command, what is asked for, and what processesPerReplica becomes.
PROCESSES = {
    "a number": ("4", ["torchrun", "train.py"], {}, 4),
    "one process in spite of the accelerators": ("auto", ["python", "train.py"], GPUS, 1),
    "one process and no wish": (None, ["python", "train.py"], GPUS, 1),
    "one process and one device": (None, ["python", "train.py"], {"limits": {"nvidia.com/gpu": 1}}, None),
    "torchrun counts the accelerators": ("gpu", ["torchrun", "train.py"], GPUS, None),
    "torchrun as a module": (None, ["python", "-m", "torch.distributed.run", "train.py"], GPUS, None),
    "a script of which nothing is known": (None, ["/train.sh"], GPUS, None),
}


@pytest.mark.parametrize(("wish", "command", "resources", "expected"), PROCESSES.values(), ids=PROCESSES.keys())
def test_processes_in_a_pod(
    wish: str | None, command: list[str], resources: dict[str, object], expected: int | None
) -> None:
    job = converted(a_pytorch_job(a_pod("pytorch", *command, resources=resources), nprocPerNode=wish))

    assert job.manifest["spec"].get("processesPerReplica") == expected
    assert said(job, "dropped") == {}


def test_as_many_processes_as_processors_have_to_be_counted_by_hand() -> None:
    job = converted(a_pytorch_job(nprocPerNode="cpu"))

    assert "processesPerReplica" in said(job, "dropped")["spec.nprocPerNode"]


# The policy, the fields dropped, and what is carried over.
ELASTIC: dict[str, tuple[dict[str, object], set[str], dict[str, object]]] = {
    "a fixed number": ({"minReplicas": 2, "maxReplicas": 2, "rdzvBackend": "c10d", "rdzvPort": 29400}, set(), {}),
    "a range": ({"minReplicas": 1, "maxReplicas": 3}, {"spec.elasticPolicy"}, {}),
    "restarts": ({"maxRestarts": 9}, set(), {"failurePolicy": {"maxRestarts": 9}}),
    "the old field for processes": ({"nProcPerNode": 2}, set(), {"processesPerReplica": 2}),
    "etcd": ({"rdzvBackend": "etcd-v2"}, {"spec.elasticPolicy.rdzvBackend"}, {}),
    "settings of the rendezvous": (
        {"rdzvConf": [{"key": "timeout", "value": "9"}]},
        {"spec.elasticPolicy.rdzvConf"},
        {},
    ),
    "an autoscaler": ({"metrics": [{"type": "Resource"}]}, {"spec.elasticPolicy.metrics"}, {}),
}


@pytest.mark.parametrize(("policy", "dropped", "carried"), ELASTIC.values(), ids=ELASTIC.keys())
def test_elastic_policies(policy: dict[str, object], dropped: set[str], carried: dict[str, object]) -> None:
    job = converted(a_pytorch_job(a_pod("pytorch", "torchrun", "train.py"), elasticPolicy=policy))

    assert set(said(job, "dropped")) == dropped
    assert carried.items() <= job.manifest["spec"].items()


def test_the_addresses_of_old_pods_are_pointed_out() -> None:
    command = ["torchrun", "--rdzv_endpoint=digits-master-0.team:23456", "train.py", "--peer", "otherdigits-master-0"]
    job = converted(a_pytorch_job(a_pod("pytorch", *command)))

    assert said(job, "dropped") == {
        "spec": "digits-master-0 is an old pod's address and no longer found: take addresses from the variables of the "
        "framework, such as MASTER_ADDR"
    }


WRONG = {
    "two masters": ({"Master": a_group(a_pod(), 2), "Worker": a_group(a_pod())}, "Master.replicas must be 1"),
    "no pods": ({"Worker": a_group(a_pod(), 0)}, "no group with pods; needed is Master or Worker"),
    "another restart policy": ({"Worker": a_group(a_pod(), restartPolicy="Sometimes")}, "must be one of Always"),
    "no containers": ({"Worker": a_group({"spec": {}})}, "at least one container is needed"),
    "words for a number": ({"Worker": {"replicas": "two", "template": a_pod()}}, "must be a whole number"),
}


@pytest.mark.parametrize(("specs", "sentence"), WRONG.values(), ids=WRONG.keys())
def test_what_cannot_be_read(specs: dict[str, object], sentence: str) -> None:
    with pytest.raises(ConversionError, match=sentence) as caught:
        converted(a_pytorch_job(pytorchReplicaSpecs=specs))

    assert str(caught.value).startswith("PyTorchJob/digits: spec.pytorchReplicaSpecs")


def test_an_unknown_group_and_an_unknown_field_are_told() -> None:
    groups = {"Worker": a_group(a_pod()), "Coach": a_group(a_pod())}
    job = converted(a_pytorch_job(pytorchReplicaSpecs=groups, paddles=2))

    assert set(said(job, "dropped")) == {f"{SPECS}.Coach", "spec.paddles"}
