"""Why pods have not started: the one thing that a person can act on, out of all that pods say."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from dtj.api.reasons import Reason
from dtj.lifecycle.children import ContainerStatus, Pod
from dtj.lifecycle.last_words import printable


class Waiting(NamedTuple):
    """A reason with its sentence, and the first pod that waits for it. ``pods``: how many do."""

    reason: Reason
    message: str
    pod: Pod
    pods: int = 1


_WAITING_REASONS = {
    # The kubelet alternates between the two; the job's status should not.
    "ErrImagePull": Reason.IMAGE_PULL_BACK_OFF,
    "ImagePullBackOff": Reason.IMAGE_PULL_BACK_OFF,
    "ErrImageNeverPull": Reason.ERR_IMAGE_NEVER_PULL,
    "InvalidImageName": Reason.INVALID_IMAGE_NAME,
    "CreateContainerConfigError": Reason.CREATE_CONTAINER_CONFIG_ERROR,
    "CreateContainerError": Reason.CREATE_CONTAINER_ERROR,
    "RunContainerError": Reason.RUN_CONTAINER_ERROR,
}
_BACK_OFF_PREFIX = re.compile(r'^Back-off pulling image "[^"]*": (ErrImagePull: )?')

_MOST_TELLING_FIRST = (
    Reason.INVALID_IMAGE_NAME,
    Reason.ERR_IMAGE_NEVER_PULL,
    Reason.CREATE_CONTAINER_CONFIG_ERROR,
    Reason.CREATE_CONTAINER_ERROR,
    Reason.RUN_CONTAINER_ERROR,
    Reason.IMAGE_PULL_BACK_OFF,
    Reason.UNSCHEDULABLE,
    Reason.SCHEDULING_GATED,
    Reason.CONTAINER_CREATING,
)
LASTING = frozenset({Reason.INVALID_IMAGE_NAME, Reason.ERR_IMAGE_NEVER_PULL, Reason.CREATE_CONTAINER_CONFIG_ERROR})
"""These do not heal by themselves: somebody must change something."""
CAPACITY = frozenset({Reason.UNSCHEDULABLE, Reason.SCHEDULING_GATED})
"""These say nothing against the job: the cluster is full, or a queue holds it back."""
ACTIONABLE = frozenset(_MOST_TELLING_FIRST) - {Reason.CONTAINER_CREATING, Reason.SCHEDULING_GATED}


def why_waiting(pending: Sequence[Pod]) -> Waiting | None:
    """The most telling reason, with the number of pods that share it; None if no pod is pending."""
    each = [_why(pod) for pod in pending]
    if not each:
        return None
    most_telling = min(each, key=lambda waiting: _MOST_TELLING_FIRST.index(waiting.reason))
    return most_telling._replace(pods=sum(1 for waiting in each if waiting.reason is most_telling.reason))


def _why(pod: Pod) -> Waiting:
    scheduled = pod.condition("PodScheduled")
    if scheduled is not None and scheduled.status == "False":
        gated = scheduled.reason == "SchedulingGated"
        return Waiting(Reason.SCHEDULING_GATED if gated else Reason.UNSCHEDULABLE, printable(scheduled.message), pod)
    statuses = [*pod.status.init_container_statuses, *pod.status.container_statuses]
    found = (_container_waits(pod, status) for status in statuses)
    creating = Waiting(Reason.CONTAINER_CREATING, "containers are created", pod)
    return next((waiting for waiting in found if waiting), creating)


def _container_waits(pod: Pod, status: ContainerStatus) -> Waiting | None:
    waiting = status.state.waiting
    if waiting is None or waiting.reason not in _WAITING_REASONS:
        return None
    said = _BACK_OFF_PREFIX.sub("", waiting.message)
    message = f"container {status.name}: {printable(said) or waiting.reason}"
    return Waiting(_WAITING_REASONS[waiting.reason], message, pod)
