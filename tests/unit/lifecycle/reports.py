"""Reports of agents in few words."""

from datetime import datetime
from typing import Any

from dtj.lifecycle.agent_report import AgentReport, Ranks, Sighting, SlowestRank
from tests.builders import JOB_UID, NOW


def report(attempt: int = 0, **fields: Any) -> AgentReport:  # noqa: ANN401 - the report's own types
    """Just heard, of the job that ``a_job`` builds."""
    return AgentReport(job_uid=JOB_UID, attempt=attempt, **{"report_age": 0.0, "source": "report", **fields})


def sighting(attempt: int = 0, *, at: datetime = NOW, **fields: Any) -> Sighting:  # noqa: ANN401 - as above
    return Sighting(report(attempt, **fields), at)


def behind(rank: int, steps: int) -> Ranks:
    return Ranks(reporting=2, slowest=SlowestRank(rank=rank, behind_steps=steps))


def silent(rank: int, seconds: float) -> Ranks:
    return Ranks(reporting=1, slowest=SlowestRank(rank=rank, silent_seconds=seconds))
