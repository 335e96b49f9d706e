"""A cluster that holds one job: it carries decisions out as the shell does, and lets things happen to pods."""

from copy import deepcopy
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import msgspec
import orjson

from dtj.api.job import DistributedTrainingJob
from dtj.api.status import JobStatus
from dtj.lifecycle.children import Pod, Service
from dtj.lifecycle.decide import decide
from dtj.lifecycle.decision import CreatePod, CreateService, Decision, DeletePod, DeleteService, Write
from dtj.lifecycle.observe import Observed, observe
from dtj.lifecycle.obstacles import Obstacle
from tests.builders import NODE, NOW, JobBuilder, rfc3339

Raw = dict[str, Any]

GRACE_SECONDS = 30


@dataclass
class Cluster:
    """Everything is kept as the JSON that would cross the wire, so that what is written is what is read back."""

    job: Raw
    now: datetime = NOW
    pods: dict[str, Raw] = field(default_factory=dict)
    service: Raw | None = None
    obstacle: Obstacle | None = None
    created: int = 0

    @classmethod
    def with_job(cls, job: JobBuilder) -> "Cluster":
        return cls(job.raw())

    def read_job(self) -> DistributedTrainingJob:
        return DistributedTrainingJob.model_validate(orjson.loads(orjson.dumps(self.job)))

    @property
    def status(self) -> JobStatus:
        return self.read_job().status

    def observed(self) -> Observed:
        pods = [msgspec.convert(deepcopy(pod), Pod) for pod in self.pods.values()]
        service = msgspec.convert(self.service, Service) if self.service else None
        return observe(self.read_job(), pods, service, self.obstacle)

    def decide(self) -> Decision:
        return decide(self.read_job(), self.observed(), self.now)

    def carry_out(self, decision: Decision, calls: int | None = None) -> None:
        """Status first, then the writes. ``calls``: the operator is killed after so many calls of the API server."""
        steps = ([decision.status] if decision.status else []) + list(decision.writes)
        for step in steps[:calls]:
            if isinstance(step, JobStatus):
                self.job["status"] = orjson.loads(orjson.dumps(step.to_wire()))
            else:
                self._write(step)

    def _write(self, write: Write) -> None:
        match write:
            case CreatePod(manifest):
                assert manifest["metadata"]["name"] not in self.pods
                self.created += 1
                pod = deepcopy(manifest)
                pod["metadata"]["uid"] = f"uid-{self.created}"
                pod["status"] = {"phase": "Pending"}
                self.pods[pod["metadata"]["name"]] = pod
            case CreateService(manifest):
                assert self.service is None
                self.service = deepcopy(manifest)
                self.service["metadata"]["uid"] = "uid-of-service"
            case DeletePod(name, uid):
                assert self.pods[name]["metadata"]["uid"] == uid
                self.delete(name)
            case DeleteService(_, uid):
                assert self.service is not None
                assert self.service["metadata"]["uid"] == uid
                self.service = None

    def delete(self, name: str) -> None:
        """Somebody deletes a pod: it stays until its kubelet has ended it."""
        metadata = self.pods[name]["metadata"]
        if "deletionTimestamp" not in metadata:
            metadata["deletionTimestamp"] = rfc3339(self.now + timedelta(seconds=GRACE_SECONDS))
            metadata["deletionGracePeriodSeconds"] = GRACE_SECONDS

    def vanish(self, name: str) -> None:
        del self.pods[name]

    def schedule(self, name: str) -> None:
        self.pods[name]["spec"]["nodeName"] = NODE

    def container(self, name: str, phase: str, state: Raw) -> None:
        """The kubelet reports on the trainer container; one that has ended stays ended."""
        status = self.pods[name]["status"]
        before = status.get("containerStatuses", [{"state": {}}])[0]["state"]
        if "terminated" not in before:
            status |= {"phase": phase, "containerStatuses": [{"name": "trainer", "state": state}]}

    def run(self, name: str) -> None:
        self.schedule(name)
        self.container(name, "Running", {"running": {"startedAt": rfc3339(self.now)}})

    def end(self, name: str, exit_code: int, message: str = "", reason: str = "") -> None:
        terminated = {"exitCode": exit_code, "reason": reason, "message": message, "finishedAt": rfc3339(self.now)}
        self.container(name, "Failed" if exit_code else "Succeeded", {"terminated": terminated})

    def pass_time(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)
