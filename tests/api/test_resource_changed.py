"""What may change after a job was made, and who may change what."""

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

from dtj.api.conditions import ConditionType
from dtj.api.reasons import Reason
from dtj.api.spec import ConditionStatus
from dtj.api.status import Condition, FailureClass, JobStatus, LastFailure, Phase, ProgressStatus, RoleStatus
from tests.api.resource import Resource, changed, sample

pytestmark = pytest.mark.api

ONLY_SUSPENDED = "can change only while the job is suspended"
NEW_TEMPLATE = {"spec": {"containers": [{"name": "trainer", "image": "another"}]}}

FIXED: dict[str, tuple[dict[str, Any], str, str]] = {
    "framework": ({"framework": "Custom"}, "spec.framework", "can't be changed"),
    "managedBy": ({"managedBy": "kueue.x-k8s.io/multikueue"}, "spec.managedBy", "can't be changed"),
    "managedBy taken away": ({"managedBy": "other.dev/x"}, "spec.managedBy", "can't be changed"),
    "replicas": ({"replicas": 3}, "spec.replicas", ONLY_SUSPENDED),
    "processesPerReplica added": ({"processesPerReplica": 2}, "spec.processesPerReplica", ONLY_SUSPENDED),
    "networkIsolation": ({"networkIsolation": "Job"}, "spec.networkIsolation", ONLY_SUSPENDED),
    "the image": ({"template": NEW_TEMPLATE}, "spec.template", ONLY_SUSPENDED),
    "a label of the pods": ({"template": {"metadata": {"labels": {"a": "b"}}}}, "spec.template", ONLY_SUSPENDED),
}

FREE: dict[str, dict[str, Any]] = {
    "nothing": {},
    "cleanupPolicy": {"cleanupPolicy": "All"},
    "failurePolicy": {"failurePolicy": {"maxRestarts": 0}},
    "an empty list of roles": {"roles": []},
    "the rules": {"failurePolicy": {"rules": [{"action": "FailJob", "onReasons": ["OOMKilled"]}]}},
    "successPolicy": {"successPolicy": {"roles": ["worker"]}},
    "the deadlines": {"startupDeadlineSeconds": 60, "activeDeadlineSeconds": 60, "ttlSecondsAfterFinished": 0},
    "suspend": {"suspend": True},
    "suspend together with the replicas": {"suspend": True, "replicas": 3},
}

STATUS = JobStatus(
    phase=Phase.FAILED,
    reason=Reason.NON_ZERO_EXIT,
    observed_generation=1,
    conditions=(
        Condition(
            type=ConditionType.FAILED,
            status=ConditionStatus.TRUE,
            reason=Reason.NON_ZERO_EXIT,
            message="worker 1 ended with exit code 3",
            last_transition_time="2030-01-02T03:04:05Z",
        ),
    ),
    attempt=2,
    restarts=2,
    restarts_since_progress=1,
    disruptions=1,
    start_time="2030-01-02T03:00:00Z",
    running_time="2030-01-02T03:01:00Z",
    completion_time="2030-01-02T03:04:05Z",
    replicas=2,
    ready_replicas=1,
    ready="1/2",
    selector="dtj.dev/job-name=digits,dtj.dev/role=worker",
    roles=(RoleStatus(name="worker", replicas=2, running=1, failed=1),),
    progress=ProgressStatus(
        step=450,
        total_steps=1_000,
        percent=45,
        steps_per_second=36.1,
        eta_seconds=4_320,
        metrics=({"name": "loss", "value": 0.5},),
        completed="45%",
        eta="1h12m",
        rate="36.1/s",
    ),
    last_failure=LastFailure(
        attempt=2,
        time="2030-01-02T03:04:05Z",
        failure_class=FailureClass.APPLICATION,
        reason=Reason.NON_ZERO_EXIT,
        message="worker 1 ended with exit code 3",
        role="worker",
        index=1,
        rank=1,
        pod="digits-worker-1-r2",
        node="node-2",
        container="trainer",
        exit_code=3,
        last_lines=("Traceback", "ValueError: no data"),
        action="FailJob",
    ),
)


@pytest.fixture
def job(resource: Resource) -> Iterator[str]:
    yield from _existing(resource, sample("minimal"))


@pytest.fixture
def suspended_job(resource: Resource) -> Iterator[str]:
    yield from _existing(resource, changed(sample("minimal"), {"spec.suspend": True}))


def _existing(resource: Resource, job: dict[str, Any]) -> Iterator[str]:
    name = f"job-{uuid4().hex[:8]}"
    answer = resource.create(changed(job, {"metadata.name": name}))
    assert answer.accepted, answer.message
    yield name
    resource.client.request("DELETE", f"{resource.path}/{name}")


def write_status(resource: Resource, job: str) -> None:
    answer = resource.patch(job, {"status": STATUS.to_wire()}, subresource="status")
    assert answer.accepted, answer.message


@pytest.mark.parametrize(("change", "field", "words"), FIXED.values(), ids=FIXED.keys())
def test_change_of_a_job_that_may_run_is_refused(
    resource: Resource, job: str, change: dict[str, Any], field: str, words: str
) -> None:
    answer = resource.patch(job, {"spec": change}, dry_run=True)

    assert [at for at, message in answer.refusals if words in message] == [field], answer.message


@pytest.mark.parametrize("change", FREE.values(), ids=FREE.keys())
def test_change_that_touches_no_pod_is_accepted(resource: Resource, job: str, change: dict[str, Any]) -> None:
    answer = resource.patch(job, {"spec": change}, dry_run=True)

    assert answer.accepted, answer.message


@pytest.mark.parametrize(
    "change",
    [
        {"replicas": 3},
        {"processesPerReplica": 4},
        {"networkIsolation": "Job"},
        {"template": NEW_TEMPLATE},
        {"roles": [{"name": "master", "template": NEW_TEMPLATE}]},
        {"replicas": 3, "suspend": False},
    ],
    ids="+".join,
)
def test_a_suspended_job_may_change_its_pods(resource: Resource, suspended_job: str, change: dict[str, Any]) -> None:
    answer = resource.patch(suspended_job, {"spec": change}, dry_run=True)

    assert answer.accepted, answer.message


def test_a_suspended_job_keeps_its_framework(resource: Resource, suspended_job: str) -> None:
    answer = resource.patch(suspended_job, {"spec": {"framework": "Custom"}}, dry_run=True)

    assert [field for field, _ in answer.refusals] == ["spec.framework"]


def test_a_running_job_can_not_be_scaled(resource: Resource, job: str) -> None:
    done = resource.client.kubectl("scale", f"dtj/{job}", "-n", resource.namespace, "--replicas=3")

    assert done.returncode != 0
    assert ONLY_SUSPENDED in done.stderr


def test_a_suspended_job_can_be_scaled(resource: Resource, suspended_job: str) -> None:
    resource.client.kubectl_output("scale", f"dtj/{suspended_job}", "-n", resource.namespace, "--replicas=3")

    assert resource.read(suspended_job)["spec"]["replicas"] == 3


def test_the_whole_status_is_stored_as_written(resource: Resource, job: str) -> None:
    write_status(resource, job)

    stored = resource.read(job)["status"]

    assert stored == STATUS.to_wire()
    assert JobStatus.model_validate(stored) == STATUS


def test_status_is_written_through_its_subresource_only(resource: Resource, job: str) -> None:
    resource.patch(job, {"status": {"phase": "Running"}})

    assert "status" not in resource.read(job)


def test_the_status_subresource_leaves_the_spec_alone(resource: Resource, job: str) -> None:
    resource.patch(job, {"spec": {"cleanupPolicy": "All"}, "status": {"phase": "Running"}}, subresource="status")

    assert resource.read(job)["spec"]["cleanupPolicy"] == "Running"


def test_scale_shows_the_workers(resource: Resource, job: str) -> None:
    write_status(resource, job)

    scale = resource.client.request("GET", f"{resource.path}/{job}/scale").body

    assert scale["spec"]["replicas"] == 2
    assert scale["status"] == {"replicas": 2, "selector": STATUS.selector}


def test_columns_say_how_the_job_is(resource: Resource, job: str) -> None:
    write_status(resource, job)

    heading, row = _table(resource, job)

    assert heading == ["NAME", "PHASE", "READY", "PROGRESS", "ETA", "RESTARTS", "REASON", "AGE"]
    assert row[:-1] == [job, "Failed", "1/2", "45%", "1h12m", "2", "NonZeroExit"]


def test_wide_columns_say_more(resource: Resource, job: str) -> None:
    write_status(resource, job)

    heading, row = _table(resource, job, "-o", "wide")

    assert heading[-4:] == ["FRAMEWORK", "STEP", "RATE", "ATTEMPT"]
    assert row[-4:] == ["PyTorch", "450", "36.1/s", "2"]


def _table(resource: Resource, job: str, *options: str) -> list[list[str]]:
    text = resource.client.kubectl_output("get", "dtj", job, "-n", resource.namespace, *options)
    return [line.split() for line in text.splitlines()]
