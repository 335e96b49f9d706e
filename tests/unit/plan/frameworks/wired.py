"""What the trainer container of a pod is told, as a plain mapping."""

from dtj.plan.pods import pod_builder
from dtj.plan.topology import Slot, topology_of, trainer_container
from tests.builders import JobBuilder


def variables(job: JobBuilder, index: int = 0, *, role: str = "worker", attempt: int = 0) -> dict[str, str]:
    """Variables of the pod of a slot, as the API server would get them."""
    built = job.build()
    pod = pod_builder(built, topology_of(built.spec), attempt)(Slot(role, index))
    return {variable["name"]: variable["value"] for variable in trainer_container(pod)["env"]}
