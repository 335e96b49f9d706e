"""What an agent is told, and what keeps others away from it."""

from typing import Any

import pytest

from dtj.plan.agent_access import agent_token
from tests.builders import JOB_UID, JobBuilder, a_job
from tests.unit.plan.frameworks.wired import variables

COMMAND = ["python", "train.py"]
JOB = a_job().replicas(2).container(command=COMMAND)


def told(job: JobBuilder, attempt: int = 0) -> dict[str, str]:
    names = ("DTJ_AGENT_", "DTJ_LOG_", "DTJ_TERMINATION_")
    return {name: value for name, value in variables(job, 1, attempt=attempt).items() if name.startswith(names)}


def test_a_port_and_a_token_of_the_attempt() -> None:
    assert told(JOB) == {"DTJ_AGENT_PORT": "29480", "DTJ_AGENT_TOKEN": agent_token(JOB_UID, 0)}
    assert told(JOB, 1)["DTJ_AGENT_TOKEN"] == agent_token(JOB_UID, 1) != agent_token(JOB_UID, 0)


MORE: dict[str, tuple[JobBuilder, dict[str, str]]] = {
    "a pattern": (JOB.spec(progress={"logPattern": "(?P<step>.)"}), {"DTJ_LOG_PATTERN": "(?P<step>.)"}),
    "another file for the last words": (
        JOB.container(terminationMessagePath="/tmp/last"),
        {"DTJ_TERMINATION_LOG": "/tmp/last"},
    ),
}


@pytest.mark.parametrize(("job", "more"), MORE.values(), ids=MORE.keys())
def test_what_else_the_job_says_of_it(job: JobBuilder, more: dict[str, Any]) -> None:
    assert told(job).items() >= more.items()


@pytest.mark.parametrize(
    "job", [JOB.spec(agent={"mode": "Disabled"}), a_job().replicas(2)], ids=["not wanted", "no command"]
)
def test_nothing_without_an_agent(job: JobBuilder) -> None:
    assert told(job) == {}
