"""Custom: the variables that all frameworks get, and where the others are."""

from tests.builders import JOB_UID, NAMESPACE, a_job
from tests.unit.plan.frameworks.wired import variables


def test_any_but_the_first_is_told_where_the_first_is() -> None:
    job = a_job().framework("Custom").replicas(3).spec(processesPerReplica=2)

    assert variables(job, 2, attempt=1) == {
        "DTJ_JOB_NAME": "digits",
        "DTJ_JOB_UID": JOB_UID,
        "DTJ_NAMESPACE": NAMESPACE,
        "DTJ_ROLE": "worker",
        "DTJ_REPLICA_INDEX": "2",
        "DTJ_ATTEMPT": "1",
        "DTJ_NODE_RANK": "2",
        "DTJ_NNODES": "3",
        "DTJ_PROCESSES_PER_REPLICA": "2",
        "DTJ_RANK_ZERO_HOST": "digits-worker-0-r1.digits-workers",
        "PYTHONUNBUFFERED": "1",
    }


def test_the_first_is_told_where_all_are_in_the_order_of_their_ranks() -> None:
    job = a_job().framework("Custom").replicas(2).role("actor").role("launcher").role("evaluator")

    told = variables(job, role="launcher")
    assert told["DTJ_RANK_ZERO_HOST"] == "digits-launcher-0.digits-workers"
    assert told["DTJ_HOSTS"].split(",") == [
        f"digits-{pod}.digits-workers" for pod in ("launcher-0", "actor-0", "worker-0", "worker-1")
    ]
    assert "DTJ_HOSTS" not in variables(job, 0)


def test_further_roles_are_told_which_they_are() -> None:
    told = variables(a_job().framework("Custom").role("actor", 2), 1, role="actor")

    assert (told["DTJ_ROLE"], told["DTJ_REPLICA_INDEX"], told["DTJ_NODE_RANK"]) == ("actor", "1", "1")
