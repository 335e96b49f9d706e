"""How soon a job is looked at after a change of one of its pods."""

from typing import Final, NamedTuple

from dtj.lifecycle.children import Pod
from dtj.lifecycle.observe import has_ended, has_failed

CALM: Final = 0.05
GATHERING: Final = 0.5
GATHERING_PER_POD: Final = 0.0005
"""Seconds in which changes of a job's pods are gathered for one look, ``CALM`` where they may be the last ones: all
run, or one has succeeded. What else they go through is shown to people and decides nothing; a start is three changes of
each pod, and a look takes the longer the more pods there are. No failure waits, nor does the last end.
"""
DELETION_DELAY: Final = 0.5
"""Seconds before a deleted pod is looked at: mostly its job was deleted, and word of that comes on another watch."""


class Soon(NamedTuple):
    """When to look: ``within`` so many seconds, at once for 0. ``despite_backoff``: even if the last look failed."""

    within: float
    despite_backoff: bool = False


AT_ONCE: Final = Soon(0.0, despite_backoff=True)
ONCE_DELETED: Final = Soon(DELETION_DELAY, despite_backoff=True)


def how_soon(before: Pod | None, after: Pod | None, pods: int, running: int) -> Soon:
    """After a pod changed, None for not there. ``pods``, ``running``: how many the job has now, and that run."""
    if after is None:
        return ONCE_DELETED
    ended = has_ended(after) and not (before is not None and has_ended(before))
    if ended and (has_failed(after) or running == 0):
        return AT_ONCE  # who succeeded as the last one may be deleted at once
    if ended:
        return Soon(CALM if running == pods else CALM + GATHERING_PER_POD * pods, despite_backoff=True)
    if after.terminating and not has_ended(after):
        return ONCE_DELETED
    return Soon(CALM if running == pods else GATHERING + GATHERING_PER_POD * pods)
