"""From repetitions to medians: the JSON document, and the tables of it."""

import math
import os
import platform
import statistics
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.bench.scale.usage import Usage

BASELINE = "floor"


@dataclass(frozen=True)
class Run:
    """One repetition of one case by one contestant."""

    case: str
    contestant: str
    repetition: int
    jobs: int
    workers: int
    measures: dict[str, float]
    usage: dict[str, Usage]
    requests: dict[str, int]


@dataclass(frozen=True)
class Spread:
    """A median with the lowest and the highest value."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{short(self.median)} ({short(self.low)}-{short(self.high)})"


@dataclass(frozen=True)
class Row:
    """All repetitions of one case by one contestant."""

    case: str
    contestant: str
    pods: int
    repetitions: int
    measures: dict[str, Spread]
    cpu_s: dict[str, Spread]
    peak_rss_mb: dict[str, Spread]
    requests: dict[str, Spread]


def spread(values: Sequence[float]) -> Spread:
    return Spread(statistics.median(values), min(values), max(values))


def percentile(values: Sequence[float], percent: float) -> float:
    """The lowest value that so many percent of ``values`` do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def short(number: float) -> str:
    """Three significant digits, and no fewer before the decimal point."""
    return f"{number:.0f}" if abs(number) >= 100 else f"{number:.3g}"


def rows(runs: Iterable[Run]) -> list[Row]:
    """One row for each case and contestant, in the order of their first runs."""
    groups: dict[tuple[str, str], list[Run]] = {}
    for run in runs:
        groups.setdefault((run.case, run.contestant), []).append(run)
    return [_row(group) for group in groups.values()]


def markdown(runs: Sequence[Run]) -> str:
    """Two tables: what was measured of each case, and what was written in each."""
    table = rows(runs)
    return f"{_measures_table(table)}\n\n{_requests_table(table)}\n"


def document(runs: Sequence[Run], options: dict[str, Any], about: dict[str, object]) -> dict[str, Any]:
    """Everything that was measured, as JSON: each repetition, not only its median. ``about``: `machine` before."""
    return {"machine": about, "options": options, "runs": [asdict(run) for run in runs]}


def read(content: dict[str, Any]) -> list[Run]:
    """The runs of a ``document``."""
    return [
        Run(**{**run, "usage": {name: Usage(**usage) for name, usage in run["usage"].items()}})
        for run in content["runs"]
    ]


def differences(documents: Iterable[dict[str, Any]]) -> list[str]:
    """What several documents were not measured alike in, such as "commit": their runs are no repetitions of each other.

    The load before may differ.
    """
    machines = [each["machine"] for each in documents]
    names = dict.fromkeys(name for each in machines for name in each if name != "load_before")
    return [name for name in names if len({str(each.get(name)) for each in machines}) > 1]


def machine() -> dict[str, object]:
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "cores": os.cpu_count(),
        "memory_gb": round(memory / 1e9, 1),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "commit": _commit(),
        "load_before": float(Path("/proc/loadavg").read_text(encoding="ascii").split()[0]),
    }


def _commit() -> str:
    """Of the working tree, with a mark if it was changed since; empty where there is no Git."""
    command = ("git", "describe", "--always", "--dirty", "--abbrev=12")
    try:
        done = subprocess.run(
            command, cwd=Path(__file__).parent, capture_output=True, text=True, timeout=10, check=False
        )
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip()


def _row(group: Sequence[Run]) -> Row:
    first = group[0]
    kinds = sorted({kind for run in group for kind in run.requests})
    return Row(
        first.case,
        first.contestant,
        first.jobs * first.workers,
        len(group),
        {name: spread([run.measures.get(name, 0) for run in group]) for name in first.measures},
        {name: spread([run.usage[name].cpu_s for run in group]) for name in first.usage},
        {name: spread([run.usage[name].peak_rss_mb for run in group]) for name in first.usage},
        {kind: spread([run.requests.get(kind, 0) for run in group]) for kind in kinds},
    )


def _measures_table(table: Sequence[Row]) -> str:
    baselines = {row.case: row for row in table if row.contestant == BASELINE}
    lines = ["| case | contestant | measure | median (min-max) | of the floor |", "|---|---|---|---|---|"]
    for row in table:
        baseline = baselines.get(row.case)
        for name, value in row.measures.items():
            other = baseline.measures.get(name) if baseline else None
            lines.append(f"| {row.case} | {row.contestant} | {name} | {value} | {_ratio(value, other)} |")
        for name, value in row.cpu_s.items():
            memory = row.peak_rss_mb[name]
            used = f"{value} s, {memory} MB"
            lines.append(f"| {row.case} | {row.contestant} | {name}: CPU, memory at most | {used} | |")
        if "operator" in row.cpu_s:
            each = short(1000 * row.cpu_s["operator"].median / row.pods)
            lines.append(f"| {row.case} | {row.contestant} | operator: CPU per pod | {each} ms | |")
    return "\n".join(lines)


def _ratio(value: Spread, baseline: Spread | None) -> str:
    return short(value.median / baseline.median) if baseline and baseline.median else ""


def _requests_table(table: Sequence[Row]) -> str:
    lines = ["| case | contestant | request | median (min-max) | for each pod |", "|---|---|---|---|---|"]
    lines += [
        f"| {row.case} | {row.contestant} | {kind} | {value} | {short(value.median / row.pods)} |"
        for row in table
        for kind, value in row.requests.items()
    ]
    return "\n".join(lines)
