"""The pods of an attempt: the user's template, completed.

What differs from pod to pod of a role is its name, labels and variables; everything else is prepared once per role.
"""

from collections.abc import Callable
from typing import Any

from dtj.api import environment as env
from dtj.api import labels, names
from dtj.api.job import DistributedTrainingJob
from dtj.plan.accelerators import accelerators
from dtj.plan.agent_access import agent_environment
from dtj.plan.agent_archive import agent_archive
from dtj.plan.frameworks import WIRINGS, common
from dtj.plan.frameworks.place import Place
from dtj.plan.launch import through_agent, uses_agent
from dtj.plan.metadata import job_labels, owner_reference
from dtj.plan.topology import Group, Slot, Topology, trainer_container

NOT_READY_TAINT = "node.kubernetes.io/not-ready"
UNREACHABLE_TAINT = "node.kubernetes.io/unreachable"
NODE_LOSS_SECONDS = 30
"""How long a pod stays bound to a node that is not there any more; Kubernetes' own default is 300."""

SHARED_MEMORY_VOLUME = "dtj-shm"
AGENT_VOLUME = "dtj-agent"
_SHARED_MEMORY_PATH = "/dev/shm"  # noqa: S108 - not a temporary file: where POSIX shared memory lives

_AGENT_MOUNT = {
    "name": AGENT_VOLUME,
    "mountPath": names.AGENT_PATH,
    "subPath": names.AGENT_FILE,  # a file mounted so stays as it was when the container started
    "readOnly": True,
}

PodBuilder = Callable[[Slot], dict[str, Any]]


def pod_builder(job: DistributedTrainingJob, topology: Topology, attempt: int) -> PodBuilder:
    """Return a function that gives the pod of a slot in this attempt, as the API server takes it."""
    prepared = {group.role: _prepare(job, group) for group in topology.groups}
    trainers = {group.role: str(trainer_container(group.template)["name"]) for group in topology.groups}
    wiring = WIRINGS[job.spec.framework]
    of_agent = {
        group.role: agent_environment(job, group.template, attempt) if uses_agent(job, group.template) else {}
        for group in topology.groups
    }

    def build(slot: Slot) -> dict[str, Any]:
        place = Place(job.metadata.name, job.metadata.namespace, job.metadata.uid, attempt, slot, topology)
        wired = {**common.environment(place), **wiring(place), **of_agent[slot.role]}
        metadata, spec = prepared[slot.role]["metadata"], prepared[slot.role]["spec"]
        name = names.pod_name(job.metadata.name, slot.role, slot.index, attempt)
        own = {
            labels.ROLE: slot.role,
            labels.INDEX: str(slot.index),
            labels.ATTEMPT: str(attempt),
            labels.TRAINER: trainers[slot.role],
        }
        containers = [
            _wired(container, wired) if container["name"] == trainers[slot.role] else container
            for container in spec["containers"]
        ]
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {**metadata, "name": name, "labels": {**metadata["labels"], **own}},
            "spec": {**spec, "hostname": name, "containers": containers},
        }

    return build


def _prepare(job: DistributedTrainingJob, group: Group) -> dict[str, Any]:
    """Complete a role's template with all that is the same for every pod of it."""
    template = group.template
    given: dict[str, Any] = template.get("metadata") or {}
    trainer = trainer_container(template)
    spec: dict[str, Any] = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        **template["spec"],
        "subdomain": names.service_name(job.metadata.name),
    }
    tolerations = spec.get("tolerations") or []
    spec["tolerations"] = [
        *tolerations,
        *_accelerator_tolerations(trainer, tolerations),
        *_node_loss_tolerations(tolerations),
    ]
    completed, volumes = _completed_trainer(trainer), []
    if not _mounts(trainer, _SHARED_MEMORY_PATH):
        # DataLoader workers hand over batches here, and the runtime's own default is 64 MiB.
        completed = _with_mount(completed, {"name": SHARED_MEMORY_VOLUME, "mountPath": _SHARED_MEMORY_PATH})
        volumes.append({"name": SHARED_MEMORY_VOLUME, "emptyDir": {"medium": "Memory"}})
    if uses_agent(job, template):
        completed = {**_with_mount(completed, _AGENT_MOUNT), "command": through_agent(job.spec, group)}
        volumes.append(_agent_volume())
    if volumes:
        spec["volumes"] = [*(spec.get("volumes") or []), *volumes]
    spec["containers"] = [completed if container is trainer else container for container in spec["containers"]]
    metadata = {
        "namespace": job.metadata.namespace,
        "labels": {**(given.get("labels") or {}), **job_labels(job)},
        "annotations": given.get("annotations") or {},
        "ownerReferences": [owner_reference(job)],
    }
    return {"metadata": metadata, "spec": spec}


def _completed_trainer(container: dict[str, Any]) -> dict[str, Any]:
    # The end of the output becomes the termination message: the last lines reach the job's status without any right to
    # read logs.
    return {"terminationMessagePolicy": "FallbackToLogsOnError", **container}


def _with_mount(container: dict[str, Any], mount: dict[str, Any]) -> dict[str, Any]:
    return {**container, "volumeMounts": [*(container.get("volumeMounts") or []), mount]}


def _agent_volume() -> dict[str, Any]:
    return {"name": AGENT_VOLUME, "configMap": {"name": names.agent_config_map_name(agent_archive().digest)}}


def _wired(container: dict[str, Any], wired: dict[str, str]) -> dict[str, Any]:
    """Add the variables in front of the user's: theirs win where both set one that is not reserved, and may refer
    to ours as ``$(NAME)``.
    """
    given: list[dict[str, Any]] = container.get("env") or []
    taken = {variable["name"] for variable in given}
    added = [{"name": name, "value": value} for name, value in wired.items() if name not in taken]
    return {**container, "env": [*added, *given]}


def _accelerator_tolerations(trainer: dict[str, Any], given: list[dict[str, Any]]) -> list[dict[str, str]]:
    """Nodes with accelerators are usually tainted with the resource's name; who asks for one may go there."""
    tolerated = {toleration.get("key") for toleration in given}
    return [
        {"key": resource, "operator": "Exists", "effect": "NoSchedule"}
        for resource in accelerators(trainer)
        if resource not in tolerated
    ]


def _node_loss_tolerations(given: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A gang without one of its pods only waits, so it is given up early, unless the template says otherwise."""
    tolerated = {toleration.get("key") for toleration in given if toleration.get("effect") in {None, "", "NoExecute"}}
    if None in tolerated or "" in tolerated:  # without a key: every taint
        return []
    return [
        {"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": NODE_LOSS_SECONDS}
        for taint in (NOT_READY_TAINT, UNREACHABLE_TAINT)
        if taint not in tolerated
    ]


def _mounts(container: dict[str, Any], path: str) -> bool:
    return any((mount.get("mountPath") or "").rstrip("/") == path for mount in container.get("volumeMounts") or [])


def is_reserved_variable(framework: str, name: str) -> bool:
    return name.startswith(env.RESERVED_PREFIX) or name in env.RESERVED_BY_FRAMEWORK[framework]
