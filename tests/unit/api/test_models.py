"""The models as Python values and as JSON on the wire."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import jsonschema
import pytest
from pydantic import ValidationError

from dtj.api import crd, environment, names, rules
from dtj.api.conditions import ConditionType
from dtj.api.job import DistributedTrainingJob
from dtj.api.reasons import Reason
from dtj.api.spec import ConditionStatus, FailurePolicy, Framework, JobSpec, Role
from dtj.api.status import Condition, FailureClass, JobStatus, LastFailure, Phase, ProgressStatus, RoleStatus

NOON = datetime(2030, 1, 2, 12, 0, 0, tzinfo=UTC)
MINIMAL: dict[str, Any] = {"framework": "PyTorch", "template": {"spec": {"containers": [{"name": "trainer"}]}}}
FULL_STATUS = JobStatus(
    phase=Phase.RESTARTING,
    reason=Reason.OOM_KILLED,
    observed_generation=3,
    conditions=(
        Condition(
            type=ConditionType.RUNNING,
            status=ConditionStatus.FALSE,
            reason=Reason.OOM_KILLED,
            message="out of memory",
            last_transition_time=NOON,
        ),
    ),
    attempt=1,
    restarts=1,
    start_time=NOON,
    replicas=2,
    ready="0/2",
    selector="a=b",
    roles=(RoleStatus(name="worker", replicas=2, failed=2),),
    progress=ProgressStatus(step=7, percent=70, steps_per_second=0.5, report_time=NOON, stale=True),
    last_failure=LastFailure(
        attempt=0,
        time=NOON,
        failure_class=FailureClass.OUT_OF_MEMORY,
        reason=Reason.OOM_KILLED,
        role="worker",
        index=0,
        rank=0,
        signal=9,
        last_lines=("a", "b"),
    ),
)

REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "an unknown field": (MINIMAL | {"worker": 2}, "worker"),
    "an unknown framework": (MINIMAL | {"framework": "Torch"}, "framework"),
    "no worker": (MINIMAL | {"replicas": 0}, "replicas"),
    "too many roles": (MINIMAL | {"roles": [{"name": f"r{i}", "template": {}} for i in range(7)]}, "roles"),
    "no template": ({"framework": "PyTorch"}, "template"),
}


@pytest.mark.parametrize(("spec", "field"), REFUSED.values(), ids=REFUSED.keys())
def test_wrong_spec_is_refused_with_its_field(spec: dict[str, Any], field: str) -> None:
    with pytest.raises(ValidationError) as caught:
        JobSpec.model_validate(spec)

    assert [error["loc"] for error in caught.value.errors()] == [(field,)]


def test_a_spec_has_the_defaults_that_the_definition_has() -> None:
    properties = crd.structural_schema(JobSpec)["properties"]
    written = {name: value["default"] for name, value in properties.items() if "default" in value}

    assert JobSpec.model_validate(MINIMAL).to_wire() == MINIMAL | written


def test_python_names_and_wire_names_build_the_same() -> None:
    assert FailurePolicy(max_restarts=2) == FailurePolicy.model_validate({"maxRestarts": 2})


def test_values_do_not_change() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        FULL_STATUS.attempt = 2  # type: ignore[misc]


def test_status_reads_back_as_it_was_written() -> None:
    assert JobStatus.model_validate(FULL_STATUS.to_wire()) == FULL_STATUS


@pytest.mark.parametrize("status", [JobStatus(), FULL_STATUS], ids=["new", "full"])
def test_status_fits_the_definition(status: JobStatus) -> None:
    jsonschema.validate(status.to_wire(), crd.structural_schema(JobStatus, defaults=False))


def test_what_is_not_set_is_not_written() -> None:
    assert "phase" not in JobStatus().to_wire()


def test_the_class_of_a_failure_has_a_name_that_python_allows() -> None:
    assert FULL_STATUS.to_wire()["lastFailure"]["class"] == "OutOfMemory"


@pytest.mark.parametrize(
    ("time", "wire"),
    [
        (NOON, "2030-01-02T12:00:00Z"),
        (NOON.replace(microsecond=999_999), "2030-01-02T12:00:00Z"),
        (NOON.astimezone(timezone(timedelta(hours=2))), "2030-01-02T12:00:00Z"),
    ],
    ids=["whole second", "part of a second", "another zone"],
)
def test_time_on_the_wire(time: datetime, wire: str) -> None:
    status = JobStatus(start_time=time)

    assert status.to_wire()["startTime"] == wire
    assert JobStatus.model_validate(status.to_wire()) == status


def test_time_without_a_zone_is_refused() -> None:
    with pytest.raises(ValidationError, match="timezone"):
        JobStatus(start_time=datetime(2030, 1, 2))  # noqa: DTZ001


def test_status_of_a_newer_version_can_be_read() -> None:
    newer = FULL_STATUS.to_wire() | {"reason": "SolarFlare", "brandNew": {"field": 1}}

    assert JobStatus.model_validate(newer).reason == "SolarFlare"


def test_known_reason_is_a_reason_again() -> None:
    assert JobStatus.model_validate({"reason": "Evicted"}).reason is Reason.EVICTED


def test_object_as_the_server_sends_it() -> None:
    job = DistributedTrainingJob.model_validate(
        {
            "apiVersion": names.API_VERSION,
            "kind": names.KIND,
            "metadata": {"name": "a", "namespace": "b", "uid": "c", "generation": 1, "managedFields": []},
            "spec": MINIMAL,
        }
    )

    assert (job.metadata.name, job.metadata.namespace, job.metadata.uid) == ("a", "b", "c")
    assert job.status == JobStatus()


def test_every_framework_has_its_roles_and_reserved_variables() -> None:
    assert {*rules.ROLES_BY_FRAMEWORK, "Custom"} == set(Framework)
    assert set(environment.RESERVED_BY_FRAMEWORK) == set(Framework)


@pytest.mark.parametrize("role", [role for roles in rules.ROLES_BY_FRAMEWORK.values() for role in roles])
def test_known_roles_are_valid_names(role: str) -> None:
    assert Role(name=role, template={}).name == role


@pytest.mark.parametrize("word", [*Reason, *ConditionType])
def test_words_fit_the_definition(word: str) -> None:
    jsonschema.validate({"reason": word}, crd.structural_schema(JobStatus, defaults=False))
