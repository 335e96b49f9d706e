"""Images in which the agent cannot start: their jobs go on without it.

An image without Python is found out inside the container, and the bare command started there at once. One without a
shell is found out only by a container that cannot start, which ends the attempt.
"""

from dtj.api.conditions import ConditionType
from dtj.api.job import DistributedTrainingJob
from dtj.api.reasons import Reason
from dtj.api.spec import ConditionStatus, RuleAction
from dtj.api.status import Condition, JobStatus
from dtj.lifecycle.failure import Candidate
from dtj.lifecycle.look import Look
from dtj.lifecycle.restart_policy import Verdict, attempts_are_used_up
from dtj.plan.launch import SHELL, needs_agent, uses_agent
from dtj.plan.topology import Slot, Topology

NO_SHELL_MESSAGE = f"an image has no {SHELL}: the commands run without the agent"
NO_WAY_MESSAGE = (
    f"an image has no {SHELL}, which the agent needs, and without the agent the processes of this job cannot be "
    "started: use another image, or with PyTorch torchrun and agent.mode Disabled"
)


def lacks_shell(cause: Candidate, job: DistributedTrainingJob, topology: Topology) -> bool:
    """Whether it was the agent's shell that could not be started, and not something of the user's."""
    if cause.reason is not Reason.CONTAINER_CANNOT_RUN or cause.ended is None or cause.container != cause.pod.trainer:
        return False
    if Slot(cause.pod.role, cause.pod.index) not in topology.slots or attempts_are_used_up(job.status):
        return False
    return SHELL in cause.ended.message and uses_agent(job, topology.group(cause.pod.role).template)


def bare_commands_do(job: DistributedTrainingJob, topology: Topology) -> bool:
    return not any(needs_agent(job.spec, group) for group in topology.groups)


def uncounted(status: JobStatus) -> Verdict:
    """The next attempt begins at once, and no counter moves: nobody did anything wrong."""
    return Verdict(
        RuleAction.RESTART_JOB_AND_IGNORE, status.restarts, status.restarts_since_progress, status.disruptions
    )


def without_agent(look: Look) -> JobStatus:
    """The status of a job whose next attempts do without the agent."""
    condition = Condition(
        type=ConditionType.WITHOUT_AGENT,
        status=ConditionStatus.TRUE,
        reason=Reason.NO_SHELL,
        message=NO_SHELL_MESSAGE,
        last_transition_time=look.now,
        observed_generation=look.job.metadata.generation,
    )
    return look.status.model_copy(update={"conditions": (*look.status.conditions, condition)})


def with_agent_again(status: JobStatus) -> JobStatus:
    """The status of a job whose image may be another one now."""
    kept = tuple(condition for condition in status.conditions if condition.type is not ConditionType.WITHOUT_AGENT)
    return status.model_copy(update={"conditions": kept})
