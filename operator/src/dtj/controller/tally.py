"""What this process did, counted since it started. Another process starts at nothing, as counters may."""

from collections import Counter
from typing import Final

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


class Tally:
    """Counts what written statuses put on record. Each of them is written once, by one process."""

    def __init__(self) -> None:
        self.failures: Counter[tuple[str, str]] = Counter(dict.fromkeys(USUAL_FAILURES, 0))
        """By class and reason."""
        self.finished: Counter[str] = Counter(dict.fromkeys(RESULTS, 0))

    def status_written(self, old: JobStatus, new: JobStatus) -> None:
        failure = new.last_failure
        # One without an action ended nothing: pods wait for something to be mended.
        if failure is not None and failure.action is not None and failure != old.last_failure:
            self.failures[failure.failure_class, failure.reason] += 1
        if is_finished(new) and not is_finished(old) and new.phase is not None:
            self.finished[new.phase] += 1
