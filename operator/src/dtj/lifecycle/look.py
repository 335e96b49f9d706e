"""All that a decision is made from, in one value; the parts of ``decide`` hand it on to each other."""

from dataclasses import dataclass, replace
from datetime import datetime

from dtj.api.job import DistributedTrainingJob
from dtj.api.status import JobStatus
from dtj.lifecycle.observe import Observed
from dtj.plan.topology import Topology


@dataclass(frozen=True)
class Look:
    """One look at one job: who it is, what exists of it, and when. ``topology`` is that of its spec as it is now."""

    job: DistributedTrainingJob
    topology: Topology
    observed: Observed
    now: datetime

    @property
    def status(self) -> JobStatus:
        return self.job.status

    def with_status(self, status: JobStatus) -> "Look":
        """As it will look once this status is written."""
        return replace(self, job=self.job.model_copy(update={"status": status}))

    def after_this_attempt(self) -> "Look":
        """As it will look once another attempt has begun: nothing of that one exists yet."""
        return replace(self, observed=self.observed.as_older())
