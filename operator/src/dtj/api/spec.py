"""``spec``: what a user asks for. The descriptions here are what ``kubectl explain dtj.spec`` prints."""

from enum import StrEnum
from typing import Annotated, Any, Final

from pydantic import AfterValidator, Field, WithJsonSchema

from dtj.api import names
from dtj.api.model import INT32_MAX, POD_TEMPLATE, Value, in_order, map_by, set_of_values
from dtj.api.reasons import FAILURES, Reason

MAX_REPLICAS: Final = 10_000
MAX_PROCESSES_PER_REPLICA: Final = 1_024
MAX_ROLES: Final = 6
MAX_RULES: Final = 20

PodTemplate = Annotated[dict[str, Any], Field(json_schema_extra={POD_TEMPLATE: True})]
"""A PodTemplateSpec as plain JSON."""

RoleName = Annotated[str, Field(min_length=1, max_length=20, pattern=r"^[a-z]([-a-z0-9]*[a-z0-9])?$")]


def _failure(reason: Reason) -> Reason:
    if reason not in FAILURES:
        raise ValueError(f"no attempt ends for this reason; possible are {', '.join(FAILURES)}")
    return reason


FailureReason = Annotated[
    Reason, AfterValidator(_failure), WithJsonSchema({"type": "string", "enum": [str(reason) for reason in FAILURES]})
]


class Framework(StrEnum):
    """Which wiring the pods get."""

    PYTORCH = "PyTorch"
    TENSORFLOW = "TensorFlow"
    HOROVOD = "Horovod"
    JAX = "JAX"
    MPI = "MPI"
    CUSTOM = "Custom"


class CleanupPolicy(StrEnum):
    """What is deleted when a job ends."""

    RUNNING = "Running"
    ALL = "All"
    NONE = "None"


class RuleAction(StrEnum):
    """What a failure leads to."""

    FAIL_JOB = "FailJob"
    RESTART_JOB = "RestartJob"
    RESTART_JOB_AND_IGNORE = "RestartJobAndIgnore"


class ExitCodeOperator(StrEnum):
    """How a rule compares an exit code."""

    IN = "In"
    NOT_IN = "NotIn"


class ConditionStatus(StrEnum):
    """Kubernetes' three truth values."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class NetworkIsolation(StrEnum):
    """Who may open connections to a job's pods."""

    NONE = "None"
    JOB = "Job"


class AgentMode(StrEnum):
    """Whether the trainer command is started through the agent."""

    AUTO = "Auto"
    DISABLED = "Disabled"


class Role(Value):
    """A further group of pods beside the workers."""

    name: RoleName = Field(
        description=(
            "What these pods are to the framework. PyTorch: master. TensorFlow: chief, ps, evaluator. MPI: launcher. "
            "Custom: any name but worker. Horovod and JAX have workers only."
        )
    )
    replicas: int = Field(
        default=1,
        ge=1,
        le=MAX_REPLICAS,
        description="How many pods of this role run. There can be only one chief, one master and one launcher.",
    )
    template: PodTemplate = Field(
        description=(
            "The pod of this role, written as in a Deployment or a Job. The container named trainer (else the first) "
            "runs the training; the others are sidecars."
        )
    )


class ExitCodes(Value):
    """Exit codes that a rule looks for."""

    operator: ExitCodeOperator = Field(description="In: the exit code is one of values. NotIn: it is none of them.")
    values: tuple[Annotated[int, Field(ge=1, le=255)], ...] = Field(
        min_length=1,
        max_length=255,
        description="Exit codes of the trainer container, 1 to 255. A process killed by signal n ends with 128 + n.",
        json_schema_extra=set_of_values(),
    )


class PodConditionPattern(Value):
    """A condition of a pod that a rule looks for."""

    type: str = Field(
        min_length=1,
        max_length=316,
        description="Type of the pod's condition, for example DisruptionTarget.",
    )
    status: ConditionStatus = Field(
        default=ConditionStatus.TRUE, description="Status that the condition must have: True, False or Unknown."
    )


class FailureRule(Value):
    """What to do about one kind of failure."""

    action: RuleAction = Field(
        description=(
            "FailJob: the job fails at once. RestartJob: the whole job starts again, and that counts against "
            "maxRestarts. RestartJobAndIgnore: it starts again and that is not counted."
        )
    )
    on_exit_codes: ExitCodes | None = Field(
        default=None,
        description="The rule applies when the trainer container that failed first ended with such a code.",
    )
    on_reasons: tuple[FailureReason, ...] | None = Field(
        default=None,
        min_length=1,
        max_length=32,
        description=(
            "The rule applies when the reason of the failure, as in status.lastFailure.reason, is one of these."
        ),
        json_schema_extra=set_of_values(),
    )
    on_pod_conditions: tuple[PodConditionPattern, ...] | None = Field(
        default=None,
        min_length=1,
        max_length=20,
        description="The rule applies when the pod that failed first has one of these conditions.",
        json_schema_extra=in_order(),
    )


class FailurePolicy(Value):
    """What happens when a part of the job fails."""

    max_restarts: int = Field(
        default=3,
        ge=0,
        le=INT32_MAX,
        description=(
            "How many times in a row the job is started again without progress between; the next failure ends it. "
            "Progress is a step beyond the furthest so far or, where no steps are told, ten minutes with all pods "
            "running. Disruptions are not counted. Default 3."
        ),
    )
    rules: tuple[FailureRule, ...] | None = Field(
        default=None,
        max_length=MAX_RULES,
        description=(
            "What to do about particular failures; the first rule that matches decides. A failure that none matches "
            "restarts the job and counts against maxRestarts, unless it is a disruption (eviction, preemption, drain, "
            "lost node, pod deleted by somebody) or a start that waited for free capacity only."
        ),
        json_schema_extra=in_order(),
    )


class SuccessPolicy(Value):
    """When the job is complete."""

    roles: tuple[RoleName, ...] = Field(
        min_length=1,
        max_length=MAX_ROLES + 1,
        description=(
            "The roles (worker is one) all of whose pods must succeed. Without this policy: worker, and chief, master "
            "and launcher where the job has them; ps and evaluator never hold a job up."
        ),
        json_schema_extra=set_of_values(),
    )


class Progress(Value):
    """How the job's progress is read and watched."""

    interval_seconds: int = Field(
        default=10, ge=1, le=3_600, description="Seconds between two readings of the progress. Default 10."
    )
    log_pattern: str | None = Field(
        default=None,
        min_length=1,
        max_length=1_024,
        description=(
            "A regular expression (Python's syntax) for lines that the training prints. Its named groups are read: "
            "step, total_steps, epoch, total_epochs; any other name becomes a metric. Only needed where the built-in "
            "patterns (Keras, tqdm, Hugging Face, Lightning, Megatron, torchtitan, Horovod) do not fit."
        ),
    )
    stall_timeout_seconds: int | None = Field(
        default=None,
        ge=10,
        le=INT32_MAX,
        description=(
            "If the training makes no step for so many seconds (three times as many before the first step), the "
            "attempt counts as hung and failed. Without it a hang is never acted upon."
        ),
    )


class Agent(Value):
    """The small program that starts the training inside its container."""

    mode: AgentMode = Field(
        default=AgentMode.AUTO,
        description=(
            "Auto: the command of the trainer container is started through the agent: it starts several processes "
            "where processesPerReplica asks for them, passes signals on, and serves Horovod's rendezvous. It is used "
            "where the container has a command, and the image /bin/sh and Python 3.9 or newer. Disabled: the command "
            "runs untouched. Default Auto."
        ),
    )


class JobSpec(Value):
    """The wish: which framework, how many workers, what they run, and what happens at the end or at a failure."""

    framework: Framework = Field(
        description=(
            "Which environment the pods get, so that the processes find each other: PyTorch (python and torchrun "
            "alike), TensorFlow (TF_CONFIG), Horovod, JAX, MPI, or Custom (the DTJ_ variables only). "
            "Can't be changed later. This version does not run MPI yet."
        )
    )
    replicas: int = Field(
        default=1,
        ge=1,
        le=MAX_REPLICAS,
        description="How many worker pods train together. They start together and, if one fails, end together.",
    )
    processes_per_replica: int | None = Field(
        default=None,
        ge=1,
        le=MAX_PROCESSES_PER_REPLICA,
        description=(
            "How many training processes run in one pod, usually one per GPU. Left out: as many as the trainer "
            "container requests accelerators, else 1; TensorFlow and JAX use all accelerators of a pod from one "
            "process. The world size is this times the number of pods. The agent starts them where the command is "
            "plain python; torchrun and its like start them themselves."
        ),
    )
    template: PodTemplate = Field(
        description=(
            "The worker pod, written as in a Deployment or a Job. The container named trainer (else the first) runs "
            "the training and gets the variables of the framework. restartPolicy is Never: a restart is one of the "
            "whole job."
        )
    )
    roles: tuple[Role, ...] | None = Field(
        default=None,
        max_length=MAX_ROLES,
        description=(
            "Further groups of pods, for frameworks that need them: PyTorch master; TensorFlow chief, ps, evaluator; "
            "MPI launcher; any names with Custom. They start and fail together with the workers."
        ),
        json_schema_extra=map_by("name"),
    )
    suspend: bool = Field(
        default=False,
        description=(
            "true: the job has no pods until it is set to false again; resuming starts a new attempt. "
            "While suspended, template, roles, replicas, processesPerReplica, agent.mode and networkIsolation may be "
            "changed."
        ),
    )
    managed_by: str = Field(
        default=names.MANAGER,
        max_length=63,
        pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9._~]*[A-Za-z0-9])?$",
        description=(
            f"Which controller looks after the job. With any other value than {names.MANAGER} this operator leaves "
            "the job alone, for example for MultiKueue. Can't be changed later."
        ),
    )
    failure_policy: FailurePolicy = Field(
        default=FailurePolicy(),
        description="What happens when a pod fails: how often the job is restarted, and for what.",
    )
    success_policy: SuccessPolicy | None = Field(
        default=None,
        description=(
            "Whose success completes the job. Left out: every worker's, and that of chief, master and launcher where "
            "the job has them."
        ),
    )
    startup_deadline_seconds: int | None = Field(
        default=None,
        ge=1,
        le=INT32_MAX,
        description=(
            "Seconds from an attempt's first pod until all its pods run. If it takes longer, all pods are given back "
            "and the job is tried again later, so that half a job never sits on GPUs. Waiting for free capacity "
            "does not count against maxRestarts."
        ),
    )
    active_deadline_seconds: int | None = Field(
        default=None,
        ge=1,
        le=INT32_MAX,
        description=(
            "Seconds that the job may take, counted from the moment when all pods ran for the first time; waiting for "
            "nodes and images before it does not count, nor does time suspended. Then it fails."
        ),
    )
    ttl_seconds_after_finished: int | None = Field(
        default=None,
        ge=0,
        le=INT32_MAX,
        description=(
            "Seconds after its end when the job itself is deleted, with its pods and their logs. Left out: it stays."
        ),
    )
    cleanup_policy: CleanupPolicy = Field(
        default=CleanupPolicy.RUNNING,
        description=(
            "What happens to the pods when the job ends. Running: those that still run are deleted, finished ones stay "
            "for their logs. All: all are deleted. None: none is touched."
        ),
    )
    progress: Progress = Field(
        default=Progress(), description="How the progress of the training is read and watched, through the agent."
    )
    agent: Agent = Field(
        default=Agent(), description="The small program that starts the training inside the trainer container."
    )
    network_isolation: NetworkIsolation = Field(
        default=NetworkIsolation.NONE,
        description=(
            "Who may open connections to the job's pods. Job: the job's own pods, and the operator to ask the agent, "
            "by a NetworkPolicy that is made before the pods; what the pods connect to is not limited. The cluster's "
            "network must enforce NetworkPolicies. None: no policy is made, and one that was made before stays until "
            "somebody deletes it. Can change only while the job is suspended. Default None."
        ),
    )
