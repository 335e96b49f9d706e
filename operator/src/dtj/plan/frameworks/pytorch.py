"""PyTorch: what ``init_process_group`` reads (``env://``) and what ``torchrun`` reads (``PET_*``), both at once.

Sources: https://docs.pytorch.org/docs/stable/distributed.html (environment variable initialization) and
``torch/distributed/argparse_util.py`` (every torchrun option reads ``PET_<OPTION>``).
"""

from dtj.api import environment as env
from dtj.api import ports
from dtj.plan.frameworks.place import Place


def environment(place: Place) -> dict[str, str]:
    rank, topology = place.node_rank, place.topology
    if rank is None:
        return {}
    address, port = place.rank_zero_host, str(ports.RENDEZVOUS)
    variables = {
        env.MASTER_ADDR: address,
        env.MASTER_PORT: port,
        env.WORLD_SIZE: str(topology.world_size),
        env.TORCH_NODE_RANK: str(rank),
        env.GROUP_RANK: str(rank),
        env.PET_NNODES: str(topology.nnodes),
        env.PET_NODE_RANK: str(rank),
        env.PET_NPROC_PER_NODE: str(topology.processes_per_replica),
        env.PET_MASTER_ADDR: address,
        env.PET_MASTER_PORT: port,
        # A collective that fails ends the process instead of hanging it; the operator sees the end.
        env.TORCH_NCCL_ASYNC_ERROR_HANDLING: "1",
        # torchrun deadlocks on a rejoin when the rendezvous shares its store with the training processes.
        env.TORCH_DISABLE_SHARE_RDZV_TCP_STORE: "1",
    }
    if topology.processes_per_replica == 1:
        # One process in the pod is its own local rank 0; several get theirs from the launcher inside the pod.
        variables |= {env.TORCH_RANK: str(rank), env.LOCAL_RANK: "0", env.LOCAL_WORLD_SIZE: "1"}
    return variables
