"""Whose success completes a job."""

import pytest

from tests.builders import JobBuilder, a_job, a_pod
from tests.unit.lifecycle.decided import seen, text

TENSORFLOW = a_job().framework("TensorFlow")
Done = tuple[str, ...]
POLICIES: dict[str, tuple[JobBuilder, Done, bool]] = {
    "all workers": (a_job().replicas(2), ("worker-0", "worker-1"), True),
    "one worker of two": (a_job().replicas(2), ("worker-0",), False),
    "workers and master": (a_job().role("master"), ("master-0", "worker-0"), True),
    "workers without their master": (a_job().role("master"), ("worker-0",), False),
    "master without its workers": (a_job().role("master"), ("master-0",), False),
    "the master alone is asked for": (
        a_job().role("master").spec(successPolicy={"roles": ["master"]}),
        ("master-0",),
        True,
    ),
    "chief and workers; parameter servers run for ever": (
        TENSORFLOW.role("chief").role("ps", 2).role("evaluator"),
        ("chief-0", "worker-0"),
        True,
    ),
    "the evaluator is asked for": (
        TENSORFLOW.role("evaluator").spec(successPolicy={"roles": ["evaluator", "worker"]}),
        ("worker-0",),
        False,
    ),
    "roles of any name do not count unless asked for": (
        a_job().framework("Custom").role("server"),
        ("worker-0",),
        True,
    ),
    "they are asked for": (
        a_job().framework("Custom").role("server", 2).spec(successPolicy={"roles": ["server"]}),
        ("server-0", "server-1"),
        True,
    ),
}


@pytest.mark.parametrize(("job", "done", "complete"), POLICIES.values(), ids=POLICIES.keys())
def test_success(job: JobBuilder, done: Done, complete: bool) -> None:
    begun = job.begun()
    roles = [("worker", job.build().spec.replicas)] + [
        (role.name, role.replicas) for role in job.build().spec.roles or ()
    ]
    pods = {
        f"{role}-{index}": a_pod(begun.build(), index, role=role).running()
        for role, replicas in roles
        for index in range(replicas)
    }
    running = seen(begun, *pods.values())
    now = [pod.succeeded() if name in done else pod for name, pod in pods.items()]

    assert text(running, *now)[0].startswith("status: Succeeded") is complete


def test_a_failure_beside_a_success_that_completes_the_job_does_not_matter() -> None:
    job = a_job().role("master").spec(successPolicy={"roles": ["master"]}).begun()
    master, worker = a_pod(job.build(), role="master"), a_pod(job.build())

    assert text(job, master.succeeded(), worker.failed(1))[0].startswith("status: Succeeded")
