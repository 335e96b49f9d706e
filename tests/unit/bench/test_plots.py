"""What is drawn: points of contestants by the number of pods."""

from tests.bench.scale import plots, report
from tests.bench.scale.report import Run, Spread
from tests.bench.scale.usage import Usage

ONCE = Spread(1, 1, 1)


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


def among(finished: int, created_s: float, jobs: int = 200) -> Run:
    measures = {"created_s": created_s, "finished_jobs": finished}
    return Run(f"I: {jobs} x 4 among {finished}", "ours", 1, jobs, 4, measures, {"operator": Usage(1, 1)}, {})


def test_what_lies_around_is_a_picture_of_its_own() -> None:
    table = report.rows([among(5_000, 2.0), among(0, 1.5), among(0, 0.5, jobs=20), a_run("ours", 10, 2.0)])

    found = plots.among_finished(table)

    assert found == {
        "800 pods, all created": [(0, Spread(1.5, 1.5, 1.5)), (5_000, Spread(2, 2, 2))],
        "800 pods, CPU of the operator": [(0, ONCE), (5_000, ONCE)],
        "80 pods, all created": [(0, Spread(0.5, 0.5, 0.5))],
        "80 pods, CPU of the operator": [(0, ONCE)],
    }


def test_nothing_is_drawn_of_what_was_not_measured() -> None:
    assert plots.among_finished(report.rows([a_run("ours", 10, 2.0)])) == {}
    assert plots.lines(report.rows([among(0, 1.5)]), lambda row: row.measures["created_s"]) == {}
