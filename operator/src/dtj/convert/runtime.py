"""The (Cluster)TrainingRuntime that a TrainJob refers to, and the patches that the TrainJob lays over its jobs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from dtj.convert.merging import merged
from dtj.convert.notes import ConversionError, Notes
from dtj.convert.old import Part
from dtj.convert.policies import gang_scheduling

KINDS = ("ClusterTrainingRuntime", "TrainingRuntime")
WELL_KNOWN = "torch-distributed"
_STEP = "trainer.kubeflow.org/trainjob-ancestor-step"
_WELL_KNOWN_IMAGE = "pytorch/pytorch:2.7.1-cuda12.6-cudnn9-runtime"
_TRAINER_NAMES = ("node", "trainer-node", "trainer")
_LAUNCHER_NAME = "launcher"


@dataclass
class RuntimeJob:
    """One of the runtime's Jobs, with what it says about its pods."""

    name: str
    path: str
    template: dict[str, Any]
    replicas: int
    backoff_limit: int | None
    active_deadline: int | None
    trains: bool


@dataclass
class Runtime:
    """What a TrainJob takes from its runtime."""

    policy: Part
    jobs: list[RuntimeJob]
    max_restarts: int | None
    time_to_live: int | None

    @property
    def trainer(self) -> RuntimeJob | None:
        marked = (job for job in self.jobs if job.trains)
        named = (job for name in _TRAINER_NAMES for job in self.jobs if job.name == name)
        only = iter(self.jobs if len(self.jobs) == 1 else ())
        return next(marked, None) or next(named, None) or next(only, None)

    @property
    def launcher(self) -> RuntimeJob | None:
        return next((job for job in self.jobs if job.name == _LAUNCHER_NAME), None)

    @property
    def nodes(self) -> RuntimeJob | None:
        """The workers of MPI, whose launcher is the one marked as the trainer."""
        return next((job for name in _TRAINER_NAMES for job in self.jobs if job.name == name), None)


def find_runtime(reference: Part, namespace: object, known: Sequence[dict[str, Any]]) -> Runtime:
    """Return the runtime from those given, or the well-known one where it is asked for and not given."""
    name, kind = reference.text("name"), reference.text("kind") or KINDS[0]
    reference.pass_over("apiGroup")
    reference.report_rest()
    if not name:
        raise ConversionError(f"{reference.notes.job}: {reference.at('name')}: the name of a runtime is needed")
    for document in known:
        metadata = document.get("metadata")
        if not isinstance(metadata, dict) or (document.get("kind"), metadata.get("name")) != (kind, name):
            continue
        if kind == KINDS[0] or None in (namespace, there := metadata.get("namespace")) or namespace == there:
            return _read(document.get("spec"), f"{kind}/{name}.spec", reference.notes)
    if name != WELL_KNOWN:
        raise ConversionError(
            f"{reference.notes.job}: {reference.path}: {kind} {name} is not in the input; give it with another -f "
            f"(kubectl get {kind.lower()} {name} -o yaml)"
        )
    reference.notes.note(
        reference.path,
        f"{kind} {name} is not in the input, so Kubeflow's own of that name is assumed (PyTorch, one node, "
        f"image {_WELL_KNOWN_IMAGE}); give it with another -f if yours differs",
    )
    return _read(_well_known(), f"{kind}/{name}.spec", reference.notes)


def patches(spec: Part, jobs: Sequence[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The patches of a TrainJob, in three generations of its API, as (name of the runtime's job, pod template)."""
    found: list[tuple[str, str, dict[str, Any]]] = []
    for entry in spec.parts("podSpecOverrides"):
        targets = _targets(entry)
        pod = entry.rest()
        found.extend((entry.path, target, {"spec": pod}) for target in targets)
    for entry in spec.parts("podTemplateOverrides"):
        targets = _targets(entry)
        entry.pass_over("manager")
        template = entry.rest()
        found.extend((entry.path, target, template) for target in targets)
    for entry in spec.parts("runtimePatches"):
        found.extend(_runtime_patch(entry))
    for path, target, template in found:
        if target in jobs:
            yield target, template
        else:
            spec.notes.dropped(path, f"not carried over: it is for {target}, which is not carried over either")


def lay_over(template: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    result: dict[str, Any] = merged(template, patch)
    return result


def _targets(entry: Part) -> list[str]:
    return [str(target.take("name")) for target in entry.parts("targetJobs")]


def _runtime_patch(entry: Part) -> Iterator[tuple[str, str, dict[str, Any]]]:
    entry.pass_over("manager", "time")
    template = entry.part("trainingRuntimeSpec").part("template")
    template.drop("metadata", "not carried over: there is no JobSet any more; set the job's own metadata")
    for job in template.part("spec").parts("replicatedJobs"):
        name = str(job.take("name"))
        inner = job.part("template")
        inner.drop("metadata", "not carried over: there is no Job any more; set the pod template's metadata")
        pod = inner.part("spec").part("template")
        yield pod.path, name, pod.rest()
    entry.report_rest()


def _read(content: object, path: str, notes: Notes) -> Runtime:
    spec = Part(content, path, notes)
    policy = spec.part("mlPolicy")
    gang_scheduling(spec.part("podGroupPolicy"))
    template = spec.part("template")
    template.pass_over("metadata")
    job_set = template.part("spec")
    jobs = [_job(each) for each in job_set.parts("replicatedJobs")]
    failure = job_set.part("failurePolicy")
    max_restarts = failure.number("maxRestarts")
    failure.pass_over("restartStrategy")
    failure.drop("rules", "not carried over: write them as failurePolicy.rules of the job")
    time_to_live = job_set.number("ttlSecondsAfterFinished")
    # Network, coordination and the end of the whole follow from the job's own kind now.
    job_set.pass_over("network", "coordinator", "successPolicy", "suspend", "managedBy")
    job_set.drop("startupPolicy", "not carried over: all pods start together")
    for part in (failure, job_set, template, spec):
        part.report_rest()
    return Runtime(policy, jobs, max_restarts, time_to_live)


def _job(old: Part) -> RuntimeJob:
    name, copies = old.text("name") or "", old.number("replicas")
    old.pass_over("dependsOn", "groupName")
    template = old.part("template")
    labels = template.part("metadata").part("labels")
    spec = template.part("spec")
    pod = spec.part("template")
    pod_labels = pod.copy().part("metadata").part("labels")
    parallelism = spec.number("parallelism")
    job = RuntimeJob(
        name=name,
        path=spec.path,
        template=pod.rest(),
        replicas=(1 if copies is None else copies) * (1 if parallelism is None else parallelism),
        backoff_limit=spec.number("backoffLimit"),
        active_deadline=spec.number("activeDeadlineSeconds"),
        trains="trainer" in (labels.take(_STEP), pod_labels.take(_STEP)),
    )
    spec.pass_over("completions", "completionMode", "suspend", "manualSelector", "selector", "ttlSecondsAfterFinished")
    spec.drop("podFailurePolicy", "not carried over: write it as failurePolicy.rules of the job")
    spec.report_rest()
    return job


def _well_known() -> dict[str, Any]:
    pod = {"spec": {"containers": [{"name": "node", "image": _WELL_KNOWN_IMAGE}]}}
    job = {"name": "node", "template": {"metadata": {"labels": {_STEP: "trainer"}}, "spec": {"template": pod}}}
    return {
        "mlPolicy": {"numNodes": 1, "torch": {"numProcPerNode": "auto"}},
        "template": {"spec": {"replicatedJobs": [job]}},
    }
