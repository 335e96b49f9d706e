"""The clock of a pod is wrong, or is set while training runs: what the agent and the operator say stays right."""

import sys
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import libfaketime
import msgspec
import pytest

from dtj.api.status import ProgressStatus
from dtj.lifecycle import progress
from dtj.lifecycle.agent_report import AgentReport, Sighting
from tests.unit.agent.agent_process import Agent, Running, close_input
from tests.unit.agent.asking import told

DAY_S = 86_400

STEP_S = 0.5
TOTAL = 100

TRAINS = f"""
import sys, time
import dtj_trainer
for line in sys.stdin:
    time.sleep({STEP_S})
    dtj_trainer.report(step=int(line), total_steps={TOTAL})
    print(f"reported at {{time.time():.0f}}", flush=True)
"""
"""Works on each step that it is told to, and reports it."""

FIRST_STEPS, LATER_STEPS = range(1, 10), range(10, 15)
"""Reports leave once a second, and the first intervals are no pace yet (``dtj_agent.rates``)."""


class WrongClock:
    """What time it is for programs that start with ``env``; their monotonic clock is right."""

    def __init__(self, file: Path) -> None:
        self._file = file
        _, switches = libfaketime.get_reload_information()
        self.env: Mapping[str, str] = {**switches, "FAKETIME_TIMESTAMP_FILE": str(file)}

    def set_off_by(self, days: int) -> None:
        complete = self._file.with_suffix(".new")
        complete.write_text(f"{days:+d}d\n")
        complete.replace(self._file)


@pytest.fixture
def clock(tmp_path: Path) -> WrongClock:
    return WrongClock(tmp_path / "clock")


def report_steps(running: Running, steps: range) -> set[int]:
    """Have it report steps; how many days its clock was off meanwhile."""
    assert running.process.stdin is not None
    before = running.out.count(b"\n")
    running.process.stdin.write("".join(f"{step}\n" for step in steps).encode())
    running.process.stdin.flush()
    lines = running.lines(before + len(steps))[before:]
    return {round((int(line.removeprefix("reported at ")) - time.time()) / DAY_S) for line in lines}


def progress_at(job: Mapping[str, str], step: int) -> tuple[AgentReport, ProgressStatus]:
    """What the agent says once it knows of a step, and what the operator makes of that."""
    report = msgspec.convert(told(job, lambda answer: answer.get("step") == step), AgentReport)
    now = datetime.now(UTC)
    return report, progress.heard(None, Sighting(report, now), now, timedelta(seconds=10))


@pytest.mark.parametrize(
    ("at_first", "later"),
    [
        pytest.param(1, -1, id="a day ahead, then set back by two"),
        pytest.param(-1, 1, id="a day behind, then set forward by two"),
    ],
)
def test_a_clock_that_is_wrong_by_a_day_changes_nothing(
    agent: Agent, job: dict[str, str], clock: WrongClock, at_first: int, later: int
) -> None:
    began = time.monotonic()
    clock.set_off_by(at_first)
    with agent.started(sys.executable, "-c", TRAINS, env={**job, **clock.env}) as running:
        for days, steps in ((at_first, FIRST_STEPS), (later, LATER_STEPS)):
            clock.set_off_by(days)
            assert report_steps(running, steps) == {days}, "its clock really is wrong"
            report, seen = progress_at(job, steps[-1])
            passed = time.monotonic() - began

            ages = (report.report_age, report.step_age)
            assert all(age is not None and 0 <= age <= passed for age in ages), ages
            assert (seen.step, seen.percent, seen.stale) == (steps[-1], steps[-1], None)
            assert 1 / passed < (seen.steps_per_second or 0) <= 1 / STEP_S
            assert seen.report_time is not None
            assert timedelta(0) <= datetime.now(UTC) - seen.report_time <= timedelta(seconds=passed + 1)
            assert 0.9 * STEP_S <= (seen.eta_seconds or 0) / (TOTAL - steps[-1]) <= passed
        close_input(running)
        assert running.end() == 0
