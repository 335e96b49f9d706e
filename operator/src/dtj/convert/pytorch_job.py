"""Kubeflow ``PyTorchJob`` (kubeflow.org/v1): a master and workers, wired by MASTER_ADDR and by torchrun's variables."""

from typing import Any

from dtj.api.spec import Framework
from dtj.convert.assemble import Converted, assemble, open_document
from dtj.convert.notes import ConversionError
from dtj.convert.old import Part
from dtj.convert.pods import Peer, accelerators_of, command_of, convert_template, trainer_of
from dtj.convert.policies import failure_policy, run_policy
from dtj.convert.replicas import Replica, read_replicas
from dtj.plan.commands import is_one_process

KIND = "PyTorchJob"
PEER = Peer(Framework.PYTORCH, ("pytorch",), "pytorchjob-port", 23456)
_DEFAULT_RESTART_POLICY = "OnFailure"


def convert(document: dict[str, Any]) -> Converted:
    """Return the DistributedTrainingJob for a PyTorchJob; raise ConversionError if it can't be read."""
    old = open_document(document)
    spec = old.part("spec")
    replicas = read_replicas(spec, "pytorchReplicaSpecs", ("Master", "Worker"))
    policies = run_policy(spec)
    backoff_limit = policies.pop("backoffLimit", None)
    elastic = elastic_policy(spec.part("elasticPolicy"), backoff_limit)
    new: dict[str, Any] = {"framework": str(Framework.PYTORCH), **policies, **_gang(replicas, spec)}
    wanted = spec.take("nprocPerNode")
    wanted = elastic["processes"] if wanted is None else wanted
    new["processesPerReplica"] = processes_per_replica(wanted, new["template"], spec, "nprocPerNode")
    new["failurePolicy"] = failure_policy(
        list(replicas.values()), elastic["maxRestarts"], _DEFAULT_RESTART_POLICY, spec.notes
    )
    spec.report_rest()
    return assemble(old, new)


def _gang(replicas: dict[str, Replica], spec: Part) -> dict[str, Any]:
    templates = {kind: convert_template(replica.template, PEER) for kind, replica in replicas.items()}
    master, worker = replicas.get("Master"), replicas.get("Worker")
    if master is None or worker is None:
        [(kind, only)] = replicas.items()
        return {"replicas": only.replicas, "template": templates[kind]}
    if master.replicas != 1:
        raise ConversionError(f"{spec.notes.job}: {master.path}.replicas must be 1: there can be only one master")
    if templates["Master"] == templates["Worker"]:
        spec.notes.note(
            master.path,
            f"master and workers run the same pod, so they are {worker.replicas + 1} workers, of which the first has "
            "rank 0; the job is complete when all of them are",
        )
        return {"replicas": worker.replicas + 1, "template": templates["Worker"]}
    spec.notes.note(
        master.path,
        "the job is complete with its master (successPolicy); workers that still run are stopped then, unless "
        "cleanupPolicy is None",
    )
    return {
        "replicas": worker.replicas,
        "template": templates["Worker"],
        "roles": [{"name": "master", "replicas": 1, "template": templates["Master"]}],
        "successPolicy": {"roles": ["master"]},
    }


def processes_per_replica(wanted: object, template: dict[str, Any], spec: Part, key: str) -> int | None:
    """Number of processes in a pod; None leaves it to the accelerators that the pod asks for."""
    text = "auto" if wanted in (None, "") else str(wanted)
    one_process = is_one_process(command_of(trainer_of(template)))
    if text.isdigit():
        return int(text)
    if text == "cpu":
        spec.notes.dropped(
            spec.at(key), "cpu is not carried over: set processesPerReplica to the number of processes in a pod"
        )
    elif text not in {"auto", "gpu"}:
        raise ConversionError(f"{spec.notes.job}: {spec.at(key)} must be auto, cpu, gpu or a whole number")
    if one_process and accelerators_of(template) > 1:
        spec.notes.note(
            spec.at(key),
            "the command is one process, as before, whatever the number of accelerators (processesPerReplica: 1); "
            "with torchrun in front and without that field there is one for each",
        )
        return 1
    return None


def elastic_policy(
    old: Part, backoff_limit: int | None, low: str = "minReplicas", high: str = "maxReplicas"
) -> dict[str, int | None]:
    """Read an elastic policy; the number of pods is fixed from now on."""
    smallest, largest = old.number(low), old.number(high)
    if smallest != largest:
        old.notes.dropped(
            old.path,
            f"the job no longer grows and shrinks ({low} {smallest}, {high} {largest}): all its pods start and end "
            "together; suspend it to change spec.replicas",
        )
    old.drop("metrics", "not carried over: no autoscaler is made; the scale subresource takes one while suspended")
    backend = old.text("rdzvBackend")
    if backend not in {None, "", "c10d"}:
        old.notes.dropped(old.at("rdzvBackend"), f"{backend} is not carried over: pods meet at rank 0, without etcd")
    old.drop("rdzvConf", "not carried over: set the variable PET_RDZV_CONF in the trainer container")
    old.pass_over("rdzvPort", "rdzvHost", "rdzvId", "standalone")
    max_restarts = old.number("maxRestarts")
    processes = old.number("nProcPerNode")
    old.report_rest()
    return {
        "maxRestarts": max_restarts if backoff_limit is None else backoff_limit,
        "processes": processes,
        "smallest": smallest,
    }
