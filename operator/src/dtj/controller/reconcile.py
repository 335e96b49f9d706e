"""One look at one job: read, observe, decide, write status, apply, tell."""

import asyncio
import copy
import logging
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import Enum

from pydantic import ValidationError

from dtj.api import names
from dtj.api.job import DistributedTrainingJob
from dtj.api.reasons import Reason
from dtj.api.status import JobStatus, Phase
from dtj.controller.event_teller import EventTeller
from dtj.controller.jobs import JobStore
from dtj.controller.logs import note_attempt
from dtj.controller.memory import Memory
from dtj.controller.queue import Key
from dtj.controller.tally import Tally
from dtj.controller.training_watch import Target, TrainingWatch
from dtj.kube import jobs
from dtj.kube.children import Children
from dtj.kube.client import Client
from dtj.kube.errors import ApiError, KubeError, is_conflict, obstacle_of
from dtj.kube.nodes import Nodes
from dtj.lifecycle import status as status_of
from dtj.lifecycle.children import Pod
from dtj.lifecycle.decide import decide
from dtj.lifecycle.decision import CreatePod, Decision, DeletePod, render
from dtj.lifecycle.observe import Bucket, Observed, observe, occupies_node
from dtj.lifecycle.obstacles import Obstacle
from dtj.lifecycle.status import COSMETIC_INTERVAL, Situation
from dtj.lifecycle.training import reporting_pod
from dtj.plan.agent_access import agent_token

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Outcome:
    """When to look again without a new event. ``error``: what failed, after which the queue backs off."""

    again_after: timedelta | None = None
    error: KubeError | None = None


@dataclass(frozen=True)
class Preview:
    """What a look at a job would see and decide now. ``at``: the event loop's time, to compare with the memory's."""

    job: DistributedTrainingJob
    observed: Observed
    memory: Memory
    decision: Decision
    at: float


class Confirmation(Enum):
    """What may have to be read live before a decision is carried out."""

    JOB = "job"
    PODS = "pods"


class Reconciler:
    """Carries out decisions, after a second look where a cache that is behind could mislead them."""

    def __init__(
        self,
        client: Client,
        store: JobStore,
        children: Children,
        nodes: Nodes,
        trainings: TrainingWatch,
        events: EventTeller,
        operator_namespace: str | None = None,
    ) -> None:
        self._client = client
        self._store = store
        self._children = children
        self._nodes = nodes
        self._trainings = trainings
        self._events = events
        self._operator_namespace = operator_namespace
        self._memories: dict[str, Memory] = {}
        self.tally = Tally()

    async def reconcile(self, key: Key) -> Outcome:
        now = datetime.now(UTC)
        confirmed: set[Confirmation] = set()
        while True:
            raw = self._store.get(key.uid)
            if raw is None:
                self.forget(key)
                return Outcome()
            try:
                job = DistributedTrainingJob.model_validate(raw)
            except ValidationError as error:
                return await self._refuse(key, error, now)
            note_attempt(job.status.attempt)
            observed = self._observe(key, job)
            decision = decide(job, observed, now)
            needed = self._needed_confirmations(key, job, observed, decision) - confirmed
            if not needed:
                self._follow(key, job, observed)
                return await self._carry_out(key, job, decision, now)
            try:
                await self._confirm(key, needed)
            except KubeError as error:
                log.warning("not looked at: %s", error)
                return Outcome(error=error)
            confirmed |= needed

    def _follow(self, key: Key, job: DistributedTrainingJob, observed: Observed) -> None:
        """Have the agent of rank 0 asked while it runs."""
        pod = None if status_of.is_finished(job.status) else reporting_pod(job, observed)
        if pod is None:
            self._trainings.forget(key.uid)
            return
        token = agent_token(job.metadata.uid, pod.attempt)
        interval = float(job.spec.progress.interval_seconds)
        self._trainings.follow(Target(key, pod.status.pod_ip, pod.attempt, token, interval))

    def _needed_confirmations(
        self, key: Key, job: DistributedTrainingJob, observed: Observed, decision: Decision
    ) -> frozenset[Confirmation]:
        """What a decision rests on that a cache which is behind would get wrong, as after a change of the process.

        A status is only written to the job that was looked at; writes without one have no such guard. At the end of a
        job they need none: it is final. No slot may be filled twice, so pods are created only where it is sure that no
        earlier ones are left: before the first attempt, and after one that this process began.
        """
        needed = set()
        memory = self._memory(key.uid)
        creates = any(isinstance(write, CreatePod) for write in decision.writes)
        surely_all = job.status.start_time is None or memory.committed == job.status.attempt
        if decision.rests_on_absence or (creates and not surely_all):
            needed.add(Confirmation.PODS)
        guarded = decision.status is not None and not self._too_early(key, job.status, decision)
        unguarded = decision.changes_job and not guarded and not status_of.is_finished(job.status)
        if unguarded or memory.distrusted or observed.pods[Bucket.NEWER]:
            needed.add(Confirmation.JOB)
        return frozenset(needed)

    async def _confirm(self, key: Key, needed: frozenset[Confirmation]) -> None:
        """Bring the caches up to date. Raises KubeError."""
        if Confirmation.PODS in needed:
            await self._children.refresh(key.namespace, key.uid)
        if Confirmation.JOB in needed:
            live = await jobs.read_job(self._client, key.namespace, key.name, key.uid)
            if live is None:
                self._store.drop(key.uid)
            elif self._store.get(key.uid) is not None:  # else it was deleted meanwhile
                self._store.put(live)
            self._memory(key.uid).distrusted = False

    def remember(self, pod: Pod) -> None:
        """Take in that a pod is gone. For a job that is finished, or that is not here, it does not matter."""
        raw = self._store.get(pod.metadata.controller_uid or "")
        if raw is not None and "completionTime" not in (raw.get("status") or {}):
            self._memory(raw["metadata"]["uid"]).remember(pod, datetime.now(UTC))

    def is_echo(self, uid: str, resource_version: str) -> bool:
        """Whether a job is as this process has just written it, with numbers of progress, say: there is nothing to do.

        A transition is looked at once more, because what follows from it, a deadline for example, counts from then on.
        """
        memory = self._memories.get(uid)
        return memory is not None and memory.cosmetic_version == resource_version

    def distrust(self, key: Key) -> None:
        """Read the job live before the next decision: it may have changed unseen."""
        self._memory(key.uid).distrusted = True

    def _memory(self, uid: str) -> Memory:
        return self._memories.setdefault(uid, Memory())

    async def _carry_out(self, key: Key, job: DistributedTrainingJob, decision: Decision, now: datetime) -> Outcome:
        log.debug("%s", render(decision).replace("\n", "; "))
        wait = self._too_early(key, job.status, decision)
        if not wait:
            try:
                await self._write_status(key, job, decision.status)
            except KubeError as error:
                return self._status_not_written(key, error)
        refusal = await self._apply(key, decision)
        if not wait:
            self._tell(job, decision, now)
        if refusal is None:
            times = [time for time in (wait, decision.requeue_after) if time is not None]
            return Outcome(again_after=min(times, default=None))
        if not is_conflict(refusal):
            log.warning("%s", refusal)
            await self._remember(key, obstacle_of(refusal, job.metadata.generation), now)
        return Outcome(error=refusal)

    async def _apply(self, key: Key, decision: Decision) -> KubeError | None:
        """Carry out the writes; what refused one of them."""
        memory = self._memory(key.uid)
        refused_before = memory.obstacle(_time()) is not None
        try:
            await self._children.apply(key.namespace, key.uid, decision.writes, carefully=refused_before)
        except KubeError as error:
            return error
        if decision.writes:
            memory.overcome()
        return None

    def _status_not_written(self, key: Key, error: KubeError) -> Outcome:
        if isinstance(error, ApiError) and error.code == 404:
            self._store.drop(key.uid)
            self.forget(key)
            return Outcome()
        if is_conflict(error):  # the job changed under our eyes; the new one is on its way, unless that was lost
            self.distrust(key)
        else:
            log.warning("status not written: %s", error)
        return Outcome(error=error)

    async def _remember(self, key: Key, obstacle: Obstacle, now: datetime) -> None:
        """Keep what refused the writes for the next look; a new obstacle is told at once, not after the backoff."""
        raw = self._store.get(key.uid)
        if raw is None:
            return
        job = DistributedTrainingJob.model_validate(raw)
        memory, observed = self._memory(key.uid), self._observe(key, job)
        going = [pod for pod in observed.pods[Bucket.OLDER] if pod.spec.node_name not in observed.lost_nodes]
        met = obstacle.following(observed.obstacle, alone=not any(occupies_node(pod) for pod in going))
        memory.meet(met, _time())
        if met == observed.obstacle:
            return
        decision = decide(job, self._observe(key, job), now)
        ends_attempt = decision.status is not None and decision.status.attempt != job.status.attempt
        deletions = tuple(write for write in decision.writes if isinstance(write, DeletePod) and ends_attempt)
        await self._carry_out(key, job, replace(decision, writes=deletions), now)

    def preview(self, key: Key, now: datetime) -> Preview | str:
        """What a look would see and decide; nothing is changed by asking. A sentence where the job can't be read."""
        try:
            job = DistributedTrainingJob.model_validate(self._store.get(key.uid))
        except ValidationError as error:
            return f"it can't be read: {_in_words(error)}"
        memory = copy.copy(self._memories.get(key.uid, Memory()))
        observed = self._observe(key, job, memory)
        return Preview(job, observed, memory, decide(job, observed, now), _time())

    def _observe(self, key: Key, job: DistributedTrainingJob, memory: Memory | None = None) -> Observed:
        memory = memory or self._memory(key.uid)
        service = next(iter(self._children.services_of(key.namespace, key.uid)), None)
        pods = {pod.name: pod for pod in self._children.pods_of(key.namespace, key.uid)}
        pods = memory.removed_pods(job.status) | pods
        observed = observe(
            job, pods.values(), service, memory.obstacle(_time()), self._nodes.lost(), self._trainings.heard(key.uid)
        )
        trouble = self._trainings.trouble(key.uid)
        return replace(observed, training_trouble=trouble, operator_namespace=self._operator_namespace)

    async def _refuse(self, key: Key, error: ValidationError, now: datetime) -> Outcome:
        """A spec that these models cannot read: written under another version's CRD. What runs is left alone."""
        raw = self._store.get(key.uid)
        assert raw is not None, "the caller has just read it"  # noqa: S101
        others = raw["spec"].get("managedBy", names.MANAGER) != names.MANAGER
        if others or "deletionTimestamp" in raw["metadata"]:
            return Outcome()
        problems = _in_words(error)
        if "startTime" in (raw.get("status") or {}):
            memory = self._memory(key.uid)
            if problems != memory.complaint:
                log.warning("it can't be read: %s", problems)
            memory.complaint = problems
            return Outcome()
        skeleton = {"framework": "Custom", "template": {"spec": {"containers": [{"name": "unread"}]}}}
        job = DistributedTrainingJob.model_validate({**raw, "spec": skeleton})
        situation = Situation(Phase.PENDING, Reason.INVALID_SPEC, problems)
        status = status_of.with_situation(job, situation, now)
        return await self._carry_out(key, job, Decision(status=status if status != job.status else None), now)

    def _too_early(self, key: Key, old: JobStatus, decision: Decision) -> timedelta | None:
        """How long a change that is no transition must wait, because this job's status was written just before."""
        written = self._memory(key.uid).written_at
        if decision.status is None or written is None or status_of.is_transition(old, decision.status):
            return None
        since = timedelta(seconds=_time() - written)
        return max(COSMETIC_INTERVAL - since, timedelta(0)) or None

    async def _write_status(self, key: Key, job: DistributedTrainingJob, new: JobStatus | None) -> None:
        if new is None:
            return
        written = await jobs.write_status(self._client, job, new)
        self.tally.status_written(job, new)
        note_attempt(new.attempt)
        if self._store.get(key.uid) is not None:  # else it was deleted meanwhile
            self._store.put(written)
        memory = self._memory(key.uid)
        memory.written_at = _time()
        memory.cosmetic_version = (
            "" if status_of.is_transition(job.status, new) else written["metadata"]["resourceVersion"]
        )
        if (new.attempt, new.attempt_time) != (job.status.attempt, job.status.attempt_time):
            memory.committed = new.attempt
        if (job.status.phase, job.status.reason) != (new.phase, new.reason):
            log.info("%s (%s)", new.phase, new.reason)

    def _tell(self, job: DistributedTrainingJob, decision: Decision, now: datetime) -> None:
        for event in decision.events:
            attempt = job.status.attempt
            count = self._memory(job.metadata.uid).tell(attempt, event.reason)
            self._events.tell(job.metadata, event, attempt, now, count)

    def forget(self, key: Key) -> None:
        """Drop all that is known of a job which is gone."""
        self._trainings.forget(key.uid)
        self._memories.pop(key.uid, None)


def _in_words(error: ValidationError) -> str:
    """Where what is wrong. The values are left out: one of them may be a secret."""
    found = error.errors(include_url=False, include_input=False)
    return "; ".join(f"{'.'.join(str(part) for part in each['loc'])}: {each['msg']}" for each in found)


def _time() -> float:
    """Seconds of the event loop's clock, which is never set."""
    return asyncio.get_running_loop().time()
