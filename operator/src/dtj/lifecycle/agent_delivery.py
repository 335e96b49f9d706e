"""When the agent is brought to a job's namespace: with the pods that need it, and again where they do not start."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from dtj.lifecycle.creation import unfilled_slots
from dtj.lifecycle.decision import CreateConfigMap
from dtj.lifecycle.look import Look
from dtj.lifecycle.observe import Bucket
from dtj.plan.agent_archive import agent_config_map
from dtj.plan.launch import uses_agent

LONG_START: Final = timedelta(minutes=1)
"""After which pods that have a node and do not run may be missing the agent: nothing watches whether it was deleted."""


def agent_delivery(look: Look) -> Iterator[CreateConfigMap]:
    waits = until_doubt(look)
    may_be_gone = waits is not None and waits <= timedelta(0)
    if may_be_gone or (unfilled_slots(look) and _needs_agent(look)):
        yield CreateConfigMap(agent_config_map(look.job.metadata.namespace), may_be_gone=may_be_gone)


def until_doubt(look: Look) -> timedelta | None:
    """Time left until the agent may be what pods wait for, at most zero from then on; None: none waits on its node."""
    begun = look.status.attempt_time
    on_nodes = any(pod.spec.node_name for pod in look.observed.pods[Bucket.PENDING])
    if begun is None or not on_nodes or not _needs_agent(look):
        return None
    return begun + timedelta(seconds=look.status.backoff_seconds) + LONG_START - look.now


def _needs_agent(look: Look) -> bool:
    return any(uses_agent(look.job, group.template) for group in look.topology.groups)
