"""``status``: what the operator saw and did. Built by ``lifecycle``, written by ``kube``; users only read it."""

from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field, WithJsonSchema

from dtj.api import names
from dtj.api.conditions import ConditionType
from dtj.api.model import EXACT_MAX, INT32_MAX, ReadValue, Time, in_order, map_by
from dtj.api.reasons import Reason
from dtj.api.spec import MAX_REPLICAS, MAX_ROLES, ConditionStatus, RoleName, RuleAction

MAX_MESSAGE: Final = 4_096
MAX_LAST_LINES: Final = 20
MAX_LINE: Final = 1_024
MAX_METRICS: Final = 16
MAX_BACKOFF_SECONDS: Final = 600

Count = Annotated[int, Field(ge=0, le=INT32_MAX)]
Steps = Annotated[int, Field(ge=0, le=EXACT_MAX)]
PodCount = Annotated[int, Field(ge=0, le=MAX_REPLICAS)]
AllPodsCount = Annotated[int, Field(ge=0, le=MAX_REPLICAS * (MAX_ROLES + 1))]
Number = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Attempt = Annotated[int, Field(ge=0, le=names.MAX_ATTEMPT)]
ObjectName = Annotated[str, Field(max_length=253)]
ShortText = Annotated[str, Field(max_length=32)]

CamelCaseWord = {"type": "string", "minLength": 1, "maxLength": 64, "pattern": "^[A-Za-z][A-Za-z0-9]*$"}
ReasonWord = Annotated[Reason | str, Field(union_mode="left_to_right"), WithJsonSchema(CamelCaseWord)]
"""A ``Reason``; a word this version does not know yet stays a plain string, so that a downgrade can read it."""
ConditionWord = Annotated[ConditionType | str, Field(union_mode="left_to_right"), WithJsonSchema(CamelCaseWord)]


class Phase(StrEnum):
    """Where a job is, for people: derived from the conditions, never read back."""

    PENDING = "Pending"
    STARTING = "Starting"
    RUNNING = "Running"
    RESTARTING = "Restarting"
    SUSPENDED = "Suspended"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


class FailureClass(StrEnum):
    """What kind of failure it was: decides what is done about it."""

    APPLICATION = "Application"
    OUT_OF_MEMORY = "OutOfMemory"
    INFRASTRUCTURE = "Infrastructure"
    DISRUPTION = "Disruption"
    STARTUP = "Startup"
    CONFIGURATION = "Configuration"


class Condition(ReadValue):
    """One thing that is or is not so, in the form that all of Kubernetes uses."""

    type: ConditionWord = Field(
        description="What it is about: Suspended, Running, Stalled, WithoutAgent, Complete, Failed (the last two stay)."
    )
    status: ConditionStatus = Field(description="True, False or Unknown.")
    reason: ReasonWord = Field(description="Why, in one word.")
    message: str = Field(default="", max_length=MAX_MESSAGE, description="Why, in a sentence.")
    last_transition_time: Time = Field(description="When the status last changed.")
    observed_generation: Steps | None = Field(
        default=None, description="Generation of the spec for which this was found out."
    )

    @property
    def holds(self) -> bool:
        return self.status is ConditionStatus.TRUE


class RoleStatus(ReadValue):
    """How the pods of one role are."""

    name: RoleName = Field(description="The role; worker for spec.replicas and spec.template.")
    replicas: PodCount = Field(default=0, description="Pods that should be there.")
    pending: PodCount = Field(default=0, description="Pods that wait for a node, an image or their start.")
    running: PodCount = Field(default=0, description="Pods whose trainer container runs.")
    succeeded: PodCount = Field(default=0, description="Pods whose training ended well, those removed since included.")
    removed: PodCount = Field(default=0, description="How many of those that ended well were removed since.")
    failed: PodCount = Field(default=0, description="Pods whose training ended badly.")


class Metric(ReadValue):
    """A number that the training reports about itself."""

    name: str = Field(min_length=1, max_length=64, description="Name of the metric, for example loss.")
    value: Annotated[float, Field(allow_inf_nan=False)] = Field(description="Its last reported value.")


class SlowestRank(ReadValue):
    """The process that the others wait for."""

    rank: Steps = Field(description="Its rank.")
    behind_steps: Steps = Field(default=0, description="How many steps it is behind the one that is furthest.")
    silent_seconds: Number | None = Field(
        default=None, description="How long it has not reported, where it did before: it may be frozen."
    )
    local_seconds: Number | None = Field(
        default=None, description="Its own time of a step, before it waits for the others."
    )
    typical_local_seconds: Number | None = Field(default=None, description="The same of the others: their median.")


class ProgressStatus(ReadValue):
    """How far the training is."""

    step: Steps | None = Field(default=None, description="The last finished step.")
    total_steps: Steps | None = Field(default=None, description="Steps of the whole training.")
    epoch: Steps | None = Field(default=None, description="The current epoch.")
    total_epochs: Steps | None = Field(default=None, description="Epochs of the whole training.")
    percent: Annotated[int, Field(ge=0, le=100)] | None = Field(
        default=None, description="How much is done, 0 to 100. It falls when a restart goes back to a checkpoint."
    )
    steps_per_second: Number | None = Field(default=None, description="Steps per second of this attempt, smoothed.")
    samples_per_second: Number | None = Field(
        default=None, description="Training samples per second, all workers together."
    )
    eta_seconds: Steps | None = Field(default=None, description="Seconds still needed, as far as can be told.")
    estimated_completion_time: Time | None = Field(default=None, description="When the training should be done.")
    metrics: Annotated[tuple[Metric, ...], Field(max_length=MAX_METRICS)] | None = Field(
        default=None,
        description="Numbers that the training reports, for example loss.",
        json_schema_extra=map_by("name"),
    )
    report_time: Time | None = Field(default=None, description="When the training was last heard.")
    attempt: Attempt | None = Field(default=None, description="The attempt that reported this.")
    source: ShortText | None = Field(
        default=None, description="Where it was read: the training's own reports or a pattern in its output."
    )
    best_step: Steps | None = Field(
        default=None, description="The furthest step of the attempts before; beyond it a restart counts as progress."
    )
    unsettled_step: Steps | None = Field(
        default=None,
        description="Step that the attempt before had reached, until this one tells its first. Then lostSteps counts.",
    )
    lost_steps: Steps | None = Field(
        default=None, description="Steps that restarts threw away and that were or must be done again."
    )
    slowest_rank: SlowestRank | None = Field(
        default=None, description="The process that the others wait for, where the processes report their own times."
    )
    stale: bool | None = Field(default=None, description="true: nothing was heard for too long; no time is estimated.")
    completed: ShortText | None = Field(default=None, description="percent for people, as in the column PROGRESS.")
    eta: ShortText | None = Field(default=None, description="etaSeconds for people, as in the column ETA.")
    rate: ShortText | None = Field(default=None, description="stepsPerSecond for people, as in the column RATE.")


class LastFailure(ReadValue):
    """What ended the last attempt that failed, or keeps the pods of this one from starting for good."""

    attempt: Attempt = Field(description="The attempt that failed.")
    time: Time = Field(description="When it happened.")
    failure_class: FailureClass = Field(
        alias="class",
        description=(
            "What kind of failure: Application (the program), OutOfMemory, Infrastructure (node, network), Disruption "
            "(eviction, preemption, drain), Startup (never ran) or Configuration (can't run as written)."
        ),
    )
    reason: ReasonWord = Field(description="Why, in one word, for example NonZeroExit or OOMKilled.")
    message: str = Field(default="", max_length=MAX_MESSAGE, description="Why, in a sentence.")
    role: RoleName | None = Field(default=None, description="Role of the pod that failed first.")
    index: PodCount | None = Field(default=None, description="Index of that pod in its role, from 0.")
    rank: AllPodsCount | None = Field(default=None, description="Node rank of that pod, where it has one.")
    pod: ObjectName | None = Field(default=None, description="Name of that pod; kubectl logs shows what it printed.")
    node: ObjectName | None = Field(default=None, description="Node that it ran on.")
    container: Annotated[str, Field(max_length=63)] | None = Field(
        default=None, description="Container that failed in that pod."
    )
    exit_code: Annotated[int, Field(ge=0, le=INT32_MAX)] | None = Field(
        default=None, description="Exit code of that container."
    )
    signal: Annotated[int, Field(ge=1, le=127)] | None = Field(
        default=None, description="Number of the signal that ended it."
    )
    last_lines: (
        Annotated[tuple[Annotated[str, Field(max_length=MAX_LINE)], ...], Field(max_length=MAX_LAST_LINES)] | None
    ) = Field(default=None, description="The last lines that it printed.", json_schema_extra=in_order())
    action: RuleAction | None = Field(
        default=None, description="What the operator did about it; nothing while pods wait for it to be mended."
    )


class JobStatus(ReadValue):
    """The state of the job, of the same size however many workers it has."""

    phase: Phase | None = Field(
        default=None,
        description=(
            "Where the job is, in one word for people: Pending (it waits for something that reason names), Starting, "
            "Running (all pods do), Restarting (after a failure), Suspended, Succeeded, Failed. Programs should read "
            "the conditions."
        ),
    )
    reason: ReasonWord | None = Field(
        default=None, description="Why the job is in this phase, in one word, for example Unschedulable or NonZeroExit."
    )
    observed_generation: Steps | None = Field(default=None, description="Generation of the spec last acted upon.")
    conditions: Annotated[tuple[Condition, ...], Field(max_length=16)] = Field(
        default=(),
        description="Suspended, Running, Stalled, WithoutAgent, Complete, Failed, each with its reason.",
        json_schema_extra=map_by("type"),
    )
    attempt: Attempt = Field(default=0, description="Which attempt this is, from 0.")
    attempt_time: Time | None = Field(default=None, description="When this attempt was decided on.")
    backoff_seconds: Annotated[int, Field(ge=0, le=MAX_BACKOFF_SECONDS)] = Field(
        default=0, description="Seconds after attemptTime before which the pods of this attempt are not created."
    )
    gang_hash: ShortText | None = Field(
        default=None,
        description="Digest of the template, roles and numbers that the pods of this attempt are made from.",
    )
    restarts: Count = Field(
        default=0, description="Failures that the job survived by starting again; disruptions are counted apart."
    )
    restarts_since_progress: Count = Field(
        default=0, description="Those since the training last advanced; they count against failurePolicy.maxRestarts."
    )
    disruptions: Count = Field(
        default=0,
        description=(
            "Restarts for evictions, preemptions, drains, lost nodes and pods that somebody deleted; they do not count "
            "against maxRestarts."
        ),
    )
    start_time: Time | None = Field(default=None, description="When the operator accepted the job, not suspended.")
    running_time: Time | None = Field(default=None, description="When all pods ran for the first time.")
    suspended_seconds: Steps = Field(
        default=0, description="Seconds that the job was suspended since runningTime; no deadline counts them."
    )
    completion_time: Time | None = Field(default=None, description="When the job ended.")
    replicas: PodCount = Field(default=0, description="Worker pods that exist in this attempt.")
    ready_replicas: PodCount = Field(default=0, description="Worker pods whose training runs.")
    ready: ShortText | None = Field(
        default=None, description="Pods of all roles whose training runs, and how many there should be, as 2/2."
    )
    selector: Annotated[str, Field(max_length=512)] | None = Field(
        default=None, description="Label selector of the worker pods, for kubectl scale and autoscalers."
    )
    roles: Annotated[tuple[RoleStatus, ...], Field(max_length=MAX_ROLES + 1)] = Field(
        default=(), description="Pods of each role, by their state.", json_schema_extra=map_by("name")
    )
    progress: ProgressStatus | None = Field(default=None, description="How far the training is.")
    last_failure: LastFailure | None = Field(
        default=None, description="The first cause of the last failed attempt: which worker, where, why."
    )

    def condition(self, kind: ConditionType) -> Condition | None:
        return next((condition for condition in self.conditions if condition.type == kind), None)

    def has(self, kind: ConditionType) -> bool:
        """Whether this condition is True."""
        condition = self.condition(kind)
        return condition is not None and condition.holds
