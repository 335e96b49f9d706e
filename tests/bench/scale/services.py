"""What the headless Service of a job costs, by how and when it is created: contestants to put beside the floor.

``--contestant floor --contestant tests.bench.scale.services:Last``, and so on; the requests of endpoints and
endpointslices tell. Pods could not find each other by name in the last two.
"""

from tests.bench.scale.client import Call
from tests.bench.scale.contestants import Floor


class Last(Floor):
    """The Services after all pods."""

    name = "services-last"

    def _in_order(self, services: list[Call], pods: list[Call]) -> list[Call]:
        return [*pods, *services]


class ReadyOnly(Floor):
    """Services that name a pod only once it is ready."""

    name = "services-ready-only"

    def _in_order(self, services: list[Call], pods: list[Call]) -> list[Call]:
        return [*(_changed(call, publishNotReadyAddresses=False) for call in services), *pods]


class WithoutSelector(Floor):
    """Services that the control plane finds no pods for."""

    name = "services-without-selector"

    def _in_order(self, services: list[Call], pods: list[Call]) -> list[Call]:
        return [*(_changed(call, selector=None) for call in services), *pods]


class Without(Floor):
    """No Services at all."""

    name = "services-none"

    def _in_order(self, services: list[Call], pods: list[Call]) -> list[Call]:
        del services
        return pods


def _changed(call: Call, **fields: object) -> Call:
    assert call.body is not None
    return call._replace(body={**call.body, "spec": {**call.body["spec"], **fields}})
