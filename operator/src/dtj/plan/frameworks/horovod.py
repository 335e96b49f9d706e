"""Horovod: what ``hvd.init()`` reads when gloo connects the processes, without ssh, MPI or ``horovodrun``.

The agent serves the rendezvous in the pod of rank 0 and starts the processes when all can meet. Sources: Horovod
0.28.1, ``horovod/runner/gloo_run.py`` (the variables), ``horovod/common/gloo/gloo_context.cc`` (how they are read).
"""

from dtj.api import environment as env
from dtj.api import ports
from dtj.plan.frameworks.place import Place


def environment(place: Place) -> dict[str, str]:
    rank, topology = place.node_rank, place.topology
    if rank is None:
        return {}
    variables = {
        env.HOROVOD_SIZE: str(topology.world_size),
        env.HOROVOD_LOCAL_SIZE: str(topology.processes_per_replica),
        env.HOROVOD_CROSS_RANK: str(rank),
        env.HOROVOD_CROSS_SIZE: str(topology.nnodes),
        env.HOROVOD_HOSTNAME: place.host,
        env.HOROVOD_CONTROLLER: "gloo",
        env.HOROVOD_CPU_OPERATIONS: "gloo",
        env.HOROVOD_GLOO_RENDEZVOUS_ADDR: place.rank_zero_host,
        env.HOROVOD_GLOO_RENDEZVOUS_PORT: str(ports.RENDEZVOUS),
    }
    if topology.processes_per_replica == 1:
        variables |= {env.HOROVOD_RANK: str(rank), env.HOROVOD_LOCAL_RANK: "0"}
    if rank == 0:
        variables[env.HOSTS] = ",".join(place.ranked_hosts)
    return variables
