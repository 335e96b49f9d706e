"""Roles, slots, node ranks and world size."""

from typing import Any

import pytest

from dtj.plan.topology import Slot, Topology, processes_per_replica, topology_of, trainer_container
from tests.builders import JobBuilder, a_job

GPUS = {"limits": {"nvidia.com/gpu": 4}}


def topology(job: JobBuilder) -> Topology:
    return topology_of(job.build().spec)


def test_workers_alone() -> None:
    found = topology(a_job().replicas(3))

    assert found.slots == (Slot("worker", 0), Slot("worker", 1), Slot("worker", 2))
    assert list(found.node_ranks.values()) == [0, 1, 2]
    assert (found.nnodes, found.world_size, found.rank_zero) == (3, 3, Slot("worker", 0))


@pytest.mark.parametrize("leading", ["master", "chief", "launcher"])
def test_the_leading_role_has_rank_zero_wherever_it_is_written(leading: str) -> None:
    found = topology(a_job().replicas(2).role("ps").role(leading))

    assert found.rank_zero == Slot(leading, 0)
    assert found.node_ranks == {Slot(leading, 0): 0, Slot("worker", 0): 1, Slot("worker", 1): 2}


@pytest.mark.parametrize("outside", ["ps", "evaluator"])
def test_a_role_outside_the_gang_has_slots_but_no_rank(outside: str) -> None:
    found = topology(a_job().replicas(2).role(outside, 2))

    assert Slot(outside, 1) in found.slots
    assert Slot(outside, 1) not in found.node_ranks
    assert found.nnodes == 2


def test_other_roles_keep_their_order_and_come_before_the_workers() -> None:
    found = topology(a_job().role("b").role("a", 2))

    assert [(slot.role, slot.index) for slot in found.node_ranks] == [("b", 0), ("a", 0), ("a", 1), ("worker", 0)]


def test_a_group_by_its_role() -> None:
    assert topology(a_job().replicas(2).role("ps", 3)).group("ps").replicas == 3


PROCESSES: dict[str, tuple[JobBuilder, int]] = {
    "nothing said": (a_job(), 1),
    "accelerators of the trainer": (a_job().container(resources=GPUS), 4),
    "slices count one by one": (
        a_job().container(resources={"limits": {"nvidia.com/mig-1g.5gb": 2, "nvidia.com/mig-2g.10gb": 1}}),
        3,
    ),
    "JAX and TensorFlow use them all from one process": (a_job().framework("JAX").container(resources=GPUS), 1),
    "a number wins over accelerators": (a_job().container(resources=GPUS).spec(processesPerReplica=1), 1),
    "accelerators of a sidecar do not count": (
        a_job().pod(containers=[{"name": "side", "resources": GPUS}, {"name": "trainer"}]),
        1,
    ),
}


@pytest.mark.parametrize(("job", "count"), PROCESSES.values(), ids=PROCESSES.keys())
def test_processes_per_replica(job: JobBuilder, count: int) -> None:
    assert processes_per_replica(job.build().spec) == count


def test_world_size_counts_processes_not_pods() -> None:
    found = topology(a_job().replicas(3).container(resources=GPUS))

    assert (found.nnodes, found.world_size) == (3, 12)


TRAINERS: dict[str, tuple[list[dict[str, Any]], str]] = {
    "the only one": ([{"name": "main"}], "main"),
    "the first": ([{"name": "main"}, {"name": "side"}], "main"),
    "the one of that name, wherever it is": ([{"name": "side"}, {"name": "trainer"}], "trainer"),
}


@pytest.mark.parametrize(("containers", "name"), TRAINERS.values(), ids=TRAINERS.keys())
def test_trainer_container(containers: list[dict[str, Any]], name: str) -> None:
    assert trainer_container({"spec": {"containers": containers}})["name"] == name
