"""Kubeflow ``MPIJob`` (kubeflow.org/v1 and v2beta1): a launcher that starts Horovod or any MPI program on workers."""

from typing import Any

from dtj.api.spec import Framework
from dtj.convert.assemble import Converted, assemble, open_document
from dtj.convert.mpi_gang import MpiGang, convert_gang, launcher_in
from dtj.convert.old import Part
from dtj.convert.policies import failure_policy, run_policy
from dtj.convert.replicas import Replica, read_replicas

KIND = "MPIJob"
_DEFAULT_RESTART_POLICY = "Never"


def convert(document: dict[str, Any]) -> Converted:
    """Return the DistributedTrainingJob for an MPIJob; raise ConversionError if it can't be read."""
    launcher_is_a_job = "/v2" in str(document.get("apiVersion"))
    old = open_document(document)
    spec = old.part("spec")
    replicas = read_replicas(spec, "mpiReplicaSpecs", ("Launcher", "Worker"))
    policies = run_policy(spec)
    backoff_limit = policies.pop("backoffLimit", None)
    gang = MpiGang(
        launcher=launcher_in(replicas, spec),
        workers=replicas.get("Worker"),
        slots=spec.number("slotsPerWorker"),
        launcher_works=spec.truth("runLauncherAsWorker"),
        container=spec.text("mainContainer") or "mpi",
    )
    restarts = _restarts(list(replicas.values()), backoff_limit, spec, launcher_is_a_job=launcher_is_a_job)
    new = convert_gang(gang, spec) | policies | {"failurePolicy": restarts}
    if new["framework"] == Framework.MPI:
        spec.drop("sshAuthMountPath", "not carried over: the operator decides where the keys are")
        spec.drop("mpiImplementation", "not carried over: the host file is Open MPI's")
    spec.pass_over("sshAuthMountPath", "mpiImplementation", "launcherCreationPolicy", "waitForWorkers")
    spec.report_rest()
    return assemble(old, new)


def _restarts(
    replicas: list[Replica], backoff_limit: int | None, spec: Part, *, launcher_is_a_job: bool
) -> dict[str, Any]:
    """From v2 on the launcher is a Job: ``backoffLimit`` rules its restarts, whatever the restart policy."""
    default = "OnFailure" if launcher_is_a_job else _DEFAULT_RESTART_POLICY
    if launcher_is_a_job and backoff_limit is not None:
        return {"maxRestarts": backoff_limit}
    return failure_policy(replicas, backoff_limit, default, spec.notes)
