"""Old manifests for tests, said in few words, and the samples: the shapes of what the other operators publish."""

from pathlib import Path
from typing import Any

from dtj.convert import Conversion, convert
from dtj.convert.assemble import Converted
from dtj.convert.documents import read_documents

SAMPLES = Path(__file__).parent / "samples"
NAMES = tuple(sorted(path.stem for path in SAMPLES.glob("*.yaml")))


def sample(name: str) -> list[dict[str, Any]]:
    return read_documents((SAMPLES / f"{name}.yaml").read_bytes())


def a_pod(name: str = "pytorch", /, *command: str, **container: object) -> dict[str, Any]:
    """A pod template with one container; ``python train.py`` if no command is given."""
    words = list(command or ("python", "train.py"))
    return {"spec": {"containers": [{"name": name, "image": "trainer:1", "command": words, **container}]}}


def a_group(template: dict[str, Any], replicas: int = 1, **fields: object) -> dict[str, Any]:
    return {"replicas": replicas, "template": template, **fields}


def a_pytorch_job(
    template: dict[str, Any] | None = None, *, master: dict[str, Any] | None = None, **spec: object
) -> dict[str, Any]:
    """Two workers, with a master if its template is given."""
    groups = {"Worker": a_group(template or a_pod(), 2)}
    if master is not None:
        groups["Master"] = a_group(master)
    return _job("kubeflow.org/v1", "PyTorchJob", {"pytorchReplicaSpecs": groups, **spec})


def a_tf_job(spec: dict[str, Any] | None = None, /, **groups: int) -> dict[str, Any]:
    """Groups by their kind, such as ``Worker=2``; each pod's argument is the name of its group."""
    specs = {kind: a_group(a_pod("tensorflow", "train", kind), count) for kind, count in groups.items()}
    return _job("kubeflow.org/v1", "TFJob", {"tfReplicaSpecs": specs, **(spec or {})})


def an_mpi_job(*launch: str, workers: int = 2, version: str = "v1", **spec: object) -> dict[str, Any]:
    """A launcher with this command and workers without one."""
    worker = {"spec": {"containers": [{"name": "mpi", "image": "trainer:1"}]}}
    specs = {"Launcher": a_group(a_pod("mpi", *launch)), "Worker": a_group(worker, workers)}
    return _job(f"kubeflow.org/{version}", "MPIJob", {"mpiReplicaSpecs": specs, **spec})


def a_train_job(runtime: str = "torch-distributed", **spec: object) -> dict[str, Any]:
    return _job("trainer.kubeflow.org/v1alpha1", "TrainJob", {"runtimeRef": {"name": runtime}, **spec})


def a_runtime(policy: dict[str, Any], *jobs: dict[str, Any], **spec: object) -> dict[str, Any]:
    """A ClusterTrainingRuntime named ``ours``."""
    template = {"spec": {"replicatedJobs": list(jobs)}}
    document = _job(
        "trainer.kubeflow.org/v1alpha1", "ClusterTrainingRuntime", {"mlPolicy": policy, "template": template, **spec}
    )
    return {**document, "metadata": {"name": "ours"}}


def a_runtime_job(name: str, template: dict[str, Any], **spec: object) -> dict[str, Any]:
    return {"name": name, "template": {"spec": {"template": template, **spec}}}


def converted(*documents: dict[str, Any]) -> Converted:
    """The only job of a conversion."""
    conversion: Conversion = convert(documents)
    [job] = conversion.jobs
    return job


def said(job: Converted, severity: str | None = None) -> dict[str, str]:
    """The notes by field; a field with several has them one below the other."""
    notes: dict[str, str] = {}
    for note in job.notes:
        if severity in {None, str(note.severity)}:
            notes[note.field] = "\n".join(filter(None, (notes.get(note.field), note.message)))
    return notes


def trainer(template: dict[str, Any]) -> dict[str, Any]:
    """The training container of a new template."""
    [found] = [each for each in template["spec"]["containers"] if each["name"] == "trainer"]
    assert isinstance(found, dict)
    return found


def _job(version: str, kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "digits"}, "spec": spec}
