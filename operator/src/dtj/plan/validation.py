"""What the operator itself refuses: mistakes that the API server cannot see, or that an older CRD let through.

Called by ``lifecycle.decide`` before an attempt begins. All mistakes of a job are reported at once.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Final

from dtj.api import labels, names, pod_template
from dtj.api.job import DistributedTrainingJob
from dtj.api.spec import Framework, JobSpec
from dtj.plan.frameworks import WIRINGS
from dtj.plan.pods import SHARED_MEMORY_VOLUME, is_reserved_variable
from dtj.plan.topology import processes_per_replica, topology_of, trainer_container

_PYTHON = re.compile(r"python[0-9.]*")
_PYTHON_LAUNCHER_MODULES = frozenset(
    {"torch.distributed.run", "torch.distributed.launch", "accelerate.commands.launch"}
)


_TYPES: Final[dict[str, tuple[type, str]]] = {
    "object": (dict, "a mapping"),
    "array": (list, "a list"),
    "string": (str, "a string"),
    "integer": (int, "a whole number"),
    "boolean": (bool, "true or false"),
}

LAUNCHERS: Final = {
    Framework.PYTORCH: "start the command with torchrun",
    Framework.JAX: "start the command with a script that starts them and gives each its JAX_PROCESS_ID",
}
"""What starts several processes in a pod, by framework; the others use several accelerators from one process."""


@dataclass(frozen=True)
class Mistake:
    """A wrong field and a sentence that says what would be right."""

    field: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


def mistakes_in(job: DistributedTrainingJob) -> tuple[Mistake, ...]:
    return tuple(_mistakes(job))


def _mistakes(job: DistributedTrainingJob) -> Iterator[Mistake]:
    spec = job.spec
    if spec.framework not in WIRINGS:
        known = ", ".join(WIRINGS)
        yield Mistake("spec.framework", f"this version does not run {spec.framework} yet; it runs {known}")
        return
    templates = {"spec.template": spec.template} | {
        f"spec.roles[{index}].template": role.template for index, role in enumerate(spec.roles or ())
    }
    unreadable = [mistake for path, template in templates.items() for mistake in _unreadable(path, template)]
    if unreadable:
        yield from unreadable
        return
    yield from _name_too_long(job)
    for path, template in templates.items():
        yield from _template_mistakes(spec, path, template)
    yield from _processes_without_launcher(spec)


def _unreadable(path: str, template: dict[str, Any]) -> Iterator[Mistake]:
    """What the schema of the CRD guarantees, for manifests that no API server has seen."""
    mistyped = list(_mistyped(path, template, pod_template.cached()))
    if mistyped:
        yield from mistyped
        return
    pod = template.get("spec")
    containers = pod.get("containers") if isinstance(pod, dict) else None
    if not isinstance(containers, list) or not containers:
        yield Mistake(f"{path}.spec.containers", "at least one container is needed")
    elif not all(_named(container) for container in containers):
        yield Mistake(f"{path}.spec.containers", "every container needs a name")
    else:
        for container in containers:
            if not all(_named(variable) for variable in container.get("env") or []):
                yield Mistake(f"{path}.spec.containers[{container['name']}].env", "every variable needs a name")


def _mistyped(path: str, value: object, schema: dict[str, Any]) -> Iterator[Mistake]:
    """Values of another type than the pod template's schema says; null is what generators write for left out."""
    kind, what = _TYPES.get(schema.get("type", ""), (object, ""))
    if value is None:
        return
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        yield Mistake(path, f"must be {what}")
    elif isinstance(value, dict):
        of_any_name = schema.get("additionalProperties") or {}
        for name, part in value.items():
            yield from _mistyped(f"{path}.{name}", part, schema.get("properties", {}).get(name, of_any_name))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _mistyped(f"{path}[{index}]", item, schema.get("items", {}))


def _named(item: object) -> bool:
    return isinstance(item, dict) and isinstance(item.get("name"), str)


def _name_too_long(job: DistributedTrainingJob) -> Iterator[Mistake]:
    slots = topology_of(job.spec).slots
    longest = max(
        (names.pod_name(job.metadata.name, slot.role, slot.index, names.MAX_ATTEMPT) for slot in slots), key=len
    )
    if len(longest) > names.MAX_LABEL_LENGTH:
        room = names.MAX_LABEL_LENGTH - (len(longest) - len(job.metadata.name))
        yield Mistake(
            "metadata.name",
            f"the name has {len(job.metadata.name)} characters; pod names such as {longest} leave room for {room}",
        )


def _template_mistakes(spec: JobSpec, path: str, template: dict[str, Any]) -> Iterator[Mistake]:
    metadata = template.get("metadata") or {}
    for kind in ("labels", "annotations"):
        for key in metadata.get(kind) or {}:
            if key.startswith(labels.RESERVED_PREFIX):
                yield Mistake(f"{path}.metadata.{kind}", f"{key} belongs to the operator; choose another prefix")
    if any(volume.get("name") == SHARED_MEMORY_VOLUME for volume in template["spec"].get("volumes") or []):
        yield Mistake(f"{path}.spec.volumes", f"the name {SHARED_MEMORY_VOLUME} belongs to the operator")
    trainer = trainer_container(template)
    for variable in trainer.get("env") or []:
        if is_reserved_variable(spec.framework, variable["name"]):
            yield Mistake(
                f"{path}.spec.containers[{trainer['name']}].env",
                f"{variable['name']} is set by the operator; remove it",
            )


def _processes_without_launcher(spec: JobSpec) -> Iterator[Mistake]:
    """Several processes in a pod need something that starts them; a plain command would be one of many ranks."""
    count = processes_per_replica(spec)
    if spec.framework not in LAUNCHERS or count == 1 or _starts_several(trainer_container(spec.template)):
        return
    asked = "spec.processesPerReplica" if spec.processes_per_replica is not None else "its accelerators"
    yield Mistake(
        "spec.template.spec.containers[].command",
        f"{count} processes per replica (from {asked}) need a launcher: {LAUNCHERS[spec.framework]}, "
        "or set spec.processesPerReplica to 1",
    )


def _starts_several(trainer: dict[str, Any]) -> bool:
    """Only a plain ``python`` is surely one process; an image's own entry point or a script may well start several."""
    command = [str(word) for word in trainer.get("command") or []]
    if not command or not _PYTHON.fullmatch(PurePosixPath(command[0]).name):
        return True
    return any(word in _PYTHON_LAUNCHER_MODULES for word in [*command, *map(str, trainer.get("args") or [])])
