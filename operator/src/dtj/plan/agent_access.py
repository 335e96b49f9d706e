"""How an agent is reached, and what keeps others away from it."""

from hashlib import sha256
from typing import Any

from dtj.api import environment as env
from dtj.api import ports
from dtj.api.job import DistributedTrainingJob
from dtj.plan.topology import trainer_container


def agent_token(job_uid: str, attempt: int) -> str:
    """What a request to the agents of an attempt must carry.

    The UID is 122 random bits that only those learn who may read the job; they may read its pods' environment, or its
    progress, anyway. So nothing has to be kept, and every operator process knows it.
    """
    return sha256(f"dtj-agent/{job_uid}/{attempt}".encode()).hexdigest()


def agent_environment(job: DistributedTrainingJob, template: dict[str, Any], attempt: int) -> dict[str, str]:
    """What the agents of an attempt are told about themselves."""
    variables = {env.AGENT_PORT: str(ports.AGENT), env.AGENT_TOKEN: agent_token(job.metadata.uid, attempt)}
    if job.spec.progress.log_pattern is not None:
        variables[env.LOG_PATTERN] = job.spec.progress.log_pattern
    if own_path := trainer_container(template).get("terminationMessagePath"):
        variables[env.TERMINATION_LOG] = own_path
    return variables
