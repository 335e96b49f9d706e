"""What agent, training code and operator call by the same name: variables, port, paths, fields and bounds."""

from __future__ import annotations

PORT = "DTJ_AGENT_PORT"
"""Set by the operator: where the agent serves HTTP, on all addresses of the pod. Without it there is no server."""

TOKEN = "DTJ_AGENT_TOKEN"  # noqa: S105 - the variable's name
"""Set by the operator: what requests must carry, as ``Authorization: Bearer <token>``."""

RANK_ZERO_HOST = "DTJ_RANK_ZERO_HOST"
JOB_UID = "DTJ_JOB_UID"
ATTEMPT = "DTJ_ATTEMPT"
NODE_RANK = "DTJ_NODE_RANK"
"""Absent in pods that hold no rank (``ps``, ``evaluator``)."""

NODE_COUNT = "DTJ_NNODES"
PROCESSES_PER_NODE = "DTJ_PROCESSES_PER_REPLICA"
LOCAL_RANK = "DTJ_LOCAL_RANK"
LOG_PATTERN = "DTJ_LOG_PATTERN"
SOCKET = "DTJ_AGENT_SOCKET"
"""Set by the agent for the command: name of the abstract datagram socket for reports, without the zero byte."""

REPORT_TOKEN = "DTJ_REPORT_TOKEN"  # noqa: S105 - the variable's name
"""Set by the agent for the command, new with each start: what reports must carry."""

TERMINATION_LOG = "DTJ_TERMINATION_LOG"
"""The container's ``terminationMessagePath`` where it is not the default."""

PROGRESS_PATH = "/v1/progress"
RANKS_PATH = "/v1/ranks"
HUGGING_FACE_PATH = "/v1/huggingface"
METRICS_PATH = "/metrics"
HEALTH_PATH = "/healthz"

REPORT = "report"
HUGGING_FACE = "huggingface"
PATTERN = "pattern"
TQDM = "tqdm"
"""Sources of numbers; all others are named after the tool whose output a preset reads."""

LONGEST_REPORT_BYTES = 8 * 1024
LONGEST_HEAD_BYTES = 8 * 1024
LONGEST_BODY_BYTES = 64 * 1024
MOST_METRICS = 16
LONGEST_NAME = 64
"""Characters of a metric's name."""

LONGEST_PHASE = 64
LONGEST_LINE = 256
GREATEST_NUMBER = 2**53 - 1
"""Whole numbers beyond it change on their way through JSON."""

HEARTBEAT_S = 5.0
"""How often agents tell node rank 0's agent about their ranks."""
