"""One look at one job: read, observe, decide, write status, apply, tell."""

import asyncio
import logging
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import Enum

from pydantic import ValidationError

from dtj.api import names
from dtj.api.job import DistributedTrainingJob
from dtj.api.reasons import Reason
from dtj.api.status import JobStatus, Phase
from dtj.controller.jobs import JobStore
from dtj.controller.queue import Key
from dtj.kube import jobs
from dtj.kube.children import Children
from dtj.kube.client import Client
from dtj.kube.errors import ApiError, KubeError, is_conflict, obstacle_of
from dtj.kube.nodes import Nodes
from dtj.lifecycle import status as status_of
from dtj.lifecycle.children import Pod
from dtj.lifecycle.decide import decide
from dtj.lifecycle.decision import CreatePod, Decision, render
from dtj.lifecycle.observe import Bucket, Observed, observe, occupies_node
from dtj.lifecycle.obstacles import Obstacle
from dtj.lifecycle.status import COSMETIC_INTERVAL, Situation

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Outcome:
    """When to look again without a new event. ``error``: what failed, after which the queue backs off."""

    again_after: timedelta | None = None
    error: KubeError | None = None


class Confirmation(Enum):
    """What may have to be read live before a decision is carried out."""

    JOB = "job"
    PODS = "pods"


class Reconciler:
    """Carries out decisions.

    Keeps in memory only what may be forgotten: obstacles, the times of status writes, and pods that were removed after
    their success before a status told of it.
    """

    def __init__(self, client: Client, store: JobStore, children: Children, nodes: Nodes) -> None:
        self._client = client
        self._store = store
        self._children = children
        self._nodes = nodes
        self._obstacles: dict[str, Obstacle] = {}
        self._removed_successes: dict[str, dict[str, Pod]] = {}
        self._written_at: dict[str, float] = {}

    async def reconcile(self, key: Key) -> Outcome:
        now = datetime.now(UTC)
        confirmed: set[Confirmation] = set()
        while True:
            raw = self._store.get(key.uid)
            if raw is None:
                self._forget(key)
                return Outcome()
            try:
                job = DistributedTrainingJob.model_validate(raw)
            except ValidationError as error:
                return await self._refuse(key, error, now)
            decision = decide(job, self._observe(key, job), now)
            needed = self._needed_confirmations(key, job, decision) - confirmed
            if not needed:
                return await self._carry_out(key, job, decision, now)
            try:
                await self._confirm(key, needed)
            except KubeError as error:
                log.warning("job %s/%s: not looked at: %s", key.namespace, key.name, error)
                return Outcome(error=error)
            confirmed |= needed

    def _needed_confirmations(
        self, key: Key, job: DistributedTrainingJob, decision: Decision
    ) -> frozenset[Confirmation]:
        """What a decision rests on that a cache which is behind would get wrong, as after a change of the process.

        A status is only written to the job that was looked at; writes without one have no such guard. At the end of a
        job they need none: it is final. No slot may be filled twice, so pods are created only where it is sure that no
        earlier ones are left; before the first attempt there are none.
        """
        needed = set()
        creates = any(isinstance(write, CreatePod) for write in decision.writes)
        if decision.rests_on_absence or (creates and job.status.start_time is not None):
            needed.add(Confirmation.PODS)
        guarded = decision.status is not None and not self._too_early(key, job.status, decision)
        if decision.writes and not guarded and not status_of.is_finished(job.status):
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
            else:
                self._store.put(live)

    def remember_success(self, pod: Pod) -> None:
        """Take in that a pod was removed after it had succeeded."""
        job_uid = pod.metadata.controller_uid or ""
        if self._store.get(job_uid) is not None:
            self._removed_successes.setdefault(job_uid, {})[pod.name] = pod

    async def _carry_out(self, key: Key, job: DistributedTrainingJob, decision: Decision, now: datetime) -> Outcome:
        log.debug("job %s/%s: %s", key.namespace, key.name, render(decision))
        wait = self._too_early(key, job.status, decision)
        if not wait:
            try:
                await self._write_status(key, job, decision.status)
            except KubeError as error:
                return self._status_not_written(key, error)
        refusal = await self._apply(key, decision)
        if not wait:
            await self._tell(job, decision, now)
        if refusal is None:
            times = [time for time in (wait, decision.requeue_after) if time is not None]
            return Outcome(again_after=min(times, default=None))
        if not is_conflict(refusal):
            log.warning("job %s/%s: %s", key.namespace, key.name, refusal)
            await self._remember(key, obstacle_of(refusal, job.metadata.generation), now)
        return Outcome(error=refusal)

    async def _apply(self, key: Key, decision: Decision) -> KubeError | None:
        """Carry out the writes; what refused one of them."""
        try:
            await self._children.apply(key.namespace, key.uid, decision.writes)
        except KubeError as error:
            return error
        if decision.writes:
            self._obstacles.pop(key.uid, None)
        return None

    def _status_not_written(self, key: Key, error: KubeError) -> Outcome:
        if isinstance(error, ApiError) and error.code == 404:
            self._store.drop(key.uid)
            self._forget(key)
            return Outcome()
        if not is_conflict(error):  # a conflict: the job changed under our eyes; the new one is on its way
            log.warning("job %s/%s: status not written: %s", key.namespace, key.name, error)
        return Outcome(error=error)

    async def _remember(self, key: Key, obstacle: Obstacle, now: datetime) -> None:
        """Keep what refused the writes for the next look; a new obstacle is told at once, not after the backoff."""
        raw = self._store.get(key.uid)
        if raw is None:
            return
        job = DistributedTrainingJob.model_validate(raw)
        older = self._observe(key, job).pods[Bucket.OLDER]
        obstacle = replace(obstacle, amid_older_pods=any(occupies_node(pod) for pod in older))
        before, self._obstacles[key.uid] = self._obstacles.get(key.uid), obstacle
        if obstacle == before:
            return
        decision = decide(job, self._observe(key, job), now)
        ends_attempt = decision.status is not None and decision.status.attempt != job.status.attempt
        await self._carry_out(key, job, decision if ends_attempt else replace(decision, writes=()), now)

    def _observe(self, key: Key, job: DistributedTrainingJob) -> Observed:
        service = next(iter(self._children.services.group(key.uid)), None)
        pods = {pod.name: pod for pod in self._children.pods.group(key.uid)}
        pods = self._successes_of_attempt(key, job.status) | pods
        return observe(job, pods.values(), service, self._obstacles.get(key.uid), self._nodes.lost())

    def _successes_of_attempt(self, key: Key, status: JobStatus) -> dict[str, Pod]:
        """Those of removed pods; what an earlier attempt or a finished job had does not count any more."""
        removed = self._removed_successes.get(key.uid, {})
        if not removed or status_of.is_finished(status) or not status_of.has_begun(status):
            self._removed_successes.pop(key.uid, None)
            return {}
        return {name: pod for name, pod in removed.items() if pod.attempt == status.attempt}

    async def _refuse(self, key: Key, error: ValidationError, now: datetime) -> Outcome:
        """A spec that these models cannot read: written under another version's CRD. What runs is left alone."""
        raw = self._store.get(key.uid)
        assert raw is not None, "the caller has just read it"  # noqa: S101
        others = raw["spec"].get("managedBy", names.MANAGER) != names.MANAGER
        if others or "deletionTimestamp" in raw["metadata"]:
            return Outcome()
        problems = "; ".join(
            f"{'.'.join(str(part) for part in each['loc'])}: {each['msg']}" for each in error.errors(include_url=False)
        )
        if "startTime" in (raw.get("status") or {}):
            log.warning("job %s/%s can't be read: %s", key.namespace, key.name, problems)
            return Outcome()
        skeleton = {"framework": "Custom", "template": {"spec": {"containers": [{"name": "unread"}]}}}
        job = DistributedTrainingJob.model_validate({**raw, "spec": skeleton})
        situation = Situation(Phase.PENDING, Reason.INVALID_SPEC, problems)
        status = status_of.with_situation(job, situation, now)
        return await self._carry_out(key, job, Decision(status=status if status != job.status else None), now)

    def _too_early(self, key: Key, old: JobStatus, decision: Decision) -> timedelta | None:
        """How long a change that is no transition must wait, because this job's status was written just before."""
        written = self._written_at.get(key.uid)
        if decision.status is None or written is None or status_of.is_transition(old, decision.status):
            return None
        since = timedelta(seconds=asyncio.get_running_loop().time() - written)
        return max(COSMETIC_INTERVAL - since, timedelta(0)) or None

    async def _write_status(self, key: Key, job: DistributedTrainingJob, new: JobStatus | None) -> None:
        if new is None:
            return
        written = await jobs.write_status(self._client, job, new)
        if self._store.get(key.uid) is not None:  # else it was deleted meanwhile
            self._store.put(written)
        self._written_at[key.uid] = asyncio.get_running_loop().time()
        if (job.status.phase, job.status.reason) != (new.phase, new.reason):
            log.info("job %s/%s: %s (%s)", key.namespace, key.name, new.phase, new.reason)

    async def _tell(self, job: DistributedTrainingJob, decision: Decision, now: datetime) -> None:
        """Events are for people and may be lost; the status has said it already."""
        for event in decision.events:
            try:
                await jobs.write_event(self._client, job, event, job.status.attempt, now.strftime("%Y-%m-%dT%H:%M:%SZ"))
            except KubeError as error:
                log.warning("event %s of job %s/%s: %s", event.reason, job.metadata.namespace, job.metadata.name, error)

    def _forget(self, key: Key) -> None:
        self._obstacles.pop(key.uid, None)
        self._written_at.pop(key.uid, None)
        self._removed_successes.pop(key.uid, None)
