"""The shapes that the other operators publish: converted, accepted, and every difference told."""

from copy import deepcopy

import pytest

from dtj.api.job import DistributedTrainingJob
from dtj.convert.assemble import refusals
from dtj.convert.documents import read_documents, write_documents
from dtj.plan.frameworks import WIRINGS
from dtj.plan.topology import topology_of
from dtj.plan.validation import mistakes_in
from tests.unit.convert.manifests import NAMES, converted, said, sample

# Framework, pods by role in rank order, processes in a pod, and the fields that were dropped.
EXPECTED: dict[str, tuple[str, dict[str, int], int, set[str]]] = {
    "mpi-horovod-mpirun": ("Horovod", {"worker": 2}, 1, set()),
    "mpi-horovodrun-elastic": ("Horovod", {"worker": 2}, 2, {"spec.mpiReplicaSpecs.Launcher.template.spec"}),
    "mpi-v2-program": ("MPI", {"launcher": 1, "worker": 2}, 1, {"spec.sshAuthMountPath"}),
    "pytorch-elastic": ("PyTorch", {"worker": 2}, 1, {"spec.elasticPolicy", "spec.elasticPolicy.metrics"}),
    "pytorch-everything": (
        "PyTorch",
        {"master": 1, "worker": 2},
        4,
        {
            "metadata.name",
            "spec.runPolicy.schedulingPolicy.minAvailable",
            "spec.runPolicy.schedulingPolicy.priorityClass",
            "spec.runPolicy.schedulingPolicy.queue",
            "spec.runPolicy.schedulingPolicy.scheduleTimeoutSeconds",
            "spec.pytorchReplicaSpecs.Master.template.metadata.labels.dtj.dev/role",
            "spec.pytorchReplicaSpecs.Master.template.spec.hostNetwork",
        },
    ),
    "pytorch-gpus-and-istio": ("PyTorch", {"worker": 2}, 1, set()),
    "pytorch-master-and-worker": ("PyTorch", {"worker": 4}, 1, set()),
    "tensorflow-multi-worker": ("TensorFlow", {"worker": 2}, 1, set()),
    "tensorflow-parameter-servers": (
        "TensorFlow",
        {"chief": 1, "ps": 2, "evaluator": 1, "worker": 4},
        1,
        {"spec.enableDynamicWorker", "spec.tfReplicaSpecs.PS.restartPolicy"},
    ),
    "trainjob-fine-tuning": (
        "PyTorch",
        {"worker": 1},
        4,
        {
            "spec.initializer",
            "spec.podSpecOverrides[1]",
            "ClusterTrainingRuntime/tune-small.spec.podGroupPolicy.coscheduling",
            "ClusterTrainingRuntime/tune-small.spec.template.spec.replicatedJobs[0].template.spec",
        },
    ),
    "trainjob-mpi": ("Horovod", {"worker": 3}, 1, set()),
    "trainjob-well-known": ("PyTorch", {"worker": 2}, 2, set()),
}


def test_every_sample_is_expected() -> None:
    assert set(EXPECTED) == set(NAMES)


@pytest.mark.parametrize(("name", "expected"), EXPECTED.items(), ids=EXPECTED.keys())
def test_what_becomes_of_it(name: str, expected: tuple[str, dict[str, int], int, set[str]]) -> None:
    framework, pods, processes, dropped = expected
    job = converted(*sample(name))
    topology = topology_of(DistributedTrainingJob.model_validate(job.manifest).spec)

    assert job.manifest["spec"]["framework"] == framework
    assert {group.role: group.replicas for group in topology.groups} == pods
    assert topology.processes_per_replica == processes
    assert set(said(job, "dropped")) == dropped


@pytest.mark.parametrize("name", NAMES)
def test_it_is_accepted_but_for_a_framework_of_a_later_version(name: str) -> None:
    manifest = converted(*sample(name)).manifest
    wired = manifest["spec"]["framework"] in WIRINGS
    as_custom = {**manifest, "spec": {**manifest["spec"], "framework": "Custom"}}

    assert [sentence.split(":")[0] for sentence in refusals(manifest)] == ([] if wired else ["spec.framework"])
    assert mistakes_in(DistributedTrainingJob.model_validate(as_custom)) == ()


@pytest.mark.parametrize("name", NAMES)
def test_the_input_is_left_as_it_was(name: str) -> None:
    documents = sample(name)
    before = deepcopy(documents)
    first = converted(*documents)

    assert documents == before
    assert converted(*documents) == first


@pytest.mark.parametrize("name", NAMES)
def test_it_reads_back_as_written(name: str) -> None:
    manifest = converted(*sample(name)).manifest
    text = write_documents([manifest])

    assert read_documents(text) == [manifest]
    assert "&id" not in text
