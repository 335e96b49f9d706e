"""A cluster that holds one job, as it truly is: the API server's objects, the nodes, the people, the time.

Everything is kept as the JSON that would cross the wire. An object that changes is replaced by a new one, so that
whoever kept the old one has an earlier view of it.
"""

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum, auto
from typing import Any

import orjson

from dtj.api import labels
from dtj.api.job import DistributedTrainingJob
from dtj.api.reasons import Reason
from dtj.api.status import JobStatus
from dtj.lifecycle.children import NodeCondition
from dtj.lifecycle.obstacles import Obstacle
from dtj.plan.topology import Slot
from tests.builders import NOW, JobBuilder, rfc3339

Raw = dict[str, Any]

NODES = ("node-1", "node-2", "node-3")
SAFE_NODE = "node-3"
"""Never lost, so that there is always somewhere to run."""
GRACE_SECONDS = 30
VERSIONS_KEPT = 6


class Hurt(Enum):
    """What ended a pod before its success."""

    FAILED = auto()
    DISRUPTED = auto()


class ConflictError(Exception):
    """Somebody else changed the object first."""


class RefusedError(Exception):
    """The API server does not take an object."""

    def __init__(self, obstacle: Obstacle) -> None:
        super().__init__(obstacle.message)
        self.obstacle = obstacle


@dataclass
class Cluster:
    """The truth. ``time`` is everybody's but the operator's, whose clock is off by ``clock_error``."""

    job: Raw
    time: datetime = NOW
    clock_error: timedelta = timedelta(0)
    clock_steps: int = 0
    pods: dict[str, Raw] = field(default_factory=dict)
    service: Raw | None = None
    network_policy: Raw | None = None
    lost_nodes: dict[str, NodeCondition] = field(default_factory=dict)
    quota: int | None = None
    template_refused: bool = False
    versions: list[Raw] = field(default_factory=list)
    created: int = 0
    job_is_gone: bool = False
    hurt: dict[int, dict[str, set[Hurt]]] = field(default_factory=dict)
    """What truly happened: by attempt and pod."""
    succeeded: dict[int, set[Slot]] = field(default_factory=dict)
    refused: set[int] = field(default_factory=set)
    """Attempts of which a pod was not let in."""

    @classmethod
    def with_job(cls, job: JobBuilder) -> "Cluster":
        cluster = cls(job.raw())
        cluster.versions.append(cluster.job)
        return cluster

    # What people and programs read

    @property
    def operators_clock(self) -> datetime:
        return self.time + self.clock_error

    def read_job(self) -> DistributedTrainingJob:
        return read(self.job)

    @property
    def status(self) -> JobStatus:
        return self.read_job().status

    def pods_of(self, attempt: int) -> list[str]:
        return [name for name, pod in self.pods.items() if attempt_of(pod) == attempt]

    def active(self) -> Iterator[Raw]:
        """Pods that hold a place: neither ended nor on their way out."""
        return (pod for pod in self.pods.values() if not is_terminating(pod) and not has_ended(pod))

    # What the API server does for the operator

    def write_status(self, seen: str, status: Raw) -> None:
        """Compare-and-swap: ``seen`` is the resource version that the writer knows."""
        if self.job_is_gone or seen != self.job["metadata"]["resourceVersion"]:
            raise ConflictError
        self._job_changes(status=status)

    def create_pod(self, manifest: Raw) -> Raw:
        name = manifest["metadata"]["name"]
        if name in self.pods:
            return self.pods[name]
        if self.template_refused:
            self.refused.add(attempt_of(manifest))
            raise RefusedError(self._obstacle(Reason.INVALID_TEMPLATE, "spec.x: no", until_spec_changes=True))
        if self.quota is not None and sum(1 for pod in self.pods.values() if not has_ended(pod)) >= self.quota:
            self.refused.add(attempt_of(manifest))
            raise RefusedError(self._obstacle(Reason.QUOTA_EXCEEDED, "exceeded quota"))
        self.created += 1
        born = {"uid": f"uid-{self.created}", "creationTimestamp": rfc3339(self.time)}
        self.pods[name] = {
            **manifest,
            "metadata": {**manifest["metadata"], **born},
            "status": {"phase": "Pending"},
        }
        return self.pods[name]

    def _obstacle(self, reason: Reason, message: str, *, until_spec_changes: bool = False) -> Obstacle:
        return Obstacle(reason, message, self.job["metadata"]["generation"], until_spec_changes=until_spec_changes)

    def create_service(self, manifest: Raw) -> Raw:
        if self.service is None:
            self.created += 1
            metadata = {**manifest["metadata"], "uid": f"uid-{self.created}"}
            self.service = {**manifest, "metadata": metadata}
        return self.service

    def create_network_policy(self, manifest: Raw) -> None:
        self.network_policy = self.network_policy or manifest

    def delete_pod(self, name: str, grace: int) -> None:
        """It stays until its kubelet has ended it; one that no kubelet knows of goes at once. A grace only shrinks."""
        pod = self.pods[name]
        if not pod["spec"].get("nodeName"):
            del self.pods[name]
        elif grace < pod["metadata"].get("deletionGracePeriodSeconds", grace + 1):
            until = {"deletionTimestamp": rfc3339(self.time + timedelta(seconds=grace))}
            self._pod_changes(name, metadata={**until, "deletionGracePeriodSeconds": grace})

    def delete_job(self, seen: str) -> None:
        if seen != self.job["metadata"]["resourceVersion"]:
            raise ConflictError
        self.job_is_gone = True
        self.pods.clear()
        self.service = self.network_policy = None

    # What schedulers and kubelets do

    def schedule(self, name: str, node: str = SAFE_NODE) -> None:
        if not self.pods[name]["spec"].get("nodeName") and node not in self.lost_nodes:
            self._pod_changes(name, spec={"nodeName": node}, status={"conditions": []})

    def cannot_be_scheduled(self, name: str, reason: str = "Unschedulable") -> None:
        if not self.pods[name]["spec"].get("nodeName"):
            why = {"type": "PodScheduled", "status": "False", "reason": reason, "message": "0/3 nodes are available"}
            self._pod_changes(name, status={"conditions": [why]})

    def waits(self, name: str, reason: str) -> None:
        self.schedule(name)
        if "running" not in self.trainer_state(name):
            self._container(name, "Pending", {"waiting": {"reason": reason, "message": "no"}})

    def run(self, name: str, node: str = SAFE_NODE) -> None:
        self.schedule(name, node)
        pod = self.pods[name]
        if pod["spec"].get("nodeName") and not is_terminating(pod):
            self._container(name, "Running", {"running": {"startedAt": rfc3339(self.time)}})

    def end(self, name: str, exit_code: int, message: str = "", reason: str = "", signal: int = 0) -> None:
        """The trainer's process ends. One that never ran can only fail."""
        pod = self.pods[name]
        if has_ended(pod) or not self._reachable(pod):
            return
        if exit_code == 0:
            if "running" not in self.trainer_state(name):
                return
            if not is_terminating(pod):
                self.succeeded.setdefault(attempt_of(pod), set()).add(slot_of(pod))
        else:
            self.schedule(name)
            self._hurts(pod, Hurt.FAILED)
        said = {"reason": reason, "message": message, "signal": signal}
        terminated = {**said, "exitCode": exit_code, "finishedAt": rfc3339(self.time)}
        self._container(name, "Failed" if exit_code else "Succeeded", {"terminated": terminated})

    def give_up(self, name: str, reason: str, disruption: str = "") -> None:
        """The kubelet ends the whole pod; no container says anything."""
        pod = self.pods[name]
        if has_ended(pod) or not self._reachable(pod):
            return
        conditions = [self._disruption(disruption)] if disruption else []
        self._hurts(pod, Hurt.DISRUPTED if disruption else Hurt.FAILED)
        self.schedule(name)
        self._pod_changes(name, status={"phase": "Failed", "reason": reason, "conditions": conditions})

    def disrupt(self, name: str, reason: str, grace: int = GRACE_SECONDS) -> None:
        """The control plane takes a pod away and says why."""
        if not has_ended(self.pods[name]) and not is_terminating(self.pods[name]):
            self._pod_changes(name, status={"conditions": [self._disruption(reason)]})
            self.somebody_deletes(name, grace)

    def _disruption(self, reason: str) -> Raw:
        since = rfc3339(self.time)
        return {"type": "DisruptionTarget", "status": "True", "reason": reason, "lastTransitionTime": since}

    def somebody_deletes(self, name: str, grace: int = GRACE_SECONDS) -> None:
        self._is_taken_away(name)
        self.delete_pod(name, grace)

    def vanish(self, name: str) -> None:
        """A pod is removed without a trace, by force."""
        self._is_taken_away(name)
        del self.pods[name]

    def _is_taken_away(self, name: str) -> None:
        """That is no harm to one whose success the status tells already."""
        pod = self.pods[name]
        ended = self.trainer_state(name).get("terminated", {}).get("finishedAt", "")
        just_now = ended >= rfc3339(self.time)  # within one second nobody can tell which came first
        if not has_ended(pod) or just_now or not self._all_successes_are_told(pod):
            self._hurts(pod, Hurt.DISRUPTED)

    def _all_successes_are_told(self, pod: Raw) -> bool:
        role = slot_of(pod).role
        true = {slot for slot in self.succeeded.get(attempt_of(pod), ()) if slot.role == role}
        told = sum(each.succeeded for each in self.status.roles if each.name == role)
        return self.status.attempt == attempt_of(pod) and told >= len(true)

    def deleted_pods_go(self) -> None:
        """A kubelet that lives ends the pods that it should; one that is lost does nothing."""
        for name, pod in list(self.pods.items()):
            if is_terminating(pod) and self._reachable(pod):
                del self.pods[name]

    def lose_node(self, node: str) -> None:
        message = "Kubelet stopped posting node status."
        condition = NodeCondition("Ready", "Unknown", message, last_transition_time=self.time)
        self.lost_nodes = {**self.lost_nodes, node: condition}
        for pod in self.pods.values():
            if pod["spec"].get("nodeName") == node and not has_ended(pod):
                self._hurts(pod, Hurt.DISRUPTED)

    def hear_of_node(self, node: str) -> None:
        self.lost_nodes = {name: lost for name, lost in self.lost_nodes.items() if name != node}

    def taint_manager_deletes_pods(self) -> None:
        for name, pod in list(self.pods.items()):
            if pod["spec"].get("nodeName") in self.lost_nodes:
                self.disrupt(name, "DeletionByTaintManager")

    def kubelets_catch_up(self) -> bool:
        """All that waits runs, all that was deleted goes. Whether anything changed."""
        before = dict(self.pods)
        self.deleted_pods_go()
        for name, pod in list(self.pods.items()):
            if not has_ended(pod) and self._reachable(pod) and "running" not in self.trainer_state(name):
                node = NODES[slot_of(pod).index % len(NODES)]
                self.run(name, SAFE_NODE if node in self.lost_nodes else node)
        return self.pods != before

    # What people do

    def edit(self, **fields: object) -> None:
        """Change ``spec``, by names on the wire; None takes a field out."""
        spec = {key: value for key, value in {**self.job["spec"], **fields}.items() if value is not None}
        if spec != self.job["spec"]:
            self._job_changes(spec=spec)

    def pass_time(self, seconds: float) -> None:
        self.time += timedelta(seconds=seconds)

    def step_clock(self, seconds: float) -> None:
        self.clock_error += timedelta(seconds=seconds)
        self.clock_steps += 1

    # How objects change

    def _job_changes(self, *, spec: Raw | None = None, status: Raw | None = None) -> None:
        metadata = self.job["metadata"]
        self.job = {
            **self.job,
            "metadata": {
                **metadata,
                "resourceVersion": str(int(metadata["resourceVersion"]) + 1),
                "generation": metadata["generation"] + (spec is not None),
            },
            "spec": self.job["spec"] if spec is None else orjson.loads(orjson.dumps(spec)),
            "status": self.job.get("status", {}) if status is None else orjson.loads(orjson.dumps(status)),
        }
        self.versions = [*self.versions, self.job][-VERSIONS_KEPT:]

    def _pod_changes(self, name: str, **parts: Raw) -> None:
        pod = self.pods[name]
        self.pods[name] = {**pod, **{part: {**pod[part], **fields} for part, fields in parts.items()}}

    def _container(self, name: str, phase: str, state: Raw) -> None:
        """The kubelet reports on the trainer container; one that has ended stays ended."""
        pod = self.pods[name]
        if not has_ended(pod) and self._reachable(pod):
            statuses = [{"name": pod["metadata"]["labels"][labels.TRAINER], "state": state}]
            self._pod_changes(name, status={"phase": phase, "containerStatuses": statuses})

    def trainer_state(self, name: str) -> Raw:
        statuses = self.pods[name]["status"].get("containerStatuses") or [{"state": {}}]
        state: Raw = statuses[0]["state"]
        return state

    def _reachable(self, pod: Raw) -> bool:
        return pod["spec"].get("nodeName") not in self.lost_nodes

    def _hurts(self, pod: Raw, how: Hurt) -> None:
        of_attempt = self.hurt.setdefault(attempt_of(pod), {})
        of_attempt.setdefault(pod["metadata"]["name"], set()).add(how)


def read(job: Raw) -> DistributedTrainingJob:
    return DistributedTrainingJob.model_validate(deepcopy(job))


def attempt_of(pod: Raw) -> int:
    return int(pod["metadata"]["labels"][labels.ATTEMPT])


def slot_of(pod: Raw) -> Slot:
    known = pod["metadata"]["labels"]
    return Slot(known[labels.ROLE], int(known[labels.INDEX]))


def is_terminating(pod: Raw) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def has_ended(pod: Raw) -> bool:
    """The containers here are the trainer's only, so the phase says it."""
    return pod["status"]["phase"] in {"Succeeded", "Failed"}


def has_failed(pod: Raw) -> bool:
    return bool(pod["status"]["phase"] == "Failed")


def has_succeeded(pod: Raw) -> bool:
    return bool(pod["status"]["phase"] == "Succeeded")


def uid_of(pod: Raw) -> str:
    return str(pod["metadata"]["uid"])
