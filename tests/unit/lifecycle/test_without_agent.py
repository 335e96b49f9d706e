"""Images without a shell: the job goes on without the agent, and loses nothing by it."""

from datetime import timedelta

import pytest

from dtj.api.conditions import ConditionType
from dtj.api.reasons import Reason
from dtj.api.spec import RuleAction
from dtj.api.status import JobStatus, Phase
from dtj.lifecycle.decision import CreateConfigMap, CreatePod, Decision
from dtj.plan.topology import trainer_container
from tests.builders import NAMESPACE, JobBuilder, PodBuilder, a_job, ago
from tests.unit.lifecycle.decided import decided, seen, worker

NO_SHELL = 'unable to start container process: exec: "/bin/sh": stat /bin/sh: no such file or directory'
NO_COMMAND = 'unable to start container process: exec: "torchrunn": executable file not found in $PATH'
COMMAND = ["python", "train.py"]
JOB = a_job().replicas(2).container(command=COMMAND).begun()


def cannot_start(message: str = NO_SHELL, index: int = 0) -> PodBuilder:
    return worker(index).failed(128, reason="StartError", lines=message)


def status_of(decision: Decision) -> JobStatus:
    assert decision.status is not None
    return decision.status


def commands(decision: Decision) -> list[list[str]]:
    return [trainer_container(write.manifest)["command"] for write in decision.writes if isinstance(write, CreatePod)]


def agents(decision: Decision) -> list[CreateConfigMap]:
    return [write for write in decision.writes if isinstance(write, CreateConfigMap)]


def test_the_next_attempt_runs_the_bare_command_and_nothing_is_counted() -> None:
    _, decision = decided(JOB, cannot_start(), worker(1).running())

    status = status_of(decision)
    assert (status.attempt, status.restarts, status.restarts_since_progress, status.disruptions) == (1, 0, 0, 0)
    assert (status.phase, status.reason) == (Phase.RESTARTING, Reason.NO_SHELL)
    assert commands(decision) == [COMMAND, COMMAND]
    assert agents(decision) == []
    without = status.condition(ConditionType.WITHOUT_AGENT)
    assert without is not None
    assert (without.reason, without.message) == (
        Reason.NO_SHELL,
        "an image has no /bin/sh: the commands run without the agent",
    )
    assert status.last_failure is not None
    assert status.last_failure.action is RuleAction.RESTART_JOB_AND_IGNORE


def test_the_condition_stays_while_the_job_runs() -> None:
    running = seen(seen(JOB, cannot_start()), worker(0, attempt=1).running(), worker(1, attempt=1).running())

    assert {each.type for each in running.build().status.conditions if each.holds} == {
        ConditionType.RUNNING,
        ConditionType.WITHOUT_AGENT,
    }


def test_another_image_is_tried_with_the_agent_again() -> None:
    _, decision = decided(seen(JOB, cannot_start()).container(image="another:1"))

    assert status_of(decision).condition(ConditionType.WITHOUT_AGENT) is None
    assert all(command[0] == "/bin/sh" for command in commands(decision))
    assert len(agents(decision)) == 1


def test_the_same_image_has_no_shell_after_a_suspension_either() -> None:
    bare = seen(JOB, cannot_start())
    suspended = seen(bare.spec(suspend=True))

    _, decision = decided(suspended.spec(suspend=False))

    assert commands(decision) == [COMMAND, COMMAND]


SEVERAL: dict[str, JobBuilder] = {
    "several processes": JOB.spec(processesPerReplica=2),
    "Horovod": JOB.framework("Horovod"),
}


@pytest.mark.parametrize("job", SEVERAL.values(), ids=SEVERAL.keys())
def test_a_job_that_needs_the_agent_fails_with_a_sentence(job: JobBuilder) -> None:
    begun = job.begun()

    _, decision = decided(begun, cannot_start(), worker(1).running())

    status = status_of(decision)
    assert (status.phase, status.reason, status.attempt) == (Phase.FAILED, Reason.NO_SHELL, 0)
    failed = status.condition(ConditionType.FAILED)
    assert failed is not None
    assert "without the agent the processes of this job cannot be started" in failed.message
    assert commands(decision) == []


OTHERS: dict[str, tuple[JobBuilder, PodBuilder]] = {
    "a command that does not exist": (JOB, cannot_start(NO_COMMAND)),
    "a shell of the user's own": (JOB.spec(agent={"mode": "Disabled"}), cannot_start()),
    "the agent was not there anyhow": (seen(JOB, cannot_start()), worker(0, attempt=1).failed(128, lines=NO_SHELL)),
    "a program that speaks of a shell": (JOB, worker(0).failed(1, lines=NO_SHELL)),
}


@pytest.mark.parametrize(("job", "pod"), OTHERS.values(), ids=OTHERS.keys())
def test_other_failures_count(job: JobBuilder, pod: PodBuilder) -> None:
    _, decision = decided(job, pod, worker(1).running())

    assert status_of(decision).restarts == 1


def test_the_agent_comes_with_the_pods_that_need_it() -> None:
    _, decision = decided(JOB)

    (agent,) = agents(decision)
    assert agent.manifest["metadata"]["namespace"] == NAMESPACE
    assert len(commands(decision)) == 2


WAITING: dict[str, tuple[int, PodBuilder, bool, int | None]] = {
    "begun half a minute ago": (30, worker(1), False, 30),
    "begun a minute ago": (60, worker(1), True, 60),
    "begun long ago": (600, worker(1), True, 60),
    "no node for it": (600, worker(1).unschedulable(), False, None),
    "all run": (600, worker(1).running(), False, None),
}


@pytest.mark.parametrize(("age", "second", "brought", "again"), WAITING.values(), ids=WAITING.keys())
def test_pods_that_do_not_start_on_their_node_may_miss_an_agent_that_somebody_deleted(
    age: int, second: PodBuilder, brought: bool, again: int | None
) -> None:
    job = JOB.status(JOB.build().status.model_copy(update={"attempt_time": ago(age)}))

    _, decision = decided(job, worker(0).running(), second)

    assert [agent.may_be_gone for agent in agents(decision)] == [True] * brought
    assert not decision.changes_job
    assert decision.requeue_after == (None if again is None else timedelta(seconds=again))


def test_a_job_that_needs_no_agent_gets_none() -> None:
    _, decision = decided(a_job().replicas(2).begun())

    assert len(decision.writes) == 2
    assert agents(decision) == []
