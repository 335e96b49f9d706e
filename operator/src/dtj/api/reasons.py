"""The closed set of reasons: in conditions, in ``status.reason``, in ``lastFailure`` and in events."""

from enum import StrEnum


class Reason(StrEnum):
    """One CamelCase word that says why; the sentence stands beside it in ``message``."""

    # On the way
    PODS_STARTING = "PodsStarting"
    ALL_PODS_RUNNING = "AllPodsRunning"
    SOME_PODS_FINISHED = "SomePodsFinished"
    SUCCEEDED = "Succeeded"
    JOB_SUSPENDED = "JobSuspended"
    JOB_RESUMED = "JobResumed"
    SPEC_CHANGED = "SpecChanged"
    NO_SHELL = "NoShell"

    # A pod waits: what a person can act on
    UNSCHEDULABLE = "Unschedulable"
    SCHEDULING_GATED = "SchedulingGated"
    CONTAINER_CREATING = "ContainerCreating"
    IMAGE_PULL_BACK_OFF = "ImagePullBackOff"
    ERR_IMAGE_NEVER_PULL = "ErrImageNeverPull"
    INVALID_IMAGE_NAME = "InvalidImageName"
    CREATE_CONTAINER_CONFIG_ERROR = "CreateContainerConfigError"
    CREATE_CONTAINER_ERROR = "CreateContainerError"
    RUN_CONTAINER_ERROR = "RunContainerError"

    # The API server refuses the operator's writes
    INVALID_SPEC = "InvalidSpec"
    INVALID_TEMPLATE = "InvalidTemplate"
    NAME_CONFLICT = "NameConflict"
    EARLIER_JOB_TERMINATING = "EarlierJobTerminating"
    QUOTA_EXCEEDED = "QuotaExceeded"
    OPERATOR_FORBIDDEN = "OperatorForbidden"
    NAMESPACE_TERMINATING = "NamespaceTerminating"
    API_UNAVAILABLE = "ApiUnavailable"

    # An attempt ended badly
    NON_ZERO_EXIT = "NonZeroExit"
    KILLED_BY_SIGNAL = "KilledBySignal"
    OOM_KILLED = "OOMKilled"
    CONTAINER_CANNOT_RUN = "ContainerCannotRun"
    EVICTED = "Evicted"
    PREEMPTED = "Preempted"
    NODE_LOST = "NodeLost"
    POD_DELETED = "PodDeleted"
    POD_FAILED = "PodFailed"
    STARTUP_DEADLINE_EXCEEDED = "StartupDeadlineExceeded"
    STALLED = "Stalled"

    # The job ended badly for a reason of its own
    DEADLINE_EXCEEDED = "DeadlineExceeded"
    TOO_MANY_ATTEMPTS = "TooManyAttempts"


FAILURES = (
    Reason.NON_ZERO_EXIT,
    Reason.KILLED_BY_SIGNAL,
    Reason.OOM_KILLED,
    Reason.CONTAINER_CANNOT_RUN,
    Reason.EVICTED,
    Reason.PREEMPTED,
    Reason.NODE_LOST,
    Reason.POD_DELETED,
    Reason.POD_FAILED,
    Reason.STARTUP_DEADLINE_EXCEEDED,
    Reason.STALLED,
)
"""Why an attempt may end badly: what ``failurePolicy.rules`` can look for."""
