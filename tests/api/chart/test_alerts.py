"""The alerts, tried by Prometheus's own tool: each fires where it should, and stays quiet where all is well."""

import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from tests.api.chart.conftest import CHART
from tests.cluster import prometheus

pytestmark = pytest.mark.api

FILE = CHART / "alerts" / "dtj.yaml"
RULES = {rule["alert"]: rule for group in yaml.safe_load(FILE.read_text())["groups"] for rule in group["rules"]}
TIMEOUT = 30.0

Series = dict[str, str]
"""Values of each series, one a minute, as promtool writes them: `1+2x3` is 1 3 5 7, `_` is none."""

FIRST = 'instance="10.0.0.1:8080",job="pods",namespace="dtj-system"'
SECOND = 'instance="10.0.0.2:8080",job="pods",namespace="dtj-system"'
OTHER = 'instance="10.0.0.9:8080",job="pods",namespace="other"'
JOB = 'job_namespace="team-a",job_name="digits"'
RUNNING: Series = {
    f'dtj_build_info{{{FIRST},version="1"}}': "1x180",
    f'dtj_build_info{{{SECOND},version="1"}}': "1x180",
}


class Case(NamedTuple):
    """What was read for up to three hours, and whether the alert is there at the end of minute ``at``."""

    alert: str
    series: Series
    at: int
    fires: bool


def leads(*, first: str, second: str, of: str = "dtj-operator") -> Series:
    name = "leader_election_master_status"
    return {**RUNNING, f'{name}{{{FIRST},name="{of}"}}': first, f'{name}{{{SECOND},name="{of}"}}': second}


def failed(values: str, controller: str = "distributedtrainingjob") -> Series:
    return {**RUNNING, f'controller_runtime_reconcile_errors_total{{{FIRST},controller="{controller}"}}': values}


def waiting(values: str, labels: str = FIRST) -> Series:
    return {**RUNNING, f'workqueue_depth{{{labels},name="distributedtrainingjob"}}': values}


def answered(labels: str = FIRST, **requests: str) -> Series:
    """Requests by code, as counted in ``codes``: ``c200``, ``error``."""
    codes = {"error": "<error>"}
    return RUNNING | {
        f'rest_client_requests_total{{{labels},code="{codes.get(name, name[1:])}",method="GET",host="api"}}': values
        for name, values in requests.items()
    }


def restarted(values: str) -> Series:
    return {f"dtj_job_restarts_total{{{JOB},{FIRST}}}": values}


def in_phase(**phases: str) -> Series:
    return {f'dtj_job_phase{{{JOB},{FIRST},phase="{phase}"}}': values for phase, values in phases.items()}


def training(steps: str, *, stale: str = "0x180", phase: str = "Running") -> Series:
    told = {f"dtj_job_step{{{JOB},{FIRST}}}": steps, f"dtj_job_progress_stale{{{JOB},{FIRST}}}": stale}
    return {**in_phase(**{phase: "1x180"}), **told}


CASES = {
    "never seen": Case("DtjOperatorAbsent", {"up": "1x60"}, 11, fires=True),
    "gone": Case("DtjOperatorAbsent", {f"dtj_build_info{{{FIRST}}}": "1x10 _x50"}, 30, fires=True),
    "there": Case("DtjOperatorAbsent", RUNNING, 60, fires=False),
    "replaced": Case("DtjOperatorAbsent", {f"dtj_build_info{{{FIRST}}}": "1x20 _x8 1x30"}, 28, fires=False),
    "nobody leads": Case("DtjNoLeader", leads(first="0x60", second="0x60"), 10, fires=True),
    "the leader is gone and nobody follows": Case(
        "DtjNoLeader", leads(first="1x10 _x50", second="0x60"), 30, fires=True
    ),
    "one leads": Case("DtjNoLeader", leads(first="0x60", second="1x60"), 30, fires=False),
    "another takes over": Case("DtjNoLeader", leads(first="1x10 0x49", second="0x13 1x46"), 12, fires=False),
    "a program of others does not lead": Case(
        "DtjNoLeader", {**RUNNING, f'leader_election_master_status{{{OTHER},name="other"}}': "0x60"}, 30, fires=False
    ),
    "errors all the time": Case("DtjReconcileErrors", failed("0+1x60"), 30, fires=True),
    "one broken job": Case("DtjReconcileErrors", failed("0+1x180"), 120, fires=True),
    "errors for a while": Case("DtjReconcileErrors", failed("0+5x8 40x50"), 10, fires=False),
    "no errors": Case("DtjReconcileErrors", failed("7x60"), 60, fires=False),
    "errors of others": Case("DtjReconcileErrors", failed("0+1x60", controller="pod"), 30, fires=False),
    "a long queue": Case("DtjQueueLong", waiting("500x60"), 20, fires=True),
    "a burst": Case("DtjQueueLong", waiting("0x5 500x5 0x50"), 8, fires=False),
    "a few": Case("DtjQueueLong", waiting("100x60"), 60, fires=False),
    "a queue of others": Case("DtjQueueLong", waiting("500x60", OTHER), 60, fires=False),
    "a tenth is refused": Case("DtjApiRequestsFail", answered(c200="0+90x60", c503="0+10x60"), 40, fires=True),
    "no answers": Case("DtjApiRequestsFail", answered(c200="10x60", error="0+10x60"), 40, fires=True),
    "too many requests": Case("DtjApiRequestsFail", answered(c200="0+90x60", c429="0+10x60"), 40, fires=True),
    "all is well": Case("DtjApiRequestsFail", answered(c200="0+90x60", c201="0+9x60"), 40, fires=False),
    "a lost race is no failure": Case("DtjApiRequestsFail", answered(c200="0+50x60", c409="0+50x60"), 40, fires=False),
    "one in a hundred": Case("DtjApiRequestsFail", answered(c200="0+99x60", c500="0+1x60"), 40, fires=False),
    "a bad moment": Case("DtjApiRequestsFail", answered(c200="0+90x60", c503="0+50x5 250x50"), 8, fires=False),
    "requests of others": Case("DtjApiRequestsFail", answered(OTHER, c500="0+9x60"), 40, fires=False),
    "a restart every ten minutes": Case("DtjJobRestartsOften", restarted("0x9 1x9 2x9 3x9 4x9 5x9"), 59, fires=True),
    "a restart an hour": Case("DtjJobRestartsOften", restarted("3x60 4x60 5x59"), 170, fires=False),
    "many restarts of long ago": Case("DtjJobRestartsOften", restarted("50x180"), 170, fires=False),
    "pending for long": Case("DtjJobPending", in_phase(Pending="1x180"), 61, fires=True),
    "starting after pending": Case("DtjJobPending", in_phase(Pending="1x40", Starting="_x41 1x60"), 70, fires=True),
    "runs in the end": Case("DtjJobPending", in_phase(Pending="1x50", Running="_x51 1x60"), 45, fires=False),
    "suspended": Case("DtjJobPending", in_phase(Suspended="1x180"), 170, fires=False),
    "no step": Case("DtjJobStalled", training("5+1x20 25x100"), 60, fires=True),
    "steps": Case("DtjJobStalled", training("5+1x180"), 170, fires=False),
    "slow steps": Case("DtjJobStalled", training("5x12 6x12 7x12 8x12 9x12"), 55, fires=False),
    "just begun": Case("DtjJobStalled", training("5x12 6x60"), 12, fires=False),
    "no step, and silent": Case("DtjJobStalled", training("25x120", stale="1x120"), 60, fires=False),
    "no step while it waits": Case("DtjJobStalled", training("25x120", phase="Restarting"), 60, fires=False),
    "silent": Case("DtjProgressStale", training("25x120", stale="0x10 1x100"), 40, fires=True),
    "silent for a moment": Case("DtjProgressStale", training("25x120", stale="0x10 1x5 0x90"), 13, fires=False),
}


def tried(directory: Path, case: Case) -> subprocess.CompletedProcess[str]:
    """What promtool says to the expectation."""
    fires = f'count(ALERTS{{alertname="{case.alert}",alertstate="firing"}})'
    expected = [{"labels": "{}", "value": 1}] if case.fires else []
    test: dict[str, Any] = {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in case.series.items()],
        "promql_expr_test": [{"expr": fires, "eval_time": f"{case.at}m", "exp_samples": expected}],
    }
    written = directory / "test.yaml"
    written.write_text(yaml.safe_dump({"rule_files": [str(FILE)], "evaluation_interval": "1m", "tests": [test]}))
    return promtool("test", "rules", str(written))


def promtool(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(prometheus.program(prometheus.PROMTOOL)), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False)


def test_prometheus_takes_the_file() -> None:
    done = promtool("check", "rules", "--lint-fatal", str(FILE))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_when_it_fires(tmp_path: Path, case: Case) -> None:
    done = tried(tmp_path, case)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("alert", RULES)
def test_each_alert_is_tried_both_ways(alert: str) -> None:
    assert {case.fires for case in CASES.values() if case.alert == alert} == {True, False}


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES.keys())
def test_each_alert_says_what_it_means_and_what_to_do(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in {"warning", "critical"}
    assert rule["annotations"].keys() == {"summary", "description", "runbook"}
    assert all(text.endswith(".") for text in rule["annotations"].values())
    assert "docs/operations.md#alerts" in rule["annotations"]["runbook"]
