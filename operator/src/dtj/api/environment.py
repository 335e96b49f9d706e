"""Environment variables that the wiring sets in the trainer container, and which of them a user may not set.

Sources: https://docs.pytorch.org/docs/stable/elastic/run.html (environment variables, PET_* options),
https://www.tensorflow.org/guide/distributed_training (TF_CONFIG), Horovod ``runner/gloo_run.py``.
"""

from typing import Final

JOB_NAME: Final = "DTJ_JOB_NAME"
JOB_UID: Final = "DTJ_JOB_UID"
NAMESPACE: Final = "DTJ_NAMESPACE"
ROLE: Final = "DTJ_ROLE"
REPLICA_INDEX: Final = "DTJ_REPLICA_INDEX"
ATTEMPT: Final = "DTJ_ATTEMPT"
NODE_RANK: Final = "DTJ_NODE_RANK"
NNODES: Final = "DTJ_NNODES"
PROCESSES_PER_REPLICA: Final = "DTJ_PROCESSES_PER_REPLICA"

RESERVED_PREFIX: Final = "DTJ_"

PYTHON_UNBUFFERED: Final = "PYTHONUNBUFFERED"

MASTER_ADDR: Final = "MASTER_ADDR"
MASTER_PORT: Final = "MASTER_PORT"
WORLD_SIZE: Final = "WORLD_SIZE"
TORCH_RANK: Final = "RANK"
TORCH_NODE_RANK: Final = "NODE_RANK"
GROUP_RANK: Final = "GROUP_RANK"
LOCAL_RANK: Final = "LOCAL_RANK"
LOCAL_WORLD_SIZE: Final = "LOCAL_WORLD_SIZE"
PET_NNODES: Final = "PET_NNODES"
PET_NODE_RANK: Final = "PET_NODE_RANK"
PET_NPROC_PER_NODE: Final = "PET_NPROC_PER_NODE"
PET_MASTER_ADDR: Final = "PET_MASTER_ADDR"
PET_MASTER_PORT: Final = "PET_MASTER_PORT"
TORCH_NCCL_ASYNC_ERROR_HANDLING: Final = "TORCH_NCCL_ASYNC_ERROR_HANDLING"
TORCH_DISABLE_SHARE_RDZV_TCP_STORE: Final = "TORCH_DISABLE_SHARE_RDZV_TCP_STORE"

TF_CONFIG: Final = "TF_CONFIG"

JAX_COORDINATOR_ADDRESS: Final = "JAX_COORDINATOR_ADDRESS"
JAX_NUM_PROCESSES: Final = "JAX_NUM_PROCESSES"
JAX_PROCESS_ID: Final = "JAX_PROCESS_ID"

RESERVED_BY_FRAMEWORK: Final[dict[str, tuple[str, ...]]] = {
    "PyTorch": (
        MASTER_ADDR,
        MASTER_PORT,
        WORLD_SIZE,
        TORCH_RANK,
        TORCH_NODE_RANK,
        GROUP_RANK,
        LOCAL_RANK,
        LOCAL_WORLD_SIZE,
        PET_NNODES,
        PET_NODE_RANK,
        PET_NPROC_PER_NODE,
        PET_MASTER_ADDR,
        PET_MASTER_PORT,
    ),
    "TensorFlow": (TF_CONFIG,),
    "Horovod": (
        "HOROVOD_RANK",
        "HOROVOD_SIZE",
        "HOROVOD_LOCAL_RANK",
        "HOROVOD_LOCAL_SIZE",
        "HOROVOD_CROSS_RANK",
        "HOROVOD_CROSS_SIZE",
        "HOROVOD_HOSTNAME",
        "HOROVOD_CONTROLLER",
        "HOROVOD_GLOO_RENDEZVOUS_ADDR",
        "HOROVOD_GLOO_RENDEZVOUS_PORT",
    ),
    "JAX": (JAX_COORDINATOR_ADDRESS, JAX_NUM_PROCESSES, JAX_PROCESS_ID),
    "MPI": (),
    "Custom": (),
}
"""Variables that give a process its place in the job: a user's own value would break the gang, so it is refused.
Every name with the prefix ``DTJ_`` is reserved for all frameworks."""
