"""Kubeflow ``TrainJob`` (trainer.kubeflow.org/v1alpha1): a runtime made for many jobs, and one job's wishes over it."""

from collections.abc import Sequence
from typing import Any

from dtj.api.spec import Framework
from dtj.convert.assemble import Converted, assemble, open_document
from dtj.convert.mpi_gang import MpiGang, convert_gang, launcher_in
from dtj.convert.notes import ConversionError
from dtj.convert.old import Part
from dtj.convert.pods import Peer, command_of, convert_template, trainer_of
from dtj.convert.policies import deadline_note, suspension
from dtj.convert.pytorch_job import elastic_policy, processes_per_replica
from dtj.convert.replicas import Replica
from dtj.convert.runtime import Runtime, RuntimeJob, find_runtime, lay_over, patches
from dtj.plan.commands import is_one_process

KIND = "TrainJob"
_CONTAINERS = ("node", "trainer")
_FRAMEWORKS = {"torch": Framework.PYTORCH, "jax": Framework.JAX, "mpi": Framework.MPI}


def convert(document: dict[str, Any], runtimes: Sequence[dict[str, Any]] = ()) -> Converted:
    """Return the DistributedTrainingJob for a TrainJob and its runtime; raise ConversionError if it can't be read."""
    old = open_document(document)
    spec = old.part("spec")
    namespace = old.copy().part("metadata").text("namespace")
    runtime = find_runtime(spec.part("runtimeRef"), namespace, runtimes)
    _add_metadata(old, spec)
    trainer = spec.part("trainer")
    nodes = trainer.number("numNodes")
    processes = trainer.take("numProcPerNode")
    _apply(runtime, trainer, spec)
    trainer.report_rest()
    new = _gang(runtime, nodes, processes, spec)
    new |= _policies(runtime, spec, new.pop("maxRestarts", None))
    spec.drop("initializer", "not carried over: fetch data and model in an init container, or by a Job before this one")
    spec.report_rest()
    return assemble(old, new)


def _add_metadata(old: Part, spec: Part) -> None:
    """Labels and annotations for all that the TrainJob makes: they are the job's own now."""
    metadata = old.part("metadata")
    for kind in ("labels", "annotations"):
        added = spec.part(kind).rest()
        own = metadata.part(kind).rest()
        metadata.put_first(kind, {**added, **own})
    old.put_first("metadata", metadata.rest())


def _apply(runtime: Runtime, trainer: Part, spec: Part) -> None:
    """Lay the TrainJob's wishes over the templates of the jobs that train."""
    carried = [job for job in (runtime.trainer, runtime.launcher, runtime.nodes) if job is not None]
    jobs = {job.name: job for job in carried}
    for job in runtime.jobs:
        if job.name not in jobs:
            spec.notes.dropped(job.path, f"{job.name} is not carried over: use an init container, or a Job before")
    for name, patch in patches(spec, list(jobs)):
        jobs[name].template = lay_over(jobs[name].template, patch)
    everywhere = {"image": trainer.text("image"), "resources": trainer.take("resourcesPerNode")}
    wishes = {
        "command": trainer.words("command") or None,
        "args": trainer.words("args") or None,
        "env": trainer.items("env") or None,
    }
    for job in jobs.values():
        wish = everywhere | (wishes if job is runtime.trainer else {})
        _lay_over_trainer(job, {key: value for key, value in wish.items() if value is not None}, spec)


def _lay_over_trainer(job: RuntimeJob, wish: dict[str, Any], spec: Part) -> None:
    containers = _template(job, spec).part("spec").parts("containers")
    named = [container.text("name") for container in containers]
    name = next((name for name in _CONTAINERS if name in named), next(iter(named), _CONTAINERS[0]))
    job.template = lay_over(job.template, {"spec": {"containers": [{"name": name, **wish}]}})


def _gang(runtime: Runtime, nodes: int | None, processes: object, spec: Part) -> dict[str, Any]:
    policy, trainer = runtime.policy, runtime.trainer
    default_nodes = policy.number("numNodes")
    source = next((key for key in policy.fields() if key in _FRAMEWORKS), "")
    own = policy.part(source) if source else Part({}, policy.path, policy.notes)
    for key in policy.fields():
        policy.drop(key, "not carried over: this converter does not know it; the pods get the common variables only")
    if trainer is None:
        raise ConversionError(f"{spec.notes.job}: {policy.path}: the runtime has no job that trains")
    count = nodes or default_nodes or trainer.replicas
    default_processes = own.take("numProcPerNode")
    processes = default_processes if processes is None else processes
    if source == "mpi":
        return _mpi(runtime, count, processes, own)
    framework = _FRAMEWORKS.get(source, Framework.CUSTOM)
    replica = Replica(trainer.path, count, _template(trainer, spec), None)
    new: dict[str, Any] = {"framework": str(framework)}
    new["template"] = convert_template(replica.template, Peer(framework, _CONTAINERS))
    if framework is Framework.PYTORCH:
        elastic = elastic_policy(own.part("elasticPolicy"), None, "minNodes", "maxNodes")
        new["maxRestarts"] = elastic["maxRestarts"]
        if nodes is None and default_nodes is None and elastic["smallest"] is not None:
            count = elastic["smallest"]
        _note_training_alone(new["template"], count, spec)
    new["replicas"] = count
    new["processesPerReplica"] = processes_per_replica(processes, new["template"], spec, "trainer.numProcPerNode")
    own.report_rest()
    return new


def _mpi(runtime: Runtime, count: int, processes: object, own: Part) -> dict[str, Any]:
    launcher, workers = runtime.launcher, runtime.nodes
    launcher_works = own.truth("runLauncherAsNode")
    own.pass_over("mpiImplementation", "sshAuthMountPath")
    own.report_rest()
    replicas: dict[str, Replica] = {}
    if launcher:
        replicas["Launcher"] = Replica(launcher.path, 1, _template(launcher, own), None)
    if workers:
        count -= int(launcher_works)
        replicas["Worker"] = Replica(workers.path, count, _template(workers, own), None)
    gang = MpiGang(
        launcher=launcher_in(replicas, own),
        workers=replicas.get("Worker"),
        slots=processes if isinstance(processes, int) else None,
        launcher_works=launcher_works,
        container=_CONTAINERS[0],
    )
    return convert_gang(gang, own)


def _template(job: RuntimeJob, part: Part) -> Part:
    return Part(job.template, f"{job.path}.template", part.notes)


def _note_training_alone(template: dict[str, Any], nodes: int, spec: Part) -> None:
    if nodes > 1 and is_one_process(command_of(trainer_of(template))):
        spec.notes.note(
            spec.at("trainer.command"),
            "python without torchrun was not told of the other nodes by a TrainJob; here the nodes train together",
        )


def _policies(runtime: Runtime, spec: Part, elastic_restarts: int | None) -> dict[str, Any]:
    policies = suspension(spec)
    trainer = runtime.launcher or runtime.trainer
    deadline = spec.number("activeDeadlineSeconds")
    if deadline:
        deadline_note(spec, "activeDeadlineSeconds")
    elif trainer:
        deadline = trainer.active_deadline
    restarts = runtime.max_restarts if runtime.max_restarts is not None else elastic_restarts
    if restarts is None and trainer:
        restarts = trainer.backoff_limit
    if deadline:
        policies["activeDeadlineSeconds"] = deadline
    if runtime.time_to_live is not None:
        policies["ttlSecondsAfterFinished"] = runtime.time_to_live
    if restarts is not None:
        policies["failurePolicy"] = {"maxRestarts": restarts}
    return policies
