"""Jobs and pods for tests, said in few words: ``a_job().replicas(2).build()``, ``a_pod(job, 1).failed(3).build()``.

Every method returns a new builder; ``build`` gives the value that the operator would have read from the API server.
"""

from copy import deepcopy
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Self

import msgspec

from dtj.api import labels, names
from dtj.api.job import DistributedTrainingJob
from dtj.api.status import JobStatus, Phase
from dtj.lifecycle.children import Pod, Service

NOW = datetime(2030, 1, 2, 12, 0, 0, tzinfo=UTC)
"""The time at which tests take place."""

NAMESPACE = "team-a"
JOB_UID = "0f9c1f9e-0000-4000-8000-000000000001"
NODE = "node-1"


def rfc3339(time: datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")


def ago(seconds: float) -> datetime:
    """A moment before ``NOW``."""
    return NOW - timedelta(seconds=seconds)


@dataclass(frozen=True)
class JobBuilder:
    """A job as raw JSON."""

    content: dict[str, Any]

    def name(self, name: str) -> Self:
        return self._metadata(name=name)

    def uid(self, uid: str) -> Self:
        return self._metadata(uid=uid)

    def namespace(self, namespace: str) -> Self:
        return self._metadata(namespace=namespace)

    def generation(self, generation: int) -> Self:
        return self._metadata(generation=generation)

    def being_deleted(self) -> Self:
        return self._metadata(deletionTimestamp=rfc3339(NOW))

    def framework(self, framework: str) -> Self:
        return self.spec(framework=framework)

    def replicas(self, count: int) -> Self:
        return self.spec(replicas=count)

    def role(self, name: str, replicas: int = 1, template: dict[str, Any] | None = None) -> Self:
        role = {"name": name, "replicas": replicas, "template": template or self.content["spec"]["template"]}
        return self.spec(roles=[*self.content["spec"].get("roles", []), role])

    def spec(self, **fields: object) -> Self:
        """Set fields of ``spec`` by their names on the wire."""
        return self._changed("spec", fields)

    def pod(self, **fields: object) -> Self:
        """Set fields of the worker's pod spec by their names on the wire."""
        template = deepcopy(self.content["spec"]["template"])
        template["spec"].update(deepcopy(fields))
        return self.spec(template=template)

    def pod_metadata(self, **fields: object) -> Self:
        return self.spec(template={**self.content["spec"]["template"], "metadata": deepcopy(fields)})

    def container(self, **fields: object) -> Self:
        """Set fields of the worker's first container by their names on the wire."""
        first, *others = deepcopy(self.content["spec"]["template"]["spec"]["containers"])
        return self.pod(containers=[first | fields, *others])

    def sidecar(self, name: str, *, first: bool = False) -> Self:
        containers = self.content["spec"]["template"]["spec"]["containers"]
        sidecar = {"name": name, "image": "sidecar:1"}
        return self.pod(containers=[sidecar, *containers] if first else [*containers, sidecar])

    def status(self, status: JobStatus) -> Self:
        return replace(self, content={**self.content, "status": status.to_wire()})

    def begun(self, attempt: int = 0) -> Self:
        """The attempt is committed, and nothing else is known."""
        return self.status(JobStatus(phase=Phase.STARTING, attempt=attempt, start_time=NOW, observed_generation=1))

    def raw(self) -> dict[str, Any]:
        return deepcopy(self.content)

    def build(self) -> DistributedTrainingJob:
        return DistributedTrainingJob.model_validate(self.raw())

    def _metadata(self, **fields: object) -> Self:
        return self._changed("metadata", fields)

    def _changed(self, part: str, fields: dict[str, Any]) -> Self:
        return replace(self, content={**self.content, part: {**self.content[part], **deepcopy(fields)}})


def a_job(name: str = "digits") -> JobBuilder:
    """One PyTorch worker with one process, not yet seen by the operator."""
    return JobBuilder(
        {
            "apiVersion": names.API_VERSION,
            "kind": names.KIND,
            "metadata": {
                "name": name,
                "namespace": NAMESPACE,
                "uid": JOB_UID,
                "resourceVersion": "1",
                "generation": 1,
                "creationTimestamp": rfc3339(ago(60)),
            },
            "spec": {
                "framework": "PyTorch",
                "replicas": 1,
                "template": {"spec": {"containers": [{"name": "trainer", "image": "trainer:1"}]}},
            },
        }
    )


@dataclass(frozen=True)
class PodBuilder:
    """A worker pod as raw JSON; scheduled to a node unless said otherwise."""

    metadata: dict[str, Any]
    node: str = NODE
    phase: str = "Pending"
    reason: str = ""
    message: str = ""
    conditions: tuple[dict[str, Any], ...] = ()
    containers: dict[str, dict[str, Any]] = field(default_factory=dict)
    init_containers: dict[str, dict[str, Any]] = field(default_factory=dict)
    trainer: str = names.TRAINER_CONTAINER
    tolerations: tuple[dict[str, Any], ...] = ()
    address: str = ""

    def labelled(self, **by_constant: str) -> Self:
        """Overwrite labels: ``labelled(INDEX="x")``."""
        changed = {getattr(labels, name): value for name, value in by_constant.items()}
        return replace(self, metadata={**self.metadata, "labels": {**self.metadata["labels"], **changed}})

    def version(self, resource_version: int) -> Self:
        return replace(self, metadata={**self.metadata, "resourceVersion": str(resource_version)})

    def on(self, node: str) -> Self:
        return replace(self, node=node)

    def at(self, address: str) -> Self:
        """The pod's IP address."""
        return replace(self, address=address)

    def unschedulable(self, message: str = "0/2 nodes are available: 2 Insufficient nvidia.com/gpu.") -> Self:
        return replace(self, node="").condition("PodScheduled", "False", "Unschedulable", message)

    def scheduling_gated(self) -> Self:
        return replace(self, node="").condition("PodScheduled", "False", "SchedulingGated", "waits for its gate")

    def waiting(self, reason: str, message: str = "", *, container: str | None = None) -> Self:
        return self._state(container, {"waiting": {"reason": reason, "message": message}})

    def running(self, *, container: str | None = None) -> Self:
        return replace(self, phase="Running")._state(container, {"running": {"startedAt": rfc3339(ago(60))}})

    def succeeded(self, *, container: str | None = None) -> Self:
        return replace(self, phase="Succeeded").ended(0, container=container)

    def failed(
        self, exit_code: int = 1, *, lines: str = "", at: datetime | None = NOW, reason: str = "Error", signal: int = 0
    ) -> Self:
        return replace(self, phase="Failed").ended(exit_code, lines=lines, at=at, reason=reason, signal=signal)

    def ended(
        self,
        exit_code: int,
        *,
        lines: str = "",
        at: datetime | None = NOW,
        reason: str = "",
        signal: int = 0,
        container: str | None = None,
    ) -> Self:
        """A container ended; what that means for the pod's phase stays as it was."""
        terminated = {"exitCode": exit_code, "signal": signal, "reason": reason, "message": lines}
        return self._state(container, {"terminated": {**terminated, "finishedAt": rfc3339(at) if at else None}})

    def init_ended(self, exit_code: int, *, lines: str = "", at: datetime | None = NOW) -> Self:
        state = {"terminated": {"exitCode": exit_code, "message": lines, "finishedAt": rfc3339(at) if at else None}}
        return replace(self, init_containers={**self.init_containers, "prepare": state})

    def pod_failed(self, reason: str = "", message: str = "") -> Self:
        """The kubelet gave the whole pod up, and no container says anything."""
        return replace(self, phase="Failed", reason=reason, message=message)

    def in_phase(self, phase: str) -> Self:
        return replace(self, phase=phase)

    def being_deleted(self, at: datetime = NOW, grace: int = 30) -> Self:
        """Somebody asked for the deletion ``at`` this time; the pod has so many seconds to end."""
        deletion = {
            "deletionTimestamp": rfc3339(at + timedelta(seconds=grace)),
            "deletionGracePeriodSeconds": grace,
        }
        return replace(self, metadata={**self.metadata, **deletion})

    def condition(self, kind: str, status: str, reason: str = "", message: str = "") -> Self:
        condition = {"type": kind, "status": status, "reason": reason, "message": message}
        return replace(self, conditions=(*self.conditions, condition))

    def created(self, at: datetime) -> Self:
        return replace(self, metadata={**self.metadata, "creationTimestamp": rfc3339(at)})

    def tolerates_node_loss(self, seconds: int | None) -> Self:
        """For so many seconds; None: for ever."""
        taint = {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"}
        limit = {} if seconds is None else {"tolerationSeconds": seconds}
        return replace(self, tolerations=(*self.tolerations, {**taint, **limit}))

    def _state(self, container: str | None, state: dict[str, Any]) -> Self:
        return replace(self, containers={**self.containers, container or self.trainer: state})

    def raw(self) -> dict[str, Any]:
        """As the API server sends it: the kubelet sorts container statuses by name, empty fields are left out."""
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": deepcopy(self.metadata),
            "spec": {"tolerations": list(self.tolerations)} | ({"nodeName": self.node} if self.node else {}),
            "status": {
                "phase": self.phase,
                "reason": self.reason,
                "message": self.message,
                "conditions": list(self.conditions),
                "containerStatuses": _statuses(self.containers),
                "initContainerStatuses": _statuses(self.init_containers),
            }
            | ({"podIP": self.address} if self.address else {}),
        }

    def build(self) -> Pod:
        return msgspec.convert(self.raw(), Pod)


def _statuses(states: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"name": name, "state": state} for name, state in sorted(states.items())]


def a_pod(
    job: DistributedTrainingJob | None = None,
    index: int = 0,
    *,
    role: str = names.WORKER_ROLE,
    attempt: int | None = None,
    trainer: str = names.TRAINER_CONTAINER,
) -> PodBuilder:
    """A pending pod of the job, by default of its current attempt."""
    job = job or a_job().begun().build()
    attempt = job.status.attempt if attempt is None else attempt
    name = names.pod_name(job.metadata.name, role, index, attempt)
    return PodBuilder(
        {
            "name": name,
            "namespace": job.metadata.namespace,
            "uid": f"uid-of-{name}",
            "resourceVersion": "1",
            "labels": {
                labels.JOB_NAME: job.metadata.name,
                labels.JOB_UID: job.metadata.uid,
                labels.ROLE: role,
                labels.INDEX: str(index),
                labels.ATTEMPT: str(attempt),
                labels.TRAINER: trainer,
            },
            "ownerReferences": [
                {"kind": names.KIND, "name": job.metadata.name, "uid": job.metadata.uid, "controller": True}
            ],
        },
        trainer=trainer,
    )


def a_service(job: DistributedTrainingJob) -> Service:
    name = names.service_name(job.metadata.name)
    return msgspec.convert(
        {"metadata": {"name": name, "namespace": job.metadata.namespace, "uid": f"uid-of-{name}"}}, Service
    )
