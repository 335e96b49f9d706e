"""Custom: the first process is told where all others are; the common variables do for the rest."""

from dtj.api import environment as env
from dtj.plan.frameworks.place import Place


def environment(place: Place) -> dict[str, str]:
    """All hosts stand in the pod of rank 0 only: in every pod they would grow with the square of the gang."""
    return {env.HOSTS: ",".join(place.ranked_hosts)} if place.node_rank == 0 else {}
