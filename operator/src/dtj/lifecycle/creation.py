"""What an attempt needs and does not have."""

from collections.abc import Iterator

from dtj.api.spec import NetworkIsolation
from dtj.lifecycle.decision import CreateNetworkPolicy, CreatePod, CreateService, Write
from dtj.lifecycle.look import Look
from dtj.lifecycle.observe import Bucket
from dtj.lifecycle.success import successes
from dtj.plan.network_policy import network_policy
from dtj.plan.pods import pod_builder
from dtj.plan.services import headless_service
from dtj.plan.topology import Slot


def creations(look: Look) -> Iterator[Write]:
    """For the attempt of the job's status."""
    if look.observed.service is None:
        yield CreateService(headless_service(look.job))
    if unfilled := unfilled_slots(look):
        if look.job.spec.network_isolation is NetworkIsolation.JOB:
            yield CreateNetworkPolicy(network_policy(look.job, look.observed.operator_namespace))
        build = pod_builder(look.job, look.topology, look.status.attempt)
        yield from (CreatePod(build(slot)) for slot in unfilled)


def unfilled_slots(look: Look) -> list[Slot]:
    """Slots that need a pod and have none. Which of a role's removed pods had succeeded is not known, only how many."""
    slots: list[Slot] = []
    for group in look.topology.groups:
        missing = [slot for slot in group.slots if slot not in look.observed.filled]
        done = successes(group, look.status, look.observed) - look.observed.count(Bucket.SUCCEEDED, group.role)
        slots += missing[done:]
    return slots
