"""Variables that every trainer container gets, whatever its framework."""

from dtj.api import environment as env
from dtj.plan.frameworks.place import Place


def environment(place: Place) -> dict[str, str]:
    variables = {
        env.JOB_NAME: place.job,
        env.JOB_UID: place.job_uid,
        env.NAMESPACE: place.namespace,
        env.ROLE: place.slot.role,
        env.REPLICA_INDEX: str(place.slot.index),
        env.ATTEMPT: str(place.attempt),
        env.NNODES: str(place.topology.nnodes),
        env.PROCESSES_PER_REPLICA: str(place.topology.processes_per_replica),
        env.RANK_ZERO_HOST: place.rank_zero_host,
        env.PYTHON_UNBUFFERED: "1",
    }
    if place.node_rank is not None:
        variables[env.NODE_RANK] = str(place.node_rank)
    return variables
