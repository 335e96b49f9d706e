"""PyTorch's wiring: ``python train.py`` and ``torchrun`` both find their peers."""

import pytest

from dtj.api import environment
from tests.builders import JobBuilder, a_job
from tests.unit.plan.frameworks.wired import variables

GPUS = {"limits": {"nvidia.com/gpu": 4}}


def test_the_second_of_three_workers_with_one_process_each() -> None:
    told = variables(a_job().replicas(3), 1)

    assert {name: value for name, value in told.items() if not name.startswith(("DTJ_", "PYTHON"))} == {
        "MASTER_ADDR": "digits-worker-0.digits-workers",
        "MASTER_PORT": "29500",
        "WORLD_SIZE": "3",
        "RANK": "1",
        "NODE_RANK": "1",
        "GROUP_RANK": "1",
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "1",
        "PET_NNODES": "3",
        "PET_NODE_RANK": "1",
        "PET_NPROC_PER_NODE": "1",
        "PET_MASTER_ADDR": "digits-worker-0.digits-workers",
        "PET_MASTER_PORT": "29500",
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1",
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
    }


def test_a_single_worker_is_wired_too() -> None:
    told = variables(a_job())

    assert (told["WORLD_SIZE"], told["RANK"], told["PET_NNODES"]) == ("1", "0", "1")


SEVERAL = {
    "said": a_job().replicas(2).spec(processesPerReplica=4),
    "from the accelerators": a_job().replicas(2).container(resources=GPUS),
}


@pytest.mark.parametrize("job", SEVERAL.values(), ids=SEVERAL.keys())
def test_with_several_processes_in_a_pod_each_gets_its_rank_from_the_launcher(job: JobBuilder) -> None:
    told = variables(job, 1)

    assert (told["WORLD_SIZE"], told["PET_NPROC_PER_NODE"], told["PET_NNODES"]) == ("8", "4", "2")
    assert not {"RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE"} & told.keys()


def test_the_master_role_is_rank_zero() -> None:
    job = a_job().replicas(2).role("master")

    assert variables(job, role="master")["RANK"] == "0"
    assert variables(job, 0)["RANK"] == "1"
    assert variables(job, 1)["MASTER_ADDR"] == "digits-master-0.digits-workers"


def test_a_role_outside_the_gang_gets_no_rank() -> None:
    told = variables(a_job().role("evaluator"), role="evaluator")

    assert not set(environment.RESERVED_BY_FRAMEWORK["PyTorch"]) & told.keys()
    assert "DTJ_NODE_RANK" not in told
    assert told["DTJ_NNODES"] == "1"


def test_an_attempt_has_its_own_addresses() -> None:
    assert variables(a_job(), attempt=3)["MASTER_ADDR"] == "digits-worker-0-r3.digits-workers"


def test_all_that_gives_a_process_its_place_is_reserved() -> None:
    place = variables(a_job()).keys() - {"PYTHONUNBUFFERED"}
    switches = {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE"}
    ours = {name for name in place if name.startswith("DTJ_")}

    assert place - ours - switches == set(environment.RESERVED_BY_FRAMEWORK["PyTorch"])
