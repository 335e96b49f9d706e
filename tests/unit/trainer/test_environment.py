"""The place of a process in its job, as the environment says it."""

from collections.abc import Mapping

import pytest

from dtj_trainer.environment import ProcessRank, from_environment, process_rank

JOB = {
    "DTJ_JOB_NAME": "digits",
    "DTJ_JOB_UID": "0b1c",
    "DTJ_NAMESPACE": "team",
    "DTJ_ROLE": "worker",
    "DTJ_REPLICA_INDEX": "1",
    "DTJ_ATTEMPT": "2",
    "DTJ_NODE_RANK": "1",
    "DTJ_NNODES": "3",
    "DTJ_PROCESSES_PER_REPLICA": "1",
}


def without(name: str) -> dict[str, str]:
    return {key: value for key, value in JOB.items() if key != name}


@pytest.mark.parametrize(
    ("environment", "rank", "world_size"),
    [
        pytest.param(JOB, 1, 3, id="one process per pod"),
        pytest.param({**JOB, "DTJ_PROCESSES_PER_REPLICA": "4", "LOCAL_RANK": "3"}, 7, 12, id="the last of four"),
        pytest.param({**JOB, "DTJ_PROCESSES_PER_REPLICA": "4"}, 4, 12, id="what starts the four"),
        pytest.param({**without("DTJ_NODE_RANK"), "DTJ_ROLE": "ps"}, None, 3, id="a role without rank"),
    ],
)
def test_rank_and_world_size(environment: Mapping[str, str], rank: int | None, world_size: int) -> None:
    place = from_environment(environment)
    assert place is not None
    assert (place.rank, place.world_size) == (rank, world_size)


def test_everything_else_is_read() -> None:
    place = from_environment(JOB)
    assert place is not None
    assert (place.job_name, place.job_uid, place.namespace, place.role) == ("digits", "0b1c", "team", "worker")
    assert (place.replica_index, place.attempt, place.node_rank, place.local_rank) == (1, 2, 1, 0)


def test_outside_of_a_job_there_is_no_place() -> None:
    assert from_environment({"RANK": "0"}) is None


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        pytest.param(without("DTJ_ATTEMPT"), "DTJ_ATTEMPT is not set", id="missing"),
        pytest.param({**JOB, "DTJ_ATTEMPT": "two"}, "DTJ_ATTEMPT is 'two'", id="no number"),
        pytest.param({**JOB, "DTJ_NODE_RANK": "-1"}, "DTJ_NODE_RANK is '-1'", id="negative"),
        pytest.param({**JOB, "DTJ_NNODES": "0"}, "DTJ_NNODES is '0': .* at least 1", id="no nodes"),
    ],
)
def test_a_broken_environment_is_named(environment: Mapping[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        from_environment(environment)


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        pytest.param({}, ProcessRank(None, 0), id="nothing is known"),
        pytest.param(JOB, ProcessRank(1, 0), id="one process per pod"),
        pytest.param({"RANK": "7", "LOCAL_RANK": "3"}, ProcessRank(7, 3), id="torchrun"),
        pytest.param({**JOB, "RANK": "7", "LOCAL_RANK": "3"}, ProcessRank(7, 3), id="torchrun in a pod"),
        pytest.param(
            {**JOB, "RANK": "7", "LOCAL_RANK": "3", "DTJ_LOCAL_RANK": "0"}, ProcessRank(7, 3), id="under the agent"
        ),
        pytest.param({"HOROVOD_RANK": "5", "HOROVOD_LOCAL_RANK": "1"}, ProcessRank(5, 1), id="Horovod"),
        pytest.param({**JOB, "JAX_PROCESS_ID": "2", "DTJ_LOCAL_RANK": "1"}, ProcessRank(2, 1), id="JAX"),
        pytest.param(
            {**JOB, "DTJ_PROCESSES_PER_REPLICA": "4", "DTJ_LOCAL_RANK": "2"}, ProcessRank(6, 2), id="the agent's copies"
        ),
        pytest.param({**without("DTJ_NODE_RANK"), "DTJ_ROLE": "ps"}, ProcessRank(None, 0), id="a role without rank"),
        pytest.param({**JOB, "RANK": "first"}, ProcessRank(1, 0), id="a rank that is no number"),
    ],
)
def test_the_rank_that_reports(environment: Mapping[str, str], expected: ProcessRank) -> None:
    assert process_rank(environment) == expected
