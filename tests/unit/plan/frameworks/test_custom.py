"""Custom: the variables that all frameworks get, and no other."""

from tests.builders import JOB_UID, NAMESPACE, a_job
from tests.unit.plan.frameworks.wired import variables


def test_the_common_variables_only() -> None:
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
        "PYTHONUNBUFFERED": "1",
    }


def test_further_roles_are_told_which_they_are() -> None:
    told = variables(a_job().framework("Custom").role("actor", 2), 1, role="actor")

    assert (told["DTJ_ROLE"], told["DTJ_REPLICA_INDEX"], told["DTJ_NODE_RANK"]) == ("actor", "1", "1")
