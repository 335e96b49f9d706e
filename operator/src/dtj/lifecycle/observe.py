"""Sort a job's children into named buckets. Decisions are taken on buckets, never on raw pods.

First step of ``reconcile``; its value and the job are all that ``decide`` sees.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import Final

from dtj.api import names
from dtj.api.job import DistributedTrainingJob
from dtj.lifecycle.agent_report import Sighting
from dtj.lifecycle.children import Pod, Service
from dtj.lifecycle.node_loss import LostNodes
from dtj.lifecycle.obstacles import Obstacle
from dtj.plan.pods import NODE_LOSS_SECONDS, UNREACHABLE_TAINT
from dtj.plan.topology import Group, Slot


class Bucket(StrEnum):
    """Every pod of a job is in exactly one. All but ``OLDER`` and ``NEWER`` hold pods of the current attempt."""

    PENDING = "pending"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    TERMINATING = "terminating"
    LOST = "lost"
    OLDER = "older"
    NEWER = "newer"


_OF_CURRENT_ATTEMPT: Final = tuple(bucket for bucket in Bucket if bucket not in {Bucket.OLDER, Bucket.NEWER})


@dataclass(frozen=True)
class Observed:
    """What exists for a job, as far as this process knows.

    ``training``: what the agent of rank 0 last said;
    ``training_trouble``: why it cannot be asked.
    ``operator_namespace``: where this process itself runs; None outside of a cluster.
    """

    pods: dict[Bucket, tuple[Pod, ...]]
    service: Service | None = None
    obstacle: Obstacle | None = None
    lost_nodes: LostNodes = field(default_factory=dict)
    training: Sighting | None = None
    training_trouble: str = ""
    operator_namespace: str | None = None

    def count(self, bucket: Bucket, role: str | None = None) -> int:
        return len(self.pods[bucket]) if role is None else self._numbers[bucket, role]

    def succeeded_and_gone(self, group: Group, told: int, gone_before: int) -> int:
        """How many pods of a role are missing because they were removed after their success.

        ``told``: successes of this attempt that the status has counted already, ``gone_before``: those of them whose
        pods were missing even then. Finished pods are removed by drains, by garbage collection and by people, and that
        must not undo what they did.
        """
        there = sum(self._numbers[bucket, group.role] for bucket in _OF_CURRENT_ATTEMPT)
        missing = max(0, group.replicas - there)
        gone_before = min(gone_before, missing)
        there_before = told - gone_before
        gone_now = min(missing - gone_before, there_before - self.count(Bucket.SUCCEEDED, group.role))
        return gone_before + max(0, gone_now)

    @cached_property
    def current(self) -> tuple[Pod, ...]:
        """All pods of the current attempt."""
        return tuple(pod for bucket in _OF_CURRENT_ATTEMPT for pod in self.pods[bucket])

    @cached_property
    def _numbers(self) -> Counter[tuple[Bucket, str]]:
        """Of pods, by bucket and role: a decision asks for them a dozen times."""
        return Counter((bucket, pod.role) for bucket, pods in self.pods.items() for pod in pods)

    @cached_property
    def filled(self) -> frozenset[Slot]:
        """Slots for which the current attempt has a pod, in whatever state."""
        return frozenset(Slot(pod.role, pod.index) for pod in self.current)

    def as_older(self) -> "Observed":
        """The same once another attempt has begun: nothing of that one exists yet."""
        older = tuple(sorted((*self.current, *self.pods[Bucket.OLDER]), key=_by_slot))
        pods = {bucket: older if bucket is Bucket.OLDER else () for bucket in Bucket}
        return replace(self, pods=pods, training=None, training_trouble="")


def observe(
    job: DistributedTrainingJob,
    pods: Iterable[Pod],
    service: Service | None,
    obstacle: Obstacle | None,
    lost_nodes: LostNodes | None = None,
    training: Sighting | None = None,
) -> Observed:
    """Sort the pods. Pods and Service of another owner are not expected here: the caller selects by job UID.

    Anybody may name a job as the owner of a pod, so that one of another namespace means nothing.
    """
    lost = lost_nodes or {}
    replicas = {role.name: role.replicas for role in job.spec.roles or ()} | {names.WORKER_ROLE: job.spec.replicas}
    buckets: dict[Bucket, list[Pod]] = {bucket: [] for bucket in Bucket}
    for pod in pods:
        if pod.metadata.namespace == job.metadata.namespace:
            has_slot = 0 <= pod.index < replicas.get(pod.role, 0)
            buckets[_bucket(pod, job, lost, has_slot=has_slot)].append(pod)
    ordered = {bucket: tuple(sorted(sorted_in, key=_by_slot)) for bucket, sorted_in in buckets.items()}
    # An address may be given to another job's pod, and word of an attempt may be late.
    ours = training is not None and (training.report.job_uid, training.report.attempt) == (
        job.metadata.uid,
        job.status.attempt,
    )
    return Observed(ordered, service, obstacle, lost, training if ours else None)


def _by_slot(pod: Pod) -> tuple[str, int, str]:
    return pod.role, pod.index, pod.name


def _bucket(pod: Pod, job: DistributedTrainingJob, lost_nodes: LostNodes, *, has_slot: bool) -> Bucket:
    if pod.name != names.pod_name(job.metadata.name, pod.role, pod.index, pod.attempt):
        return Bucket.OLDER  # somebody changed its labels: it fills no slot
    if pod.attempt != job.status.attempt:
        return Bucket.OLDER if pod.attempt < job.status.attempt else Bucket.NEWER
    if not has_slot:
        return Bucket.OLDER
    lost = pod.spec.node_name in lost_nodes and _is_given_up_at_once(pod)
    if pod.deleted_before_its_end:
        return Bucket.LOST if lost else Bucket.TERMINATING
    if has_failed(pod):
        return Bucket.FAILED
    if has_succeeded(pod):
        return Bucket.SUCCEEDED
    if lost:
        return Bucket.LOST
    return Bucket.RUNNING if runs(pod) else Bucket.PENDING


def has_failed(pod: Pod) -> bool:
    """The trainer container ended badly, or the kubelet gave the whole pod up."""
    ended = pod.trainer.state.terminated if pod.trainer else None
    return ended.exit_code != 0 if ended else pod.status.phase == "Failed"


def has_succeeded(pod: Pod) -> bool:
    """Only the trainer container's end counts: an injected sidecar may run for ever."""
    ended = pod.trainer.state.terminated if pod.trainer else None
    return ended.exit_code == 0 if ended else pod.status.phase == "Succeeded"


def has_ended(pod: Pod) -> bool:
    return has_failed(pod) or has_succeeded(pod)


def has_started(pod: Pod) -> bool:
    """Whether the trainer container runs or ran: its peers may already rely on it."""
    state = pod.trainer.state if pod.trainer else None
    return state is not None and (state.running is not None or state.terminated is not None)


def runs(pod: Pod) -> bool:
    """Whether the trainer container runs."""
    return pod.trainer is not None and pod.trainer.state.running is not None


def _is_given_up_at_once(pod: Pod) -> bool:
    """Whether its template leaves the patience with a lost node to the operator.

    As for the taint manager, the shortest of the fitting tolerations counts; one without a time bears the taint for
    ever.
    """
    fitting = [
        toleration.toleration_seconds
        for toleration in pod.spec.tolerations
        if toleration.key in {"", UNREACHABLE_TAINT} and toleration.effect in {"", "NoExecute"}
    ]
    limits = [seconds for seconds in fitting if seconds is not None]
    return min(limits) <= NODE_LOSS_SECONDS if limits else not fitting


def occupies_node(pod: Pod) -> bool:
    """Whether anything of the pod runs or may still start, a sidecar included.

    The phase alone does not tell: the kubelet reports it about a second after the end of the last container.
    """
    if pod.status.phase in {"Succeeded", "Failed"}:
        return False
    statuses = pod.status.container_statuses
    return not statuses or any(status.state.terminated is None for status in statuses)
