"""Which changes of a spec make another gang."""

from typing import Any

import pytest

from dtj.plan.gang_hash import FORMULA, gang_hash
from tests.builders import JobBuilder, a_job

ENV: list[dict[str, Any]] = [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]
PORTS: list[dict[str, Any]] = [{"containerPort": 1, "protocol": "TCP"}, {"containerPort": 2, "protocol": "TCP"}]
JOB = a_job().container(env=ENV, ports=PORTS, command=["python", "train.py"]).sidecar("proxy").role("master")
ROLES = a_job().framework("Custom").role("one").role("two")


def of(job: JobBuilder) -> str:
    return gang_hash(job.build().spec)


def reversed_roles() -> JobBuilder:
    return a_job().framework("Custom").role("two").role("one")


def reversed_containers() -> JobBuilder:
    containers = JOB.content["spec"]["template"]["spec"]["containers"]
    return JOB.pod(containers=containers[::-1])


SAME: dict[str, tuple[JobBuilder, JobBuilder]] = {
    "the same": (JOB, JOB),
    "environment in another order": (JOB, JOB.container(env=ENV[::-1])),
    "ports in another order": (JOB, JOB.container(ports=PORTS[::-1])),
    "containers in another order": (JOB, reversed_containers()),
    "roles in another order": (ROLES, reversed_roles()),
    "policies": (JOB, JOB.spec(ttlSecondsAfterFinished=3, cleanupPolicy="All", failurePolicy={"maxRestarts": 9})),
    "no isolation, as by default": (JOB, JOB.spec(networkIsolation="None")),
    "suspended": (JOB, JOB.spec(suspend=True)),
}
OTHERS: dict[str, JobBuilder] = {
    "a command in another order": JOB.container(command=["train.py", "python"]),
    "another image": JOB.container(image="trainer:2"),
    "another value": JOB.container(env=[ENV[0], {"name": "B", "value": "3"}]),
    "another count": JOB.replicas(2),
    "processes": JOB.spec(processesPerReplica=1),
    "isolation": JOB.spec(networkIsolation="Job"),
    "no role": JOB.spec(roles=[]),
    "metadata": JOB.pod_metadata(labels={"team": "a"}),
}


@pytest.mark.parametrize(("before", "after"), SAME.values(), ids=SAME.keys())
def test_the_api_server_takes_these_for_equal_and_so_do_we(before: JobBuilder, after: JobBuilder) -> None:
    assert of(before) == of(after)


@pytest.mark.parametrize("changed", OTHERS.values(), ids=OTHERS.keys())
def test_another_gang(changed: JobBuilder) -> None:
    assert of(changed) != of(JOB)


def test_an_upgrade_of_the_operator_is_no_change_of_a_job() -> None:
    assert of(a_job()) == "1:fd077652e0694d7a", "jobs that run have this digest in their status"


def test_the_digest_names_its_formula() -> None:
    assert of(JOB).startswith(FORMULA)
    assert len(of(JOB)) <= 32
