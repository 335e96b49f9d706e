"""Scheduler and kubelet of the tests, which do only what a test tells them.

Pods get their node through the binding subresource and their state through the status subresource, as from the real
ones. Nothing happens by itself, so a test decides in which order things happen.
"""

import http.client
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tests.api.client import Answer, Client, Object

SCHEDULER = "tests"
"""``schedulerName`` of pods that no real scheduler shall place."""
MERGE_PATCH = "application/merge-patch+json"
TRAINER = "trainer"

State = Mapping[str, Any]
"""A ContainerState: exactly one of waiting, running, terminated."""


def running() -> State:
    return {"running": {"startedAt": timestamp(datetime.now(UTC))}}


def waiting(reason: str, message: str = "") -> State:
    return {"waiting": {"reason": reason, "message": message}}


def terminated(exit_code: int, message: str = "", *, reason: str = "", at: datetime | None = None) -> State:
    """``message``: the termination message; ``at``: when it ended, now by default."""
    return {
        "terminated": {
            "exitCode": exit_code,
            "reason": reason or ("Error" if exit_code else "Completed"),
            "message": message,
            "finishedAt": timestamp(at or datetime.now(UTC)),
        }
    }


def timestamp(time: datetime) -> str:
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(frozen=True)
class FakeKubelet:
    """The pods of one namespace on one node."""

    client: Client
    namespace: str
    node: str

    def place(self, pod: str) -> None:
        """Bind a pod to the node, unless it is bound already."""
        if self._read(pod)["spec"].get("nodeName"):
            return
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": pod},
            "target": {"apiVersion": "v1", "kind": "Node", "name": self.node},
        }
        _ensure(self.client.request("POST", f"{self._pods}/{pod}/binding", binding))

    def refuse_to_place(self, pod: str, message: str) -> None:
        """Say as the scheduler that no node fits."""
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
        self._patch_status(pod, {"conditions": [condition]})

    def run(self, *pods: str) -> None:
        for pod in pods:
            self.report(pod, {})

    def succeed(self, *pods: str) -> None:
        for pod in pods:
            self.report(pod, {container: terminated(0) for container in self._containers(pod)})

    def fail(
        self, pod: str, exit_code: int, message: str = "", *, reason: str = "", at: datetime | None = None
    ) -> None:
        """End the trainer container badly and the others of the pod well."""
        ends = {container: terminated(0) for container in self._containers(pod)}
        self.report(pod, {**ends, TRAINER: terminated(exit_code, message, reason=reason, at=at)})

    def fail_at_init(self, pod: str, exit_code: int, message: str = "") -> None:
        """End the pod's first init container badly: the others never start."""
        self.place(pod)
        first = self._read(pod)["spec"]["initContainers"][0]["name"]
        init = [_container_status(first, terminated(exit_code, message))]
        others = [_container_status(name, waiting("PodInitializing")) for name in self._containers(pod)]
        status = {"phase": "Failed", "initContainerStatuses": init, "containerStatuses": others}
        self._patch_status(pod, status)

    def choose_for_disruption(self, pod: str, reason: str, message: str = "") -> None:
        """Say on the pod, as whoever drains or preempts does, that it will have to go."""
        known = self._read(pod)["status"].get("conditions", ())
        target = {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": message}
        now = timestamp(datetime.now(UTC))  # the control plane takes a condition without a time for stale
        self._patch_status(pod, {"conditions": [*known, {**target, "lastTransitionTime": now}]})

    def evict(self, pod: str, message: str) -> None:
        """Give the whole pod up, as under node pressure; its containers report nothing any more."""
        self._patch_status(pod, {"phase": "Failed", "reason": "Evicted", "message": message})

    def report(self, pod: str, states: Mapping[str, State]) -> None:
        """Place the pod and report its containers; those not in ``states`` run.

        As from the real one, the word that a pod has ended comes after the word that its containers have.
        """
        self.place(pod)
        every = {container: states.get(container) or running() for container in self._containers(pod)}
        ready = "True" if all("running" in state for state in every.values()) else "False"
        status = {
            "phase": _phase(every),
            "startTime": timestamp(datetime.now(UTC)),
            "conditions": [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": ready}],
            "containerStatuses": [_container_status(container, state) for container, state in every.items()],
        }
        if status["phase"] in {"Succeeded", "Failed"}:
            self._patch_status(pod, {**status, "phase": "Running"})
        self._patch_status(pod, status)

    def finish_deletions(self) -> None:
        """Let every pod of the node go that is being deleted: its processes have ended."""
        for pod in _ensure(self.client.request("GET", self._pods))["items"]:
            if "deletionTimestamp" in pod["metadata"] and pod["spec"].get("nodeName") in {self.node, None}:
                self._remove(pod["metadata"]["name"], pod["metadata"]["uid"])

    def _remove(self, pod: str, uid: str) -> None:
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": uid}}
        answer = self.client.request("DELETE", f"{self._pods}/{pod}", options)
        if answer.code != http.client.NOT_FOUND:  # the garbage collector may have been faster
            _ensure(answer)

    def _containers(self, pod: str) -> list[str]:
        return [container["name"] for container in self._read(pod)["spec"]["containers"]]

    def _read(self, pod: str) -> Object:
        return _ensure(self.client.request("GET", f"{self._pods}/{pod}"))

    def _patch_status(self, pod: str, status: Object) -> None:
        _ensure(self.client.request("PATCH", f"{self._pods}/{pod}/status", {"status": status}, MERGE_PATCH))

    @property
    def _pods(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods"


def _container_status(name: str, state: State) -> Object:
    return {
        "name": name,
        "image": "image",
        "imageID": "",
        "restartCount": 0,
        "ready": "running" in state,
        "state": dict(state),
    }


def _phase(states: Mapping[str, State]) -> str:
    """As the kubelet finds it for containers that are not restarted."""
    if all("terminated" in state for state in states.values()):
        return "Failed" if any(state["terminated"]["exitCode"] for state in states.values()) else "Succeeded"
    return "Pending" if any("waiting" in state for state in states.values()) else "Running"


def _ensure(answer: Answer) -> Object:
    assert answer.accepted, f"{answer.code}: {answer.message}"
    return answer.body
