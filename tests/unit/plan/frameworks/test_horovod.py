"""Horovod's wiring: gloo finds its peers without ssh, MPI or ``horovodrun``."""

from dtj.api import environment
from tests.builders import JobBuilder, a_job
from tests.unit.plan.frameworks.wired import variables

JOB = a_job().framework("Horovod").replicas(3).container(command=["python", "train.py"])


def told(job: JobBuilder, index: int = 0, attempt: int = 0) -> dict[str, str]:
    return {name: value for name, value in variables(job, index, attempt=attempt).items() if name.startswith("HOROVOD")}


def test_the_second_of_three_workers() -> None:
    assert told(JOB, 1) == {
        "HOROVOD_RANK": "1",
        "HOROVOD_SIZE": "3",
        "HOROVOD_LOCAL_RANK": "0",
        "HOROVOD_LOCAL_SIZE": "1",
        "HOROVOD_CROSS_RANK": "1",
        "HOROVOD_CROSS_SIZE": "3",
        "HOROVOD_HOSTNAME": "digits-worker-1.digits-workers",
        "HOROVOD_CONTROLLER": "gloo",
        "HOROVOD_CPU_OPERATIONS": "gloo",
        "HOROVOD_GLOO_RENDEZVOUS_ADDR": "digits-worker-0.digits-workers",
        "HOROVOD_GLOO_RENDEZVOUS_PORT": "29500",
    }


def test_several_processes_in_a_pod_get_their_ranks_from_the_agent() -> None:
    several = told(JOB.spec(processesPerReplica=2), 1)

    assert (several["HOROVOD_SIZE"], several["HOROVOD_LOCAL_SIZE"], several["HOROVOD_CROSS_SIZE"]) == ("6", "2", "3")
    assert not {"HOROVOD_RANK", "HOROVOD_LOCAL_RANK"} & several.keys()


def test_the_first_knows_all_hosts_because_it_serves_the_rendezvous() -> None:
    assert variables(JOB, 0)["DTJ_HOSTS"].split(",") == [f"digits-worker-{i}.digits-workers" for i in range(3)]
    assert "DTJ_HOSTS" not in variables(JOB, 1)


def test_an_attempt_has_its_own_addresses() -> None:
    later = told(JOB, 1, attempt=2)

    assert later["HOROVOD_HOSTNAME"] == "digits-worker-1-r2.digits-workers"
    assert later["HOROVOD_GLOO_RENDEZVOUS_ADDR"] == "digits-worker-0-r2.digits-workers"


def test_all_that_gives_a_process_its_place_is_reserved() -> None:
    switches = {"HOROVOD_CPU_OPERATIONS"}

    assert told(JOB).keys() - switches == set(environment.RESERVED_BY_FRAMEWORK["Horovod"])
