"""What an agent says of the training in its pod, as read from its answer or from its last words.

Agents are not trusted: another program may answer at the address, and the training's own numbers may be anything. So
everything is bounded here, and what does not fit is no report.
"""

from datetime import datetime
from typing import Annotated, Final

from msgspec import Meta, Struct, field

from dtj.api.model import EXACT_MAX
from dtj.api.status import MAX_METRICS

MAX_ANSWER: Final = 64 * 1024
"""Bytes of an answer; an honest one has a few hundred."""

Whole = Annotated[int, Meta(ge=0, le=EXACT_MAX)]
Number = Annotated[float, Meta(ge=0, le=float(EXACT_MAX))]
MAX_AGE: Final = 10 * 365 * 86_400.0
"""Seconds; no pod is older."""
Age = Annotated[float, Meta(ge=0, le=MAX_AGE)]
Word = Annotated[str, Meta(pattern=r"^[a-z]+\Z", max_length=32)]
MetricName = Annotated[str, Meta(min_length=1, max_length=64)]
Metrics = Annotated[dict[MetricName, float], Meta(max_length=MAX_METRICS)]


class SlowestRank(Struct, frozen=True, rename="camel"):
    """The rank that holds the others up.

    ``silent_seconds``: how long it has not reported, where it did before. ``local_seconds``: its own time of a step,
    before it waits for the others.
    """

    rank: Whole
    behind_steps: Whole = 0
    silent_seconds: Number | None = None
    local_seconds: Number | None = None
    typical_local_seconds: Number | None = None

    @property
    def holds_up(self) -> str:
        """How, in a clause; empty where it is only slower."""
        if self.silent_seconds is not None:
            return f"rank {self.rank} has not reported for {self.silent_seconds:.0f} s"
        return f"rank {self.rank} is {self.behind_steps} steps behind" if self.behind_steps else ""


class Ranks(Struct, frozen=True, rename="camel"):
    """What the other processes of the job reported to this agent."""

    reporting: Whole = 0
    slowest: SlowestRank | None = None


class Training(Struct, frozen=True, rename="camel"):
    """The numbers of a training; None is what it does not tell.

    ``seconds_per_change``: usual time between two reports of another step, where not every step is told.
    """

    source: Word | None = None
    step: Whole | None = None
    total_steps: Whole | None = None
    epoch: Number | None = None
    total_epochs: Number | None = None
    first_step: Whole | None = None
    percent: Number | None = None
    eta_seconds: Number | None = None
    steps_per_second: Number | None = None
    samples_per_second: Number | None = None
    seconds_per_step: Number | None = None
    seconds_per_change: Number | None = None
    metrics: Metrics = field(default_factory=dict)
    ranks: Ranks = Ranks()

    @property
    def tells_progress(self) -> bool:
        return any(each is not None for each in (self.step, self.epoch, self.percent)) or bool(self.metrics)


class AgentReport(Training, frozen=True, rename="camel", kw_only=True):
    """An agent's answer. Ages are in seconds, by a clock that nobody sets; None: that has not happened yet."""

    job_uid: str
    attempt: Whole
    running: bool = True
    report_age: Age | None = None
    step_age: Age | None = None


class Sighting(Struct, frozen=True):
    """A report, and when this process heard it."""

    report: AgentReport
    time: datetime
