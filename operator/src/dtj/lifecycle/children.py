"""The fields of a job's children that decisions read, and nothing else.

The reflector decodes straight into these structs (unknown fields are skipped without building objects for them), and
``observe`` sorts them. Times are aware datetimes in UTC.
"""

from datetime import datetime, timedelta

from msgspec import Struct, field

from dtj.api import labels
from dtj.api.names import TRAINER_CONTAINER


class OwnerReference(Struct, frozen=True, rename="camel"):
    """Who owns an object; ``controller`` marks the one that manages it."""

    uid: str
    kind: str = ""
    name: str = ""
    controller: bool = False


class ObjectMeta(Struct, frozen=True, rename="camel"):
    """Identity of an object. ``deletion_timestamp`` set: the object is on its way out."""

    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = "0"
    labels: dict[str, str] = {}
    owner_references: tuple[OwnerReference, ...] = ()
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    deletion_grace_period_seconds: int = 0

    @property
    def deletion_requested_at(self) -> datetime | None:
        """When somebody asked for the deletion: the timestamp on the wire lies a grace period later."""
        if self.deletion_timestamp is None:
            return None
        return self.deletion_timestamp - timedelta(seconds=self.deletion_grace_period_seconds)

    @property
    def controller_uid(self) -> str | None:
        return next((owner.uid for owner in self.owner_references if owner.controller), None)


class ContainerWaiting(Struct, frozen=True, rename="camel"):
    """Why a container has not started."""

    reason: str = ""
    message: str = ""


class ContainerTerminated(Struct, frozen=True, rename="camel"):
    """How a container ended. ``finished_at`` has a resolution of one second."""

    exit_code: int
    signal: int = 0
    reason: str = ""
    message: str = ""
    finished_at: datetime | None = None


class ContainerRunning(Struct, frozen=True, rename="camel"):
    """A container that runs; its start time is not read."""


class ContainerState(Struct, frozen=True, rename="camel"):
    """Exactly one of the three is set; none at all means waiting."""

    waiting: ContainerWaiting | None = None
    running: ContainerRunning | None = None
    terminated: ContainerTerminated | None = None


class ContainerStatus(Struct, frozen=True, rename="camel"):
    """State of one container."""

    name: str
    state: ContainerState = ContainerState()


class PodCondition(Struct, frozen=True, rename="camel"):
    """One of a pod's conditions, such as PodScheduled or DisruptionTarget."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None


class PodStatus(Struct, frozen=True, rename="camel"):
    """What the kubelet and the scheduler say of a pod."""

    phase: str = "Pending"
    reason: str = ""
    message: str = ""
    pod_ip: str = field(default="", name="podIP")
    conditions: tuple[PodCondition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()


class Toleration(Struct, frozen=True, rename="camel"):
    """Which taints of a node a pod bears; ``toleration_seconds`` None: for ever."""

    key: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class PodSpec(Struct, frozen=True, rename="camel"):
    """Where a pod runs; no name until it is scheduled."""

    node_name: str = ""
    tolerations: tuple[Toleration, ...] = ()


class Pod(Struct, frozen=True, rename="camel"):
    """A pod of a job, of whatever role."""

    metadata: ObjectMeta
    spec: PodSpec = PodSpec()
    status: PodStatus = field(default_factory=PodStatus)

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def role(self) -> str:
        return self.metadata.labels.get(labels.ROLE, "")

    @property
    def index(self) -> int:
        return _number(self.metadata.labels.get(labels.INDEX))

    @property
    def attempt(self) -> int:
        return _number(self.metadata.labels.get(labels.ATTEMPT))

    @property
    def terminating(self) -> bool:
        return self.metadata.deletion_timestamp is not None

    @property
    def deleted_before_its_end(self) -> bool:
        """Somebody deleted the pod while it worked: how its containers end then says nothing about the training.

        Times have a resolution of one second; an end in the very second of the request counts as caused by it.
        """
        requested = self.metadata.deletion_requested_at
        if requested is None:
            return False
        ended = self.trainer.state.terminated if self.trainer else None
        return ended is None or ended.finished_at is None or ended.finished_at >= requested

    def condition(self, kind: str) -> PodCondition | None:
        return next((condition for condition in self.status.conditions if condition.type == kind), None)

    @property
    def trainer(self) -> ContainerStatus | None:
        """The container whose end counts: the one named ``trainer``, else the first of the template.

        The kubelet sorts statuses by name, so their order does not tell which was first: the pod's label does.
        """
        wanted = self.metadata.labels.get(labels.TRAINER, TRAINER_CONTAINER)
        return next((status for status in self.status.container_statuses if status.name == wanted), None)


class NodeCondition(Struct, frozen=True, rename="camel"):
    """One of a node's conditions."""

    type: str
    status: str
    message: str = ""
    last_heartbeat_time: datetime | None = None
    last_transition_time: datetime | None = None


class NodeStatus(Struct, frozen=True, rename="camel"):
    """What the kubelet, or the control plane in its place, says of a node."""

    conditions: tuple[NodeCondition, ...] = ()


class Node(Struct, frozen=True, rename="camel"):
    """A machine of the cluster."""

    metadata: ObjectMeta
    status: NodeStatus = NodeStatus()

    @property
    def lost(self) -> NodeCondition | None:
        """Its condition Ready if the control plane has not heard of the node for its grace period, else None."""
        ready = (condition for condition in self.status.conditions if condition.type == "Ready")
        return next((condition for condition in ready if condition.status == "Unknown"), None)


class Service(Struct, frozen=True, rename="camel"):
    """The headless Service that gives the pods their names."""

    metadata: ObjectMeta


def _number(text: str | None) -> int:
    """A label's number; -1 for a label that is missing or was tampered with, which matches no slot and no attempt."""
    return int(text) if text is not None and text.isascii() and text.isdigit() else -1
