"""Pictures of what was measured: how time and processor time grow with a job's workers, and with the number of jobs."""

import importlib
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.bench.scale.report import Row, Run, Spread, rows

CREATED = "created_s"
GROWING = {"A:": "one job", "B:": "jobs of 4 workers"}
"""The scenarios that are measured at several sizes, and what these sizes are of."""
SIZE_INCHES = (7, 4.5)
DESCRIPTION = "median, and the range of all repetitions"


def draw(runs: Sequence[Run], directory: Path) -> None:
    """Write `created.svg` and `cpu.svg` there, where anything was created.

    Raises ValueError where matplotlib is missing.
    """
    table = [row for row in rows(runs) if row.case.startswith(tuple(GROWING))]
    if not table:
        return
    directory.mkdir(parents=True, exist_ok=True)
    _draw(table, lambda row: row.measures[CREATED], "seconds until all pods are created", directory / "created.svg")
    _draw(table, _own_cpu, "CPU seconds of the operator, or of the client", directory / "cpu.svg")


def lines(table: Sequence[Row], value: Callable[[Row], Spread]) -> dict[str, list[tuple[int, Spread]]]:
    """For each contestant and scenario its points, by the number of pods."""
    found: dict[str, list[tuple[int, Spread]]] = {}
    for row in sorted(table, key=lambda row: row.pods):
        found.setdefault(f"{row.contestant}, {GROWING[row.case[:2]]}", []).append((row.pods, value(row)))
    return found


def _own_cpu(row: Row) -> Spread:
    return row.cpu_s["operator" if "operator" in row.cpu_s else "client"]


def _draw(table: Sequence[Row], value: Callable[[Row], Spread], label: str, target: Path) -> None:
    try:
        figures = importlib.import_module("matplotlib.figure")  # who does not draw need not have it
    except ImportError as error:
        raise ValueError("--plots: matplotlib is missing: uv run --group bench") from error
    figure = figures.Figure(figsize=SIZE_INCHES, layout="constrained")
    axes = figure.add_subplot(xlabel="pods", ylabel=label, title=DESCRIPTION)
    for contestant, points in lines(table, value).items():
        heights = [spread.median for _, spread in points]
        below = [spread.median - spread.low for _, spread in points]
        above = [spread.high - spread.median for _, spread in points]
        axes.errorbar([pods for pods, _ in points], heights, [below, above], label=contestant, marker="o", capsize=3)
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(target, metadata={"Date": None})
