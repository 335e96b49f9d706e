"""From repetitions to medians and tables."""

import json

import pytest

from tests.bench.scale import report
from tests.bench.scale.report import Run, Spread
from tests.bench.scale.usage import Usage


def a_run(contestant: str, created_s: float, *, case: str = "A: 1 x 10", repetition: int = 1) -> Run:
    usage = {"operator" if contestant == "ours" else "client": Usage(cpu_s=created_s / 10, peak_rss_mb=50)}
    return Run(case, contestant, repetition, 1, 10, {"created_s": created_s}, usage, {"POST pods": 10})


THREE = [a_run("ours", seconds, repetition=number) for number, seconds in enumerate((4.0, 1.0, 2.0), start=1)]


def test_a_row_tells_median_and_range() -> None:
    [row] = report.rows(THREE)

    assert (row.repetitions, row.pods) == (3, 10)
    assert row.measures == {"created_s": Spread(2.0, 1.0, 4.0)}
    assert row.cpu_s["operator"] == Spread(0.2, 0.1, 0.4)
    assert row.requests == {"POST pods": Spread(10, 10, 10)}


def test_contestants_and_cases_have_rows_of_their_own() -> None:
    mixed = [a_run("ours", 1), a_run("floor", 1), a_run("ours", 1, case="B: 2 x 5"), a_run("ours", 3)]

    found = [(row.case, row.contestant, row.repetitions) for row in report.rows(mixed)]

    assert found == [("A: 1 x 10", "ours", 2), ("A: 1 x 10", "floor", 1), ("B: 2 x 5", "ours", 1)]


def test_a_request_that_came_in_one_repetition_only_counts_as_none_in_the_others() -> None:
    rare = a_run("ours", 1)
    rare.requests["PATCH events"] = 2

    [row] = report.rows([*THREE, rare])

    assert row.requests["PATCH events"] == Spread(0, 0, 2)


def test_the_table_compares_with_the_floor_of_the_same_case() -> None:
    text = report.markdown([*THREE, a_run("floor", 1.6), a_run("floor", 99, case="B: 2 x 5")])

    assert "| A: 1 x 10 | ours | created_s | 2 (1-4) | 1.25 |" in text
    assert "| A: 1 x 10 | ours | operator: CPU per pod | 20 ms | |" in text
    assert "| A: 1 x 10 | ours | POST pods | 10 (10-10) | 1 |" in text


def test_without_a_floor_nothing_is_compared() -> None:
    assert "| A: 1 x 10 | ours | created_s | 2 (1-4) |  |" in report.markdown(THREE)


def test_a_document_is_read_back_as_it_was_written() -> None:
    written = json.loads(json.dumps(report.document(THREE, {"repetitions": 3}, report.machine())))

    assert report.read(written) == THREE
    assert written["machine"]["cores"] >= 1


PERCENTILES = {
    "of one": ([7.0], 99, 7.0),
    "the highest of few": ([3.0, 1.0, 2.0], 99, 3.0),
    "not the highest of many": ([float(number) for number in range(1, 201)], 99, 198.0),
    "the middle": ([4.0, 1.0, 3.0, 2.0], 50, 2.0),
    "the lowest": ([4.0, 1.0], 0, 1.0),
}


@pytest.mark.parametrize(("values", "percent", "expected"), PERCENTILES.values(), ids=PERCENTILES.keys())
def test_percentiles(values: list[float], percent: float, expected: float) -> None:
    assert report.percentile(values, percent) == expected


@pytest.mark.parametrize(
    ("number", "written"), [(0.012345, "0.0123"), (1.2345, "1.23"), (12, "12"), (123.4, "123"), (12345.6, "12346")]
)
def test_short_numbers(number: float, written: str) -> None:
    assert report.short(number) == written


ONE = {"machine": {"cores": 2, "commit": "a1", "load_before": 0.1}}
ALIKE = {
    "at another load": ({"cores": 2, "commit": "a1", "load_before": 2.0}, []),
    "of another commit": ({"cores": 2, "commit": "b2", "load_before": 0.1}, ["commit"]),
    "on another machine": ({"cores": 64, "commit": "a1", "load_before": 0.1}, ["cores"]),
    "before that was told": ({"cores": 2, "load_before": 0.1}, ["commit"]),
}


@pytest.mark.parametrize(("machine", "expected"), ALIKE.values(), ids=ALIKE.keys())
def test_what_was_not_measured_alike(machine: dict[str, object], expected: list[str]) -> None:
    assert report.differences([ONE, {"machine": machine}]) == expected
