"""Which objects of a job are deleted, and when."""

from collections.abc import Iterable, Iterator
from typing import Final

from dtj.api.job import DistributedTrainingJob
from dtj.api.spec import CleanupPolicy
from dtj.api.status import LastFailure
from dtj.lifecycle.children import Pod
from dtj.lifecycle.decision import DeletePod, DeleteService, Write
from dtj.lifecycle.observe import Bucket, Observed, has_failed, occupies_node

SURVIVOR_GRACE_SECONDS: Final = 10
"""For pods whose gang is broken: they are blocked in a collective, and their GPUs are wanted."""

KEPT_FAILED_PODS: Final = 3
"""Failed pods of earlier attempts that stay for their logs, one of an attempt, the latest attempts first."""


def deletions_at_end(job: DistributedTrainingJob, observed: Observed) -> Iterator[Write]:
    """What ``spec.cleanupPolicy`` asks for at the end of a job."""
    policy = job.spec.cleanup_policy
    if policy is CleanupPolicy.NONE:
        return
    for pod in (*observed.current, *observed.pods[Bucket.OLDER]):
        if not pod.terminating and (policy is CleanupPolicy.ALL or occupies_node(pod)):
            yield DeletePod(pod.name, pod.metadata.uid, SURVIVOR_GRACE_SECONDS)
    if policy is CleanupPolicy.ALL and observed.service is not None:
        yield DeleteService(observed.service.metadata.name, observed.service.metadata.uid)


def deletions_of_older(
    observed: Observed, failure: LastFailure | None, grace_seconds: int | None = SURVIVOR_GRACE_SECONDS
) -> Iterator[Write]:
    """Everything of earlier attempts but what is kept for its logs. ``grace_seconds`` None: each pod's own."""
    older = [pod for pod in observed.pods[Bucket.OLDER] if not pod.terminating]
    kept = _kept_for_logs(older, failure)
    for pod in older:
        if pod.name not in kept:
            yield DeletePod(pod.name, pod.metadata.uid, grace_seconds)


def _kept_for_logs(older: Iterable[Pod], failure: LastFailure | None) -> frozenset[str]:
    """The root cause of an attempt, where it is known and holds nothing of its node any more."""
    culprit = failure.pod if failure is not None else None
    by_attempt: dict[int, list[Pod]] = {}
    for pod in older:
        if has_failed(pod) and not occupies_node(pod):
            by_attempt.setdefault(pod.attempt, []).append(pod)
    latest = sorted(by_attempt, reverse=True)[:KEPT_FAILED_PODS]
    return frozenset(min((pod.name != culprit, pod.name) for pod in by_attempt[attempt])[1] for attempt in latest)
