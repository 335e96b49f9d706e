"""JAX's wiring: the three arguments of ``jax.distributed.initialize``."""

from dtj.api import environment
from tests.builders import JobBuilder, a_job
from tests.unit.plan.frameworks.wired import variables

JOB = a_job().framework("JAX").replicas(2)


def told(job: JobBuilder, index: int = 0, attempt: int = 0) -> dict[str, str]:
    return {name: value for name, value in variables(job, index, attempt=attempt).items() if name.startswith("JAX_")}


def test_the_second_of_two_workers() -> None:
    assert told(JOB, 1) == {
        environment.JAX_COORDINATOR_ADDRESS: "digits-worker-0.digits-workers:29500",
        environment.JAX_NUM_PROCESSES: "2",
        environment.JAX_PROCESS_ID: "1",
    }


def test_several_processes_in_a_pod_get_their_numbers_from_what_starts_them() -> None:
    several = told(JOB.spec(processesPerReplica=4).container(command=["sh", "start.sh"]))

    assert several[environment.JAX_NUM_PROCESSES] == "8"
    assert environment.JAX_PROCESS_ID not in several


def test_each_attempt_has_addresses_of_its_own() -> None:
    assert told(JOB, attempt=2)[environment.JAX_COORDINATOR_ADDRESS] == "digits-worker-0-r2.digits-workers:29500"
