"""Custom: where the first process is, and, for that one, where all others are."""

from dtj.api import environment as env
from dtj.plan.frameworks.place import Place


def environment(place: Place) -> dict[str, str]:
    """All hosts stand in the pod of rank 0 only: in every pod they would grow with the square of the gang."""
    variables = {env.RANK_ZERO_HOST: place.rank_zero_host}
    if place.node_rank == 0:
        variables[env.HOSTS] = ",".join(place.ranked_hosts)
    return variables
