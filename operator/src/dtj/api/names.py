"""Names of the resource and of everything the operator creates for a job."""

GROUP = "dtj.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
KIND = "DistributedTrainingJob"
PLURAL = "distributedtrainingjobs"
SINGULAR = "distributedtrainingjob"
SHORT_NAME = "dtj"

MANAGER = "dtj.dev/operator"
"""Default of ``spec.managedBy``: the controller that looks after a job."""

WORKER_ROLE = "worker"
TRAINER_CONTAINER = "trainer"

AGENT_FILE = "agent.pyz"
"""The agent in its ConfigMap, and where a container finds it."""
AGENT_PATH = f"/dtj/{AGENT_FILE}"

MAX_LABEL_LENGTH = 63
"""A pod's hostname and a Service's name are DNS-1035 labels (RFC 1035: at most 63 octets)."""

MAX_ATTEMPT = 9_999
"""Names leave room for an attempt of four digits."""


def pod_name(job: str, role: str, index: int, attempt: int) -> str:
    """``<job>-<role>-<index>``, from the second attempt on with ``-r<attempt>``: an attempt's addresses are its own."""
    base = f"{job}-{role}-{index}"
    return base if attempt == 0 else f"{base}-r{attempt}"


def service_name(job: str) -> str:
    return f"{job}-workers"


def network_policy_name(job: str) -> str:
    return f"{job}-workers"


def agent_config_map_name(digest: str) -> str:
    """By its content, so that two versions of the operator never change each other's. ``digest``: SHA-256, hex."""
    return f"dtj-agent-{digest[:16]}"


def pod_host(job: str, role: str, index: int, attempt: int) -> str:
    """Short DNS name of a pod, resolvable inside its namespace."""
    return f"{pod_name(job, role, index, attempt)}.{service_name(job)}"
