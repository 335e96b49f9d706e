"""Kubeflow ``TFJob`` (kubeflow.org/v1): chief or master, workers, parameter servers, evaluator, wired by TF_CONFIG."""

from typing import Any

from dtj.api.spec import Framework
from dtj.convert.assemble import Converted, assemble, open_document
from dtj.convert.notes import ConversionError
from dtj.convert.old import Part
from dtj.convert.pods import Peer, accelerators_of, convert_template
from dtj.convert.policies import failure_policy, run_policy
from dtj.convert.replicas import Replica, read_replicas

KIND = "TFJob"
_PEER = Peer(Framework.TENSORFLOW, ("tensorflow",), "tfjob-port", 2222)
_DEFAULT_RESTART_POLICY = "Never"
_ROLES = {"Chief": "chief", "Master": "chief", "PS": "ps", "Evaluator": "evaluator"}


def convert(document: dict[str, Any]) -> Converted:
    """Return the DistributedTrainingJob for a TFJob; raise ConversionError if it can't be read."""
    old = open_document(document)
    spec = old.part("spec")
    replicas = read_replicas(spec, "tfReplicaSpecs", ("Chief", "Master", "Worker", "PS", "Evaluator"))
    policies = run_policy(spec)
    backoff_limit = policies.pop("backoffLimit", None)
    restarts = failure_policy(list(replicas.values()), backoff_limit, _DEFAULT_RESTART_POLICY, spec.notes)
    new: dict[str, Any] = {"framework": str(Framework.TENSORFLOW), **policies, "failurePolicy": restarts}
    new |= _groups(replicas, spec)
    new |= _success(spec, new)
    if accelerators_of(new["template"]) > 1:
        new["processesPerReplica"] = 1  # one TensorFlow process drives all of a pod's accelerators
    spec.drop(
        "enableDynamicWorker", "not carried over: all pods start and end together; the number of workers is fixed"
    )
    spec.report_rest()
    return assemble(old, new)


def _groups(replicas: dict[str, Replica], spec: Part) -> dict[str, Any]:
    leader = _leader(replicas, spec)
    workers = "Worker" if "Worker" in replicas else leader
    if workers is None:
        raise ConversionError(f"{spec.notes.job}: {spec.at('tfReplicaSpecs')}: neither Worker nor Chief has pods")
    if workers != "Worker":
        spec.notes.note(replicas[workers].path, "there are no workers, so the chief became worker 0, which leads")
    elif leader == "Master":
        spec.notes.note(replicas[leader].path, "became the role chief, which is also its name in TF_CONFIG")
    templates = {kind: convert_template(replica.template, _PEER) for kind, replica in replicas.items()}
    roles = [
        {"name": role, "replicas": replicas[kind].replicas, "template": templates[kind]}
        for kind, role in _ROLES.items()
        if kind in replicas and kind != workers
    ]
    return {"replicas": replicas[workers].replicas, "template": templates[workers], "roles": roles}


def _leader(replicas: dict[str, Replica], spec: Part) -> str | None:
    leaders = [kind for kind in ("Chief", "Master") if kind in replicas]
    if len(leaders) > 1:
        raise ConversionError(f"{spec.notes.job}: {spec.at('tfReplicaSpecs')}: there can be Chief or Master, not both")
    if leaders and replicas[leaders[0]].replicas != 1:
        raise ConversionError(f"{spec.notes.job}: {replicas[leaders[0]].path}.replicas must be 1: only one can lead")
    return leaders[0] if leaders else None


def _success(spec: Part, new: dict[str, Any]) -> dict[str, Any]:
    """A chief's end was the job's; without one, worker 0's was, unless all workers were asked for."""
    policy = spec.text("successPolicy")
    if any(role["name"] == "chief" for role in new["roles"]):
        if "cleanupPolicy" not in new:
            spec.notes.note(
                spec.at("runPolicy.cleanPodPolicy"),
                "the job is complete with its chief; pods that still run then are stopped, unless cleanupPolicy: None",
            )
        return {"successPolicy": {"roles": ["chief"]}}
    if policy in {None, "", "Default"} and new["replicas"] > 1:
        spec.notes.note(spec.at("successPolicy"), "the job is complete when all workers are, no longer with worker 0")
    elif policy not in {None, "", "Default", "AllWorkers"}:
        spec.notes.dropped(spec.at("successPolicy"), f"{policy} is not known; the job is complete when all workers are")
    return {}
