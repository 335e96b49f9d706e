"""The clock of a pod is wrong, or is set while training runs: what the agent and the operator say stays right."""

import platform
import sys
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import libfaketime
import msgspec
import pytest

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

STEPS = range(1, 10)
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


def report_at(job: Mapping[str, str], step: int) -> AgentReport:
    """What the agent says once it knows of a step."""
    return msgspec.convert(told(job, lambda answer: answer.get("step") == step), AgentReport)


def ages(report: AgentReport) -> list[float]:
    """Of the news and of the step, in seconds."""
    assert report.report_age is not None
    assert report.step_age is not None
    return [report.report_age, report.step_age]


def assert_sane(report: AgentReport, passed: float) -> None:
    """What the operator makes of it is right. ``passed``: seconds since the start."""
    assert all(0 <= age <= passed for age in ages(report)), report
    now = datetime.now(UTC)
    seen = progress.heard(None, Sighting(report, now), now, timedelta(seconds=10))
    assert seen.stale is None
    assert seen.report_time is not None
    assert timedelta(0) <= now - seen.report_time <= timedelta(seconds=passed + 1)
    assert 1 / passed < (seen.steps_per_second or 0) <= 1.25 / STEP_S
    assert STEP_S / 1.25 <= (seen.eta_seconds or 0) / (TOTAL - (seen.step or 0)) <= passed


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the package libfaketime is built for x86-64 only")
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
        assert report_steps(running, STEPS) == {at_first}, "its clock really is wrong"
        before = report_at(job, STEPS[-1])
        assert_sane(before, time.monotonic() - began)

        clock.set_off_by(later)
        after = report_at(job, STEPS[-1])
        passed = time.monotonic() - began
        assert_sane(after, passed)
        assert all(was <= is_now for was, is_now in zip(ages(before), ages(after), strict=True)), "time went on"

        # The second of two quick reports waits for a second: set the clock while it does.
        first, second = STEPS[-1] + 1, STEPS[-1] + 2
        assert report_steps(running, range(first, first + 1)) == {later}
        report_at(job, first)
        asked = time.monotonic()
        assert report_steps(running, range(second, second + 1)) == {later}
        clock.set_off_by(at_first)
        last = report_at(job, second)
        assert_sane(last, time.monotonic() - began)
        assert max(ages(last)) <= time.monotonic() - asked
        close_input(running)
        assert running.end() == 0
