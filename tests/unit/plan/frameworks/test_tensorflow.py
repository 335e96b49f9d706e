"""TensorFlow's wiring: every pod knows the whole cluster and its own task."""

import json
from typing import Any

from dtj.api import environment
from tests.builders import JobBuilder, a_job
from tests.unit.plan.frameworks.wired import variables

JOB = a_job().framework("TensorFlow")


def config(job: JobBuilder, index: int = 0, *, role: str = "worker", attempt: int = 0) -> Any:  # noqa: ANN401 - JSON
    return json.loads(variables(job, index, role=role, attempt=attempt)[environment.TF_CONFIG])


def test_the_second_of_two_workers() -> None:
    assert config(JOB.replicas(2), 1) == {
        "cluster": {"worker": ["digits-worker-0.digits-workers:2222", "digits-worker-1.digits-workers:2222"]},
        "task": {"type": "worker", "index": 1},
    }


def test_chief_and_parameter_servers() -> None:
    job = JOB.role("chief").role("ps", 2)

    assert config(job, 1, role="ps") == {
        "cluster": {
            "chief": ["digits-chief-0.digits-workers:2222"],
            "ps": ["digits-ps-0.digits-workers:2222", "digits-ps-1.digits-workers:2222"],
            "worker": ["digits-worker-0.digits-workers:2222"],
        },
        "task": {"type": "ps", "index": 1},
    }


def test_an_evaluator_has_a_task_and_no_place_in_the_cluster() -> None:
    job = JOB.replicas(2).role("evaluator")

    assert config(job, role="evaluator")["task"] == {"type": "evaluator", "index": 0}
    assert config(job, role="evaluator")["cluster"].keys() == {"worker"}
    assert config(job)["cluster"].keys() == {"worker"}


def test_a_worker_alone_trains_as_one_process() -> None:
    assert environment.TF_CONFIG not in variables(JOB)
    assert environment.TF_CONFIG not in variables(JOB.role("evaluator"))
    assert config(JOB.role("evaluator"), role="evaluator")["task"]["type"] == "evaluator"


def test_each_attempt_has_addresses_of_its_own() -> None:
    assert config(JOB.replicas(2), attempt=3)["cluster"]["worker"][1] == "digits-worker-1-r3.digits-workers:2222"
