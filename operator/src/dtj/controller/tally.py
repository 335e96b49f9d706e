"""What this process did, counted since it started. Another process starts at nothing, as counters may.

Labels are words that the operator chooses from a fixed list, never names that users choose: what is told does not grow
with the number of jobs.
"""

from datetime import datetime
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram

from dtj.api.conditions import ConditionType
from dtj.api.job import DistributedTrainingJob
from dtj.api.reasons import Reason
from dtj.api.status import FailureClass, JobStatus, Phase
from dtj.lifecycle.status import is_finished

RESULTS: Final = (Phase.SUCCEEDED, Phase.FAILED)
USUAL_FAILURES: Final = (
    (FailureClass.APPLICATION, Reason.NON_ZERO_EXIT),
    (FailureClass.APPLICATION, Reason.KILLED_BY_SIGNAL),
    (FailureClass.OUT_OF_MEMORY, Reason.OOM_KILLED),
    (FailureClass.INFRASTRUCTURE, Reason.POD_FAILED),
    (FailureClass.INFRASTRUCTURE, Reason.STALLED),
    (FailureClass.DISRUPTION, Reason.EVICTED),
    (FailureClass.DISRUPTION, Reason.PREEMPTED),
    (FailureClass.DISRUPTION, Reason.NODE_LOST),
    (FailureClass.DISRUPTION, Reason.POD_DELETED),
    (FailureClass.STARTUP, Reason.STARTUP_DEADLINE_EXCEEDED),
    (FailureClass.CONFIGURATION, Reason.CONTAINER_CANNOT_RUN),
)
"""Counted from 0: the first of its kind would be no increase to Prometheus otherwise."""
FIRST: Final = "first"
FAILURE: Final = "failure"
DISRUPTION: Final = "disruption"
OTHER: Final = "other"
CAUSES: Final = (FIRST, FAILURE, DISRUPTION, OTHER)
"""Why an attempt was started; other: the job was changed or resumed, or the pods of half an attempt given back."""
WAITS: Final = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600)
"""Bounds of the histograms of waiting, in seconds: a warm start is one of few, an image of gigabytes one of minutes."""


class Tally:
    """Counts what written statuses put on record. Each of them is written once, by one process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._failures = self._counter(
            "dtj_attempts_ended_total", "Attempts that a failure ended, as far as this process saw.", "class", "reason"
        )
        self._finished = self._counter(
            "dtj_jobs_finished_total", "Jobs that ended, as far as this process saw.", "result"
        )
        self._started = self._counter("dtj_attempts_started_total", "Attempts that this process began.", "cause")
        self._start = Histogram(
            "dtj_start_seconds",
            "From a job's creation, or its release from suspension, until all of its pods ran for the first time.",
            buckets=WAITS,
            registry=self.registry,
        )
        self._recovery = Histogram(
            "dtj_recovery_seconds",
            "From the moment a failure was seen until all pods of a later attempt ran.",
            ["class"],
            buckets=WAITS,
            registry=self.registry,
        )
        self._begin_at_zero()

    def status_written(self, job: DistributedTrainingJob, new: JobStatus) -> None:
        """Count what ``new`` says beyond the status of ``job``, as which it was read."""
        old = job.status
        self._count_failure(old, new)
        if is_finished(new) and not is_finished(old) and new.phase is not None:
            self._finished.labels(new.phase).inc()
        if new.attempt_time is not None and (new.attempt, new.attempt_time) != (old.attempt, old.attempt_time):
            self._started.labels(_cause(old, new)).inc()
        if _all_run_now(old, new):
            self._count_wait(job, new)

    def _count_failure(self, old: JobStatus, new: JobStatus) -> None:
        failure = new.last_failure
        # One without an action ended nothing: pods wait for something to be mended.
        if failure is not None and failure.action is not None and failure != old.last_failure:
            self._failures.labels(failure.failure_class, failure.reason).inc()

    def _count_wait(self, job: DistributedTrainingJob, new: JobStatus) -> None:
        running = new.condition(ConditionType.RUNNING)
        assert running is not None, "the caller has just looked"  # noqa: S101
        if job.status.running_time is None:
            if (released := _release(job)) is not None:
                self._start.observe(_seconds(released, running.last_transition_time))
        elif (broken := _broken(job.status)) is not None:
            kind, since = broken
            self._recovery.labels(kind).observe(_seconds(since, running.last_transition_time))

    def _counter(self, name: str, description: str, *labels: str) -> Counter:
        return Counter(name, description, labels, registry=self.registry)

    def _begin_at_zero(self) -> None:
        for kind, reason in USUAL_FAILURES:
            self._failures.labels(kind, reason)
        for result in RESULTS:
            self._finished.labels(result)
        for cause in CAUSES:
            self._started.labels(cause)
        for each in FailureClass:
            self._recovery.labels(each)


def _cause(old: JobStatus, new: JobStatus) -> str:
    if new.disruptions > old.disruptions:
        return DISRUPTION
    if new.restarts > old.restarts:
        return FAILURE
    return FIRST if old.attempt_time is None else OTHER


def _all_run_now(old: JobStatus, new: JobStatus) -> bool:
    return new.has(ConditionType.RUNNING) and not old.has(ConditionType.RUNNING)


def _release(job: DistributedTrainingJob) -> datetime | None:
    """Since when the operator was free to start the job."""
    suspended = job.status.condition(ConditionType.SUSPENDED)
    return job.metadata.creation_timestamp if suspended is None else suspended.last_transition_time


def _broken(status: JobStatus) -> tuple[str, datetime] | None:
    """What kind of failure ended the last attempt, and since when the job does not run; None where none ended it.

    The condition keeps its time over attempts that end before all of their pods run. A suspension, a change of the job
    and pods that are given back lead to an attempt that follows no failure.
    """
    failure, running = status.last_failure, status.condition(ConditionType.RUNNING)
    if failure is None or failure.action is None or running is None or failure.attempt != status.attempt - 1:
        return None
    return failure.failure_class, running.last_transition_time


def _seconds(since: datetime, until: datetime) -> float:
    return max(0.0, (until - since).total_seconds())
