"""JAX: what ``jax.distributed.initialize`` is given.

JAX itself finds only the coordinator's address in the environment; the program passes the other two on, see
examples/ and docs/. Source: https://docs.jax.dev/en/latest/multi_process.html.
"""

from dtj.api import environment as env
from dtj.api import ports
from dtj.plan.frameworks.place import Place


def environment(place: Place) -> dict[str, str]:
    rank, topology = place.node_rank, place.topology
    if rank is None:
        return {}
    variables = {
        env.JAX_COORDINATOR_ADDRESS: f"{place.rank_zero_host}:{ports.RENDEZVOUS}",
        env.JAX_NUM_PROCESSES: str(topology.world_size),
    }
    if topology.processes_per_replica == 1:
        # One process in the pod; several would each get a number of their own from whatever starts them.
        variables[env.JAX_PROCESS_ID] = str(rank)
    return variables
