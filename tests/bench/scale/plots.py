"""Pictures of what was measured: how time and processor time grow with workers, jobs, and jobs that are finished."""

import importlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.bench.scale.report import Row, Run, Spread, rows
from tests.bench.scale.scenarios import FINISHED

CREATED = "created_s"
GROWING = {"A:": "one job", "B:": "jobs of 4 workers"}
"""The scenarios that are measured at several sizes, and what these sizes are of."""
SIZE_INCHES = (7, 4.5)
DESCRIPTION = "median, and the range of all repetitions"

Points = list[tuple[float, Spread]]


def draw(runs: Sequence[Run], directory: Path) -> None:
    """Write `created.svg`, `cpu.svg` and `finished.svg` there, as far as there are numbers for them.

    Raises ValueError where matplotlib is missing.
    """
    table = rows(runs)
    pictures = {
        "created.svg": ("pods", "seconds until all pods are created", lines(table, lambda row: row.measures[CREATED])),
        "cpu.svg": ("pods", "CPU seconds of the operator, or of the client", lines(table, _own_cpu)),
        "finished.svg": ("finished jobs that lie around", "seconds, for a burst of jobs", among_finished(table)),
    }
    for name, (across, up, found) in pictures.items():
        if found:
            directory.mkdir(parents=True, exist_ok=True)
            _draw(found, across, up, directory / name)


def lines(table: Sequence[Row], value: Callable[[Row], Spread]) -> dict[str, Points]:
    """For each contestant and scenario its points, by the number of pods."""
    found: dict[str, Points] = {}
    for row in sorted(table, key=lambda row: row.pods):
        if row.case[:2] in GROWING:
            found.setdefault(f"{row.contestant}, {GROWING[row.case[:2]]}", []).append((row.pods, value(row)))
    return found


def among_finished(table: Sequence[Row]) -> dict[str, Points]:
    """Until all pods of a burst are created, and what that costs the operator, by the number of finished jobs."""
    found: dict[str, Points] = {}
    for row in sorted(
        (row for row in table if FINISHED in row.measures), key=lambda row: row.measures[FINISHED].median
    ):
        finished = row.measures[FINISHED].median
        found.setdefault(f"{row.pods} pods, all created", []).append((finished, row.measures[CREATED]))
        found.setdefault(f"{row.pods} pods, CPU of the operator", []).append((finished, _own_cpu(row)))
    return found


def _own_cpu(row: Row) -> Spread:
    return row.cpu_s["operator" if "operator" in row.cpu_s else "client"]


def _draw(found: Mapping[str, Points], across: str, up: str, target: Path) -> None:
    try:
        figures = importlib.import_module("matplotlib.figure")  # who does not draw need not have it
    except ImportError as error:
        raise ValueError("--plots: matplotlib is missing: uv run --group bench") from error
    figure = figures.Figure(figsize=SIZE_INCHES, layout="constrained")
    axes = figure.add_subplot(xlabel=across, ylabel=up, title=DESCRIPTION)
    for what, points in found.items():
        heights = [spread.median for _, spread in points]
        below = [spread.median - spread.low for _, spread in points]
        above = [spread.high - spread.median for _, spread in points]
        axes.errorbar([place for place, _ in points], heights, [below, above], label=what, marker="o", capsize=3)
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(target, metadata={"Date": None})
