"""What the operator itself refuses: mistakes that the API server cannot see, or that an older CRD let through.

Called by ``lifecycle.decide`` before an attempt begins. All mistakes of a job are reported at once.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Final

from dtj.api import labels, names, pod_template
from dtj.api.job import DistributedTrainingJob
from dtj.api.rules import ONE_PROCESS_FRAMEWORKS
from dtj.api.spec import AgentMode, Framework, JobSpec
from dtj.plan.commands import is_one_process
from dtj.plan.frameworks import WIRINGS
from dtj.plan.frameworks.place import Place
from dtj.plan.launch import words_of
from dtj.plan.pods import AGENT_VOLUME, SHARED_MEMORY_VOLUME, is_reserved_variable
from dtj.plan.topology import processes_per_replica, topology_of, trainer_container

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
"""What starts several processes in a pod where the agent may not, by framework."""

MAX_VARIABLE_BYTES: Final = 128 * 1024
"""Linux lets no program start with a longer variable (``MAX_ARG_STRLEN`` in ``include/uapi/linux/binfmts.h``)."""


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
    yield from _launch_mistakes(spec)
    yield from _unreadable_pattern(spec)
    yield from _too_many_hosts(job)


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
            if item is None:
                yield Mistake(f"{path}[{index}]", "is empty")
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
    for volume in template["spec"].get("volumes") or []:
        if volume.get("name") in {SHARED_MEMORY_VOLUME, AGENT_VOLUME}:
            yield Mistake(f"{path}.spec.volumes", f"the name {volume['name']} belongs to the operator")
    trainer = trainer_container(template)
    for variable in trainer.get("env") or []:
        if is_reserved_variable(spec.framework, variable["name"]):
            yield Mistake(
                f"{path}.spec.containers[{trainer['name']}].env",
                f"{variable['name']} is set by the operator; remove it",
            )


def _launch_mistakes(spec: JobSpec) -> Iterator[Mistake]:
    """What the API server refuses as well, and commands that cannot become as many processes as asked for."""
    disabled = spec.agent.mode is AgentMode.DISABLED
    trainer, count = trainer_container(spec.template), processes_per_replica(spec)
    command = f"spec.template.spec.containers[{trainer['name']}].command"
    if spec.framework in ONE_PROCESS_FRAMEWORKS and count > 1:
        message = f"{spec.framework} uses all accelerators of a pod from one process; leave it out"
        yield Mistake("spec.processesPerReplica", message)
    elif spec.framework is Framework.HOROVOD and disabled:
        yield Mistake("spec.agent.mode", "Horovod's processes meet at a rendezvous that the agent serves; leave it out")
    elif spec.framework is Framework.HOROVOD and not trainer.get("command"):
        yield Mistake(command, "Horovod needs a command here: the agent starts it when all processes can meet")
    elif spec.framework in LAUNCHERS and disabled and count > 1 and is_one_process(words_of(trainer)):
        asked = "spec.processesPerReplica" if spec.processes_per_replica is not None else "its accelerators"
        yield Mistake(
            command,
            f"{count} processes per replica (from {asked}) need a launcher where spec.agent.mode is Disabled: "
            f"{LAUNCHERS[spec.framework]}, or set spec.processesPerReplica to 1",
        )


def _unreadable_pattern(spec: JobSpec) -> Iterator[Mistake]:
    pattern = spec.progress.log_pattern
    try:
        groups = re.compile(pattern).groupindex if pattern is not None else None
    except (re.error, OverflowError, RecursionError) as error:
        yield Mistake("spec.progress.logPattern", f"no regular expression of Python: {error}")
        return
    if groups is not None and not groups:
        yield Mistake("spec.progress.logPattern", "needs a named group, such as (?P<step>[0-9]+)")


def _too_many_hosts(job: DistributedTrainingJob) -> Iterator[Mistake]:
    """Some wirings list every host in a variable."""
    topology = topology_of(job.spec)
    metadata = job.metadata
    place = Place(metadata.name, metadata.namespace, metadata.uid, names.MAX_ATTEMPT, topology.rank_zero, topology)
    wired = WIRINGS[job.spec.framework](place)
    name, longest = max(((name, len(value)) for name, value in wired.items()), key=itemgetter(1), default=("", 0))
    if longest + len(name) >= MAX_VARIABLE_BYTES - len("=\0"):
        yield Mistake(
            "spec.replicas",
            f"the hosts of all pods make the variable {name} {longest} bytes long, and Linux takes less than "
            f"{MAX_VARIABLE_BYTES}: use fewer pods or a shorter name",
        )
