"""What written statuses count: attempts, failures, ends, and how long jobs waited to run."""

from datetime import timedelta
from typing import Any

import pytest

from dtj.api.reasons import FAILURES as FAILURE_REASONS
from dtj.api.reasons import Reason
from dtj.api.spec import RuleAction
from dtj.api.status import Condition, FailureClass, JobStatus, LastFailure, Phase
from dtj.controller.tally import CAUSES, USUAL_FAILURES, Tally
from dtj.lifecycle.decide import decide
from dtj.lifecycle.observe import observe
from tests.builders import NOW, JobBuilder, PodBuilder, a_job, a_pod, a_service, ago


def failure(attempt: int = 0, action: RuleAction | None = RuleAction.RESTART_JOB) -> LastFailure:
    kind, reason = FailureClass.DISRUPTION, Reason.EVICTED
    return LastFailure(attempt=attempt, time=NOW, failure_class=kind, reason=reason, action=action)


def ended(kind: str, phase: Phase, **fields: Any) -> JobStatus:  # noqa: ANN401
    condition = Condition(type=kind, status="True", reason="Because", last_transition_time=NOW)
    return JobStatus(phase=phase, conditions=(condition,), **fields)


STEPS: dict[str, tuple[JobStatus, JobStatus, dict[str, int]]] = {
    "a start": (JobStatus(), JobStatus(phase=Phase.STARTING), {}),
    "a restart": (JobStatus(), JobStatus(attempt=1, last_failure=failure()), {"Evicted": 1}),
    "the next restart": (
        JobStatus(attempt=1, last_failure=failure()),
        JobStatus(attempt=2, last_failure=failure(1)),
        {"Evicted": 1},
    ),
    "progress after a restart": (
        JobStatus(attempt=1, last_failure=failure()),
        JobStatus(attempt=1, last_failure=failure(), phase=Phase.RUNNING),
        {},
    ),
    "pods that wait": (JobStatus(), JobStatus(last_failure=failure(action=None)), {}),
    "a failure after waiting": (
        JobStatus(last_failure=failure(action=None)),
        JobStatus(attempt=1, last_failure=failure()),
        {"Evicted": 1},
    ),
    "a suspension": (JobStatus(last_failure=failure()), JobStatus(phase=Phase.SUSPENDED, last_failure=failure()), {}),
    "a success": (JobStatus(), ended("Complete", Phase.SUCCEEDED), {"Succeeded": 1}),
    "a success after a restart": (
        JobStatus(attempt=1, last_failure=failure()),
        ended("Complete", Phase.SUCCEEDED, attempt=1, last_failure=failure()),
        {"Succeeded": 1},
    ),
    "the last failure": (
        JobStatus(),
        ended("Failed", Phase.FAILED, last_failure=failure()),
        {"Evicted": 1, "Failed": 1},
    ),
    "a deadline": (JobStatus(), ended("Failed", Phase.FAILED), {"Failed": 1}),
    "after the end": (ended("Failed", Phase.FAILED), ended("Failed", Phase.FAILED, replicas=0), {}),
}


@pytest.mark.parametrize(("old", "new", "counted"), STEPS.values(), ids=STEPS.keys())
def test_what_a_written_status_counts(old: JobStatus, new: JobStatus, counted: dict[str, int]) -> None:
    tally = Tally()
    tally.status_written(a_job().status(old).build(), new)
    counts = {**told(tally, "dtj_attempts_ended_total", "reason"), **told(tally, "dtj_jobs_finished_total", "result")}
    assert {word: value for word, value in counts.items() if value} == counted


def test_all_is_counted_from_zero() -> None:
    assert {reason for _, reason in USUAL_FAILURES} == set(FAILURE_REASONS)
    tally = Tally()
    assert told(tally, "dtj_attempts_ended_total", "reason") == {str(reason): 0 for _, reason in USUAL_FAILURES}
    assert told(tally, "dtj_jobs_finished_total", "result") == {"Succeeded": 0, "Failed": 0}
    assert told(tally, "dtj_attempts_started_total", "cause") == dict.fromkeys(CAUSES, 0)
    assert told(tally, "dtj_recovery_seconds_count", "class") == {str(each): 0 for each in FailureClass}


def told(tally: Tally, name: str, label: str) -> dict[str, float]:
    """Values of a metric by one of its labels."""
    samples = (sample for family in tally.registry.collect() for sample in family.samples)
    return {sample.labels.get(label, ""): sample.value for sample in samples if sample.name == name}


STARTS: dict[str, tuple[JobStatus, JobStatus, str | None]] = {
    "the first": (JobStatus(), JobStatus(attempt_time=NOW), "first"),
    "after a failure": (JobStatus(attempt_time=ago(9)), JobStatus(attempt=1, attempt_time=NOW, restarts=1), "failure"),
    "in the second of the one before": (
        JobStatus(attempt_time=NOW),
        JobStatus(attempt=1, attempt_time=NOW, restarts=1),
        "failure",
    ),
    "after a disruption": (
        JobStatus(attempt=1, attempt_time=ago(9), restarts=1),
        JobStatus(attempt=2, attempt_time=NOW, restarts=1, disruptions=1),
        "disruption",
    ),
    "after a change": (
        JobStatus(attempt=1, attempt_time=ago(9), restarts=1),
        JobStatus(attempt=2, attempt_time=NOW, restarts=1),
        "other",
    ),
    "none, only news of it": (JobStatus(attempt_time=NOW), JobStatus(attempt_time=NOW, phase=Phase.RUNNING), None),
    "none, the job ends": (
        JobStatus(attempt_time=NOW),
        JobStatus(attempt_time=NOW, phase=Phase.FAILED, last_failure=failure()),
        None,
    ),
}


@pytest.mark.parametrize(("old", "new", "cause"), STARTS.values(), ids=STARTS.keys())
def test_why_an_attempt_was_started(old: JobStatus, new: JobStatus, cause: str | None) -> None:
    tally = Tally()
    tally.status_written(a_job().status(old).build(), new)
    counts = told(tally, "dtj_attempts_started_total", "cause")
    assert [word for word, value in counts.items() if value] == ([cause] if cause else [])


class Life:
    """A job of one worker whose statuses are written as decided, and what they count."""

    def __init__(self, job: JobBuilder) -> None:
        self.tally = Tally()
        self._job = job

    def at(self, seconds: float, *pods: PodBuilder, **spec: object) -> None:
        """Look at the job so long after its creation, with these pods and these changes of its spec."""
        self._job = self._job.spec(**spec)
        job, now = self._job.build(), ago(60) + timedelta(seconds=seconds)
        decision = decide(job, observe(job, [pod.build() for pod in pods], a_service(job), None), now)
        if decision.status is not None:
            self.tally.status_written(job, decision.status)
            self._job = self._job.status(decision.status)

    def pod(self) -> PodBuilder:
        return a_pod(self._job.build())

    @property
    def starts(self) -> tuple[float, float]:
        """How many, and their seconds."""
        return told(self.tally, "dtj_start_seconds_count", "")[""], told(self.tally, "dtj_start_seconds_sum", "")[""]

    @property
    def recoveries(self) -> dict[str, tuple[float, float]]:
        counts, sums = (told(self.tally, f"dtj_recovery_seconds_{end}", "class") for end in ("count", "sum"))
        return {kind: (count, sums[kind]) for kind, count in counts.items() if count}


@pytest.fixture
def life() -> Life:
    return Life(a_job().spec(failurePolicy={"maxRestarts": 5}))


def run_from(life: Life, seconds: float) -> None:
    life.at(seconds - 5)
    life.at(seconds, life.pod().running())


def test_a_start_lasts_from_the_creation_until_all_pods_run(life: Life) -> None:
    life.at(3)
    life.at(8, life.pod())
    assert life.starts == (0, 0)
    life.at(20, life.pod().running())
    life.at(30, life.pod().running())
    assert life.starts == (1, 20)
    assert life.recoveries == {}


def test_a_start_that_fails_goes_on(life: Life) -> None:
    life.at(3)
    life.at(8, life.pod().failed(1, at=ago(55)))
    life.at(90, life.pod().running())
    assert (life.starts, life.recoveries) == ((1, 90), {})


def test_a_start_of_a_suspended_job_lasts_from_its_release(life: Life) -> None:
    life.at(3, suspend=True)
    life.at(1_000, suspend=False)
    life.at(1_012, life.pod().running())
    assert life.starts == (1, 12)


def test_a_recovery_lasts_from_the_failure_until_all_pods_run_again(life: Life) -> None:
    run_from(life, 10)
    life.at(100, life.pod().failed(1))
    life.at(112, life.pod())
    assert life.recoveries == {}
    life.at(130, life.pod().running())
    life.at(140, life.pod().running())
    assert life.recoveries == {"Application": (1, 30)}
    assert life.starts == (1, 10)


def test_a_recovery_that_fails_goes_on(life: Life) -> None:
    run_from(life, 10)
    life.at(100, life.pod().failed(1))
    life.at(150, life.pod().failed(1))
    life.at(400, life.pod().running())
    assert life.recoveries == {"Application": (1, 300)}


def test_each_recovery_counts(life: Life) -> None:
    run_from(life, 10)
    for began, ends in ((100, 130), (200, 245)):
        life.at(began, life.pod().failed(1))
        life.at(ends, life.pod().running())
    assert life.recoveries == {"Application": (2, 75)}


def test_a_suspension_is_no_failure(life: Life) -> None:
    run_from(life, 10)
    life.at(100, life.pod().failed(1))
    life.at(105, suspend=True)
    life.at(500, suspend=False)
    life.at(510, life.pod().running())
    assert (life.recoveries, life.starts) == ({}, (1, 10))


def test_a_change_of_the_job_is_no_failure(life: Life) -> None:
    run_from(life, 10)
    life.at(100, life.pod().failed(1))
    life.at(130, life.pod().running())
    life.at(200, life.pod().running(), template=a_job().container(image="trainer:2").raw()["spec"]["template"])
    life.at(230, life.pod().running())
    assert life.recoveries == {"Application": (1, 30)}
