"""Whose success completes a job, and who has succeeded so far."""

from dtj.api import names
from dtj.api.job import DistributedTrainingJob
from dtj.api.spec import JobSpec
from dtj.api.status import JobStatus
from dtj.lifecycle.observe import Bucket, Observed
from dtj.plan.topology import LEADING_ROLES, Group, Topology


def deciding_roles(spec: JobSpec) -> frozenset[str]:
    """As ``successPolicy`` says, else the workers and whoever leads them: parameter servers run for ever."""
    if spec.success_policy is not None:
        return frozenset(spec.success_policy.roles)
    leading = {role.name for role in spec.roles or () if role.name in LEADING_ROLES}
    return frozenset({names.WORKER_ROLE, *leading})


def is_successful(job: DistributedTrainingJob, topology: Topology, observed: Observed) -> bool:
    """Whether all pods of the deciding roles have succeeded in this attempt."""
    deciding = deciding_roles(job.spec)
    groups = [group for group in topology.groups if group.role in deciding]
    return bool(groups) and all(successes(group, job.status, observed) == group.replicas for group in groups)


def successes(group: Group, status: JobStatus, observed: Observed) -> int:
    """Pods of a role that succeeded in this attempt, those removed since included."""
    return observed.count(Bucket.SUCCEEDED, group.role) + removed_successes(group, status, observed)


def removed_successes(group: Group, status: JobStatus, observed: Observed) -> int:
    """Pods of a role that were removed after they had succeeded and the status had told so."""
    told = next((role for role in status.roles if role.name == group.role), None)
    return observed.succeeded_and_gone(group, told.succeeded, told.removed) if told is not None else 0
