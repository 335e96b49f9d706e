"""One process of the operator: what it has seen of the cluster, and how it carries decisions out.

It plays the shell of ``decide``: the caches, the compare-and-swap, the order of calls, what a refusal leads to.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import Enum, auto
from typing import Protocol

import msgspec

from dtj.api.job import DistributedTrainingJob
from dtj.api.status import JobStatus
from dtj.controller.memory import Memory
from dtj.lifecycle import status as status_of
from dtj.lifecycle.children import NodeCondition, Pod, Service
from dtj.lifecycle.decide import decide
from dtj.lifecycle.decision import (
    CreateNetworkPolicy,
    CreatePod,
    CreateService,
    Decision,
    DeleteJob,
    DeletePod,
    DeleteService,
    Write,
)
from dtj.lifecycle.observe import Bucket, Observed, observe, occupies_node
from dtj.lifecycle.obstacles import Obstacle
from tests.unit.lifecycle.cluster_model import (
    GRACE_SECONDS,
    Cluster,
    ConflictError,
    Raw,
    RefusedError,
    read,
    uid_of,
)


class KilledError(Exception):
    """The process has died in the middle of its work."""


class Confirmation(Enum):
    """What may have to be read live before a decision is carried out."""

    JOB = auto()
    PODS = auto()


class Watcher(Protocol):
    """Who is told of every decision, and asked after every call whether all is still well."""

    def decided(self, operator: "Operator", job: DistributedTrainingJob, decision: Decision) -> None:
        """Before anything of the decision is carried out. ``job``: as the operator sees it."""

    def status_is_written(self, old: DistributedTrainingJob, new: JobStatus, now: datetime) -> None:
        """Just before the status is written; that nobody else has changed the job is clear by then."""

    def is_called(self, job: DistributedTrainingJob, write: Write, now: datetime) -> None:
        """Just before a write that will be carried out."""

    def after_call(self) -> None:
        """The cluster has changed."""


class Unwatched:
    """Nobody looks."""

    def decided(self, operator: "Operator", job: DistributedTrainingJob, decision: Decision) -> None:
        pass

    def status_is_written(self, old: DistributedTrainingJob, new: JobStatus, now: datetime) -> None:
        pass

    def is_called(self, job: DistributedTrainingJob, write: Write, now: datetime) -> None:
        pass

    def after_call(self) -> None:
        pass


@dataclass
class Operator:
    """Caches that lag behind the cluster until ``catch_up``; its own writes it sees at once."""

    cluster: Cluster
    watcher: Watcher = field(default_factory=Unwatched)
    job: Raw = field(default_factory=dict)
    pods: dict[str, Raw] = field(default_factory=dict)
    service: Raw | None = None
    lost_nodes: dict[str, NodeCondition] = field(default_factory=dict)
    memory: Memory = field(default_factory=Memory)
    removed: dict[str, Raw] = field(default_factory=dict)
    """The pods that ``memory`` knows of, as they were last seen."""
    calls_left: int | None = None
    wrote: bool = False
    """Whether the last look called the API server, with or without success."""

    def __post_init__(self) -> None:
        self.catch_up()

    def catch_up(self) -> None:
        """Every watch has delivered everything."""
        self.job = self.cluster.job
        self.relist()
        self.lost_nodes = self.cluster.lost_nodes

    def relist(self) -> None:
        """The job's pods and Services as they are."""
        self.hear_of(self.pods.keys() | self.cluster.pods.keys())
        self.service = self.cluster.service

    def hear_of(self, names: Collection[str]) -> None:
        """The watch delivers what happened to these pods only, as if the rest were late."""
        for name in sorted(names):
            before, now = self.pods.pop(name, None), self.cluster.pods.get(name)
            if now is not None:
                self.pods[name] = now
            if before is not None and (now is None or uid_of(now) != uid_of(before)):
                self.removed[name] = before
                self.memory.remember(msgspec.convert(before, Pod), self.cluster.operators_clock)

    def look(self, calls: int | None = None, *, too_early: bool = False) -> Decision:
        """Decide and carry out. ``calls``: the process dies after so many calls of the API server.

        ``too_early``: a status was written a moment ago, so one that is no transition has to wait.
        """
        self.calls_left, self.wrote = calls, False
        now = self.cluster.operators_clock
        confirmed: set[Confirmation] = set()
        while True:
            job = read(self.job)
            decision = self._decide(job, now)
            needed = self._needed_confirmations(job, decision, too_early=too_early) - confirmed
            if not needed:
                break
            self._confirm(needed)
            confirmed |= needed
        self._carry_out(job, decision, now, too_early=too_early)
        return decision

    def _needed_confirmations(
        self, job: DistributedTrainingJob, decision: Decision, *, too_early: bool
    ) -> set[Confirmation]:
        """What is read live before such a decision is carried out."""
        needed = set()
        creates = any(isinstance(write, CreatePod) for write in decision.writes)
        surely_all = job.status.start_time is None or self.memory.committed == job.status.attempt
        if decision.rests_on_absence or (creates and not surely_all):
            needed.add(Confirmation.PODS)
        guarded = decision.status is not None and not self._waits(job, decision, too_early=too_early)
        unguarded = decision.changes_job and not guarded and not status_of.is_finished(job.status)
        if unguarded or self.memory.distrusted or self.observed(job).pods[Bucket.NEWER]:
            needed.add(Confirmation.JOB)
        return needed

    def _confirm(self, needed: set[Confirmation]) -> None:
        if Confirmation.PODS in needed:
            self.relist()
        if Confirmation.JOB in needed:
            self.job = self.cluster.job
            self.memory.distrusted = False

    def _waits(self, job: DistributedTrainingJob, decision: Decision, *, too_early: bool) -> bool:
        return too_early and decision.status is not None and not status_of.is_transition(job.status, decision.status)

    def _decide(self, job: DistributedTrainingJob, now: datetime) -> Decision:
        decision = decide(job, self.observed(job), now)
        assert decision == decide(job, self.observed(job), now), "the same arguments lead to the same decision"
        return decision

    def observed(self, job: DistributedTrainingJob) -> Observed:
        seen = {name: msgspec.convert(pod, Pod) for name, pod in self.pods.items()}
        pods = self.memory.removed_pods(job.status) | seen
        service = msgspec.convert(self.service, Service) if self.service else None
        return observe(job, pods.values(), service, self.obstacle, self.lost_nodes)

    def known_pods(self, status: JobStatus) -> dict[str, Raw]:
        """Those that seem to exist, and those of this attempt that somebody removed."""
        return {name: self.removed[name] for name in self.memory.removed_pods(status)} | self.pods

    @property
    def obstacle(self) -> Obstacle | None:
        return self.memory.obstacle(self._seconds())

    def _seconds(self) -> float:
        """A clock that is never set."""
        return self.cluster.time.timestamp()

    def _carry_out(self, job: DistributedTrainingJob, decision: Decision, now: datetime, *, too_early: bool) -> None:
        self.watcher.decided(self, job, decision)
        try:
            if decision.status is not None and not self._waits(job, decision, too_early=too_early):
                self._write_status(job, decision.status, now)
            self._apply(job, decision.writes, now)
        except ConflictError:
            return
        except RefusedError as refused:
            self._remember(refused.obstacle, now)

    def _remember(self, obstacle: Obstacle, now: datetime) -> None:
        """Tell at once what refused the writes."""
        job = read(self.job)
        observed = self.observed(job)
        going = [pod for pod in observed.pods[Bucket.OLDER] if pod.spec.node_name not in observed.lost_nodes]
        met = obstacle.following(observed.obstacle, alone=not any(occupies_node(pod) for pod in going))
        self.memory.meet(met, self._seconds())
        if met == observed.obstacle:
            return
        decision = self._decide(job, now)
        ends_attempt = decision.status is not None and decision.status.attempt != job.status.attempt
        deletions = tuple(write for write in decision.writes if isinstance(write, DeletePod) and ends_attempt)
        self._carry_out(job, replace(decision, writes=deletions), now, too_early=False)

    def _write_status(self, job: DistributedTrainingJob, status: JobStatus, now: datetime) -> None:
        def write() -> None:
            if self.cluster.job["metadata"]["resourceVersion"] == job.metadata.resource_version:
                self.watcher.status_is_written(job, status, now)
            try:
                self.cluster.write_status(job.metadata.resource_version, status.to_wire())
            except ConflictError:
                self.memory.distrusted = True
                raise
            self.job = self.cluster.job
            if status.attempt_time != job.status.attempt_time:
                self.memory.committed = status.attempt

        self._call(write)

    def _apply(self, job: DistributedTrainingJob, writes: tuple[Write, ...], now: datetime) -> None:
        """Names and isolation first, so that they exist when pods start; deletions before creations."""
        order = (CreateService | CreateNetworkPolicy, DeletePod | DeleteService, CreatePod, DeleteJob)
        for kinds in order:
            for write in writes:
                if isinstance(write, kinds):
                    self._call(lambda write=write: self._write(job, write, now))  # type: ignore[misc]
        if writes:
            self.memory.overcome()

    def _call(self, call: Callable[[], None]) -> None:
        if self.calls_left == 0:
            raise KilledError
        if self.calls_left is not None:
            self.calls_left -= 1
        self.wrote = True
        call()
        self.watcher.after_call()

    def _write(self, job: DistributedTrainingJob, write: Write, now: datetime) -> None:
        self.watcher.is_called(job, write, now)
        match write:
            case CreatePod(manifest):
                name = manifest["metadata"]["name"]
                self.pods[name] = self.cluster.create_pod(manifest)
            case CreateService(manifest):
                self.service = self.cluster.create_service(manifest)
            case CreateNetworkPolicy(manifest):
                self.cluster.create_network_policy(manifest)
            case DeletePod(name, uid, grace):
                self._delete_pod(name, uid, grace)
            case DeleteService(_, uid):
                if self.cluster.service is not None and self.cluster.service["metadata"]["uid"] == uid:
                    self.cluster.service = None
                self.service = None
            case DeleteJob(_, _, resource_version):
                self.cluster.delete_job(resource_version)

    def _delete_pod(self, name: str, uid: str, grace: int | None) -> None:
        found = self.cluster.pods.get(name)
        if found is None or uid_of(found) != uid:
            self.pods.pop(name, None)
            return
        self.cluster.delete_pod(name, GRACE_SECONDS if grace is None else grace)
        self.hear_of([name])
