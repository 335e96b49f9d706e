"""What is drawn: points of contestants by the number of pods."""

from tests.bench.scale import plots, report
from tests.bench.scale.report import Run, Spread
from tests.bench.scale.usage import Usage


def a_run(contestant: str, jobs: int, created_s: float) -> Run:
    usage = {"client": Usage(1, 1)}
    return Run(f"B: {jobs} x 4", contestant, 1, jobs, 4, {"created_s": created_s}, usage, {})


def test_points_are_ordered_by_pods_whatever_came_first() -> None:
    table = report.rows([a_run("ours", 10, 2.0), a_run("floor", 10, 1.0), a_run("ours", 1, 0.5)])

    found = plots.lines(table, lambda row: row.measures["created_s"])

    assert found == {
        "ours, jobs of 4 workers": [(4, Spread(0.5, 0.5, 0.5)), (40, Spread(2, 2, 2))],
        "floor, jobs of 4 workers": [(40, Spread(1, 1, 1))],
    }
