"""What this process knows of a job beyond the caches, and may forget: another process starts without it."""

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from msgspec.structs import replace

from dtj.api.reasons import Reason
from dtj.api.status import JobStatus
from dtj.lifecycle import status as status_of
from dtj.lifecycle.children import Pod
from dtj.lifecycle.observe import has_ended, has_started
from dtj.lifecycle.obstacles import Obstacle

OBSTACLE_LIFETIME: Final = 300.0
"""Seconds after which a refusal is forgotten: what refused may have been mended without a word to the job."""


@dataclass
class Memory:
    """Of one job. Times are those of the event loop, in seconds.

    ``committed``: the attempt that this process put on record; it has seen all pods that were there before.
    ``distrusted``: the job may have changed unseen. ``cosmetic_version``: that of the job after the last status write,
    if that was no transition. ``complaint``: what was logged about a job that can't be read.
    """

    written_at: float | None = None
    committed: int | None = None
    distrusted: bool = False
    cosmetic_version: str = ""
    complaint: str = ""
    _told: Counter[tuple[int, Reason]] = field(default_factory=Counter)
    _obstacle: Obstacle | None = None
    _obstacle_met_at: float = 0.0
    _removed: dict[str, Pod] = field(default_factory=dict)

    def tell(self, attempt: int, reason: Reason) -> int:
        """How often this is told of an attempt, this time included."""
        for earlier in [told for told in self._told if told[0] < attempt - 1]:
            del self._told[earlier]
        self._told[attempt, reason] += 1
        return self._told[attempt, reason]

    def meet(self, obstacle: Obstacle, at: float) -> None:
        self._obstacle, self._obstacle_met_at = obstacle, at

    def overcome(self) -> None:
        self._obstacle = None

    def obstacle(self, at: float) -> Obstacle | None:
        """The last refusal, unless a write went well since, or it is too long ago."""
        return self._obstacle if at - self._obstacle_met_at < OBSTACLE_LIFETIME else None

    def remember(self, pod: Pod, now: datetime) -> None:
        """Take in that a pod is gone. One whose training had not begun leaves no gap: it is simply made again.

        Those of earlier attempts are of no use any more.
        """
        self._removed = {name: known for name, known in self._removed.items() if known.attempt >= pod.attempt}
        if has_ended(pod) or (has_started(pod) and pod.terminating):
            self._removed[pod.name] = pod
        elif has_started(pod):
            self._removed[pod.name] = replace(pod, metadata=replace(pod.metadata, deletion_timestamp=now))

    def removed_pods(self, status: JobStatus) -> dict[str, Pod]:
        """The pods of this attempt that somebody removed, as they were last seen."""
        if not self._removed:
            return {}
        counts = status_of.has_begun(status) and not status_of.is_finished(status) and status.gang_hash != ""
        kept = {name: pod for name, pod in self._removed.items() if counts and pod.attempt == status.attempt}
        self._removed = kept
        return kept
