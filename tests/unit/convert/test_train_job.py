"""TrainJob: the runtime it refers to, its own wishes over it, and the patches of all versions."""

from typing import Any

import pytest

from dtj.convert.notes import ConversionError
from tests.unit.convert.manifests import a_pod, a_runtime, a_runtime_job, a_train_job, converted, said, trainer

TORCH: dict[str, Any] = {"torch": {}}
NODE = a_runtime_job("node", a_pod("node", "torchrun", "train.py", env=[{"name": "A", "value": "1"}]))


def with_runtime(runtime: dict[str, Any] | None = None, **spec: object) -> Any:  # noqa: ANN401 - a conversion
    return converted(runtime or a_runtime(TORCH, NODE), a_train_job("ours", **spec))


# The runtime's policy, the job's wishes; framework, pods and processes.
SHAPES: dict[str, tuple[dict[str, Any], dict[str, Any], tuple[str, int, int | None]]] = {
    "the runtime's": ({"numNodes": 3, "torch": {"numProcPerNode": 2}}, {}, ("PyTorch", 3, 2)),
    "the job's": (
        {"numNodes": 3, "torch": {"numProcPerNode": 2}},
        {"numNodes": 4, "numProcPerNode": 8},
        ("PyTorch", 4, 8),
    ),
    "automatic": ({"torch": {"numProcPerNode": "auto"}}, {}, ("PyTorch", 1, None)),
    "JAX": ({"numNodes": 2, "jax": {}}, {}, ("JAX", 2, None)),
    "no framework": ({"numNodes": 2}, {}, ("Custom", 2, None)),
    "an elastic runtime": ({"torch": {"elasticPolicy": {"minNodes": 2, "maxNodes": 4}}}, {}, ("PyTorch", 2, None)),
}


@pytest.mark.parametrize(("policy", "wishes", "expected"), SHAPES.values(), ids=SHAPES.keys())
def test_nodes_and_processes(
    policy: dict[str, Any], wishes: dict[str, Any], expected: tuple[str, int, int | None]
) -> None:
    spec = with_runtime(a_runtime(policy, NODE), trainer=wishes).manifest["spec"]

    assert (spec["framework"], spec["replicas"], spec.get("processesPerReplica")) == expected


def test_the_jobs_wishes_go_over_the_runtimes() -> None:
    wishes = {
        "image": "mine:2",
        "command": ["torchrun", "mine.py"],
        "env": [{"name": "A", "value": "2"}, {"name": "B", "value": "3"}],
        "resourcesPerNode": {"requests": {"cpu": 2}},
    }
    node = a_runtime_job("node", a_pod("node", resources={"limits": {"nvidia.com/gpu": 1}}, env=[{"name": "A"}]))
    job = with_runtime(a_runtime(TORCH, node), trainer=wishes)

    assert trainer(job.manifest["spec"]["template"]) == {
        "name": "trainer",
        "image": "mine:2",
        "command": ["torchrun", "mine.py"],
        "resources": {"requests": {"cpu": 2}},
        "env": [{"name": "A", "value": "2"}, {"name": "B", "value": "3"}],
    }
    assert job.notes == ()


POD = {"nodeSelector": {"pool": "a"}, "containers": [{"name": "node", "env": [{"name": "B", "value": "2"}]}]}
PATCHES: dict[str, dict[str, Any]] = {
    "of the first version": {"podSpecOverrides": [{"targetJobs": [{"name": "node"}], **POD}]},
    "of the second version": {"podTemplateOverrides": [{"targetJobs": [{"name": "node"}], "spec": POD}]},
    "of the third version": {
        "runtimePatches": [
            {
                "manager": "somebody",
                "trainingRuntimeSpec": {
                    "template": {
                        "spec": {
                            "replicatedJobs": [{"name": "node", "template": {"spec": {"template": {"spec": POD}}}}]
                        }
                    }
                },
            }
        ]
    },
}


@pytest.mark.parametrize("patch", PATCHES.values(), ids=PATCHES.keys())
def test_patches(patch: dict[str, Any]) -> None:
    job = with_runtime(**patch)
    pod = job.manifest["spec"]["template"]["spec"]

    assert pod["nodeSelector"] == {"pool": "a"}
    assert [each["name"] for each in trainer(job.manifest["spec"]["template"])["env"]] == ["A", "B"]
    assert job.notes == ()


def test_a_patch_for_another_job_is_told() -> None:
    job = with_runtime(podSpecOverrides=[{"targetJobs": [{"name": "fetch"}], "serviceAccountName": "a"}])

    assert set(said(job, "dropped")) == {"spec.podSpecOverrides[0]"}


STEP = {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}
OTHER = a_runtime_job("other", a_pod("node", "other"))
TRAINERS: dict[str, list[dict[str, Any]]] = {
    "by its name": [OTHER, NODE],
    "by the label of its pods": [
        OTHER,
        a_runtime_job("mine", {"metadata": {"labels": STEP}, **a_pod("node", "torchrun", "train.py")}),
    ],
    "because it is alone": [a_runtime_job("mine", a_pod("node", "torchrun", "train.py"))],
}


@pytest.mark.parametrize("jobs", TRAINERS.values(), ids=TRAINERS.keys())
def test_which_of_the_runtimes_jobs_trains(jobs: list[dict[str, Any]]) -> None:
    job = with_runtime(a_runtime(TORCH, *jobs))

    assert trainer(job.manifest["spec"]["template"])["command"] == ["torchrun", "train.py"]
    assert ("other is not carried over" in "".join(said(job, "dropped").values())) is (len(jobs) > 1)


# What the runtime says of its JobSet and Job, what the TrainJob says, and what becomes of it.
POLICIES: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "the JobSet's restarts": (
        {"failurePolicy": {"maxRestarts": 2}},
        {"backoffLimit": 5},
        {},
        {"failurePolicy": {"maxRestarts": 2}},
    ),
    "the Job's": ({}, {"backoffLimit": 5}, {}, {"failurePolicy": {"maxRestarts": 5}}),
    "a deadline of the runtime": ({}, {"activeDeadlineSeconds": 60}, {}, {"activeDeadlineSeconds": 60}),
    "a deadline of the job": (
        {},
        {"activeDeadlineSeconds": 60},
        {"activeDeadlineSeconds": 90},
        {"activeDeadlineSeconds": 90},
    ),
    "a time to live": ({"ttlSecondsAfterFinished": 9}, {}, {}, {"ttlSecondsAfterFinished": 9}),
    "suspended": ({}, {}, {"suspend": True}, {"suspend": True}),
    "of another manager": (
        {},
        {},
        {"managedBy": "kueue.x-k8s.io/multikueue"},
        {"managedBy": "kueue.x-k8s.io/multikueue"},
    ),
    "of its own manager": ({}, {}, {"managedBy": "trainer.kubeflow.org/trainjob-controller"}, {}),
}


@pytest.mark.parametrize(("job_set", "job", "own", "expected"), POLICIES.values(), ids=POLICIES.keys())
def test_policies(job_set: dict[str, Any], job: dict[str, Any], own: dict[str, Any], expected: dict[str, Any]) -> None:
    runtime = a_runtime(TORCH, a_runtime_job("node", a_pod("node", "torchrun", "train.py"), **job))
    runtime["spec"]["template"]["spec"].update(job_set)
    result = with_runtime(runtime, **own)
    spec = result.manifest["spec"]
    always = {"framework", "replicas", "template"}

    assert {key: value for key, value in spec.items() if key not in always} == expected
    assert said(result, "dropped") == {}


def test_without_torchrun_nodes_trained_alone_and_now_train_together() -> None:
    job = converted(a_train_job(trainer={"image": "mine:1", "command": ["python", "train.py"], "numNodes": 2}))

    assert "train together" in said(job, "note")["spec.trainer.command"]


def test_the_well_known_runtime_is_assumed_and_said_so() -> None:
    job = converted(a_train_job())

    assert "is assumed" in said(job, "note")["spec.runtimeRef"]
    assert trainer(job.manifest["spec"]["template"])["image"].startswith("pytorch/pytorch:")


@pytest.mark.parametrize("kind", ["ClusterTrainingRuntime", "TrainingRuntime"])
def test_a_runtime_that_is_not_there(kind: str) -> None:
    with pytest.raises(ConversionError, match=f"{kind} absent is not in the input; give it with another -f"):
        converted(a_train_job(runtimeRef={"name": "absent", "kind": kind}))


@pytest.mark.parametrize(("there", "found"), [("team-a", True), (None, True), ("team-b", False)])
def test_a_runtime_of_the_jobs_namespace(there: str | None, found: bool) -> None:
    runtime = {**a_runtime(TORCH, NODE), "kind": "TrainingRuntime", "metadata": {"name": "ours", "namespace": there}}
    job = a_train_job(runtimeRef={"name": "ours", "kind": "TrainingRuntime"})
    job["metadata"]["namespace"] = "team-a"
    try:
        assert converted(runtime, job).manifest["metadata"]["namespace"] == "team-a"
    except ConversionError:
        assert not found
    else:
        assert found


def test_an_mpi_program_keeps_its_launcher() -> None:
    policy = {"numNodes": 2, "mpi": {"numProcPerNode": 4}}
    launcher = a_runtime_job("launcher", a_pod("node", "mpirun", "/opt/solve"))
    spec = with_runtime(a_runtime(policy, a_runtime_job("node", a_pod("node", "sshd")), launcher)).manifest["spec"]

    assert (spec["framework"], spec["replicas"], spec["processesPerReplica"]) == ("MPI", 2, 4)
    assert [role["name"] for role in spec["roles"]] == ["launcher"]
