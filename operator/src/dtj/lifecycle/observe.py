"""Sort a job's children into named buckets. Decisions are taken on buckets, never on raw pods.

First step of ``reconcile``; its value and the job are all that ``decide`` sees.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from dtj.api.job import DistributedTrainingJob
from dtj.lifecycle.children import Pod, Service
from dtj.lifecycle.obstacles import Obstacle
from dtj.plan.topology import Group, Slot


class Bucket(StrEnum):
    """Every pod of a job is in exactly one. All but ``OLDER`` hold pods of the current attempt."""

    PENDING = "pending"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    TERMINATING = "terminating"
    OLDER = "older"


@dataclass(frozen=True)
class Observed:
    """What exists for a job, as far as this process knows."""

    pods: dict[Bucket, tuple[Pod, ...]]
    service: Service | None = None
    obstacle: Obstacle | None = None

    def count(self, bucket: Bucket, role: str | None = None) -> int:
        return sum(1 for pod in self.pods[bucket] if role is None or pod.role == role)

    def succeeded_and_gone(self, group: Group, told: int, gone_before: int) -> int:
        """How many pods of a role are missing because they were removed after their success.

        ``told``: successes of this attempt that the status has counted already, ``gone_before``: those of them whose
        pods were missing even then. Finished pods are removed by drains, by garbage collection and by people, and that
        must not undo what they did.
        """
        missing = max(0, group.replicas - sum(1 for pod in self.current if pod.role == group.role))
        gone_before = min(gone_before, missing)
        there_before = told - gone_before
        gone_now = min(missing - gone_before, there_before - self.count(Bucket.SUCCEEDED, group.role))
        return gone_before + max(0, gone_now)

    @property
    def current(self) -> tuple[Pod, ...]:
        """All pods of the current attempt."""
        return tuple(pod for bucket in Bucket if bucket is not Bucket.OLDER for pod in self.pods[bucket])

    @property
    def filled(self) -> frozenset[Slot]:
        """Slots for which the current attempt has a pod, in whatever state."""
        return frozenset(Slot(pod.role, pod.index) for pod in self.current)


def observe(
    job: DistributedTrainingJob,
    pods: Iterable[Pod],
    service: Service | None,
    obstacle: Obstacle | None,
) -> Observed:
    """Sort the pods. Pods and Service of another owner are not expected here: the caller selects by job UID."""
    buckets: dict[Bucket, list[Pod]] = {bucket: [] for bucket in Bucket}
    for pod in pods:
        buckets[_bucket(pod, job.status.attempt)].append(pod)
    ordered = {bucket: tuple(sorted(sorted_in, key=_by_slot)) for bucket, sorted_in in buckets.items()}
    return Observed(ordered, service, obstacle)


def _by_slot(pod: Pod) -> tuple[str, int, str]:
    return pod.role, pod.index, pod.name


def _bucket(pod: Pod, attempt: int) -> Bucket:
    if pod.attempt != attempt:
        return Bucket.OLDER
    if pod.deleted_before_its_end:
        return Bucket.TERMINATING
    if has_failed(pod):
        return Bucket.FAILED
    if has_succeeded(pod):
        return Bucket.SUCCEEDED
    return Bucket.RUNNING if _runs(pod) else Bucket.PENDING


def has_failed(pod: Pod) -> bool:
    """The trainer container ended badly, or the kubelet gave the whole pod up."""
    ended = pod.trainer.state.terminated if pod.trainer else None
    return ended.exit_code != 0 if ended else pod.status.phase == "Failed"


def has_succeeded(pod: Pod) -> bool:
    """Only the trainer container's end counts: an injected sidecar may run for ever."""
    ended = pod.trainer.state.terminated if pod.trainer else None
    return ended.exit_code == 0 if ended else pod.status.phase == "Succeeded"


def _runs(pod: Pod) -> bool:
    return pod.trainer is not None and pod.trainer.state.running is not None


def occupies_node(pod: Pod) -> bool:
    """Whether anything of the pod runs or may still start, a sidecar included.

    The phase alone does not tell: the kubelet reports it about a second after the end of the last container.
    """
    if pod.status.phase in {"Succeeded", "Failed"}:
        return False
    statuses = pod.status.container_statuses
    return not statuses or any(status.state.terminated is None for status in statuses)
