"""Which cases there are, and who takes part in them."""

from collections.abc import Mapping

import pytest

from tests.bench.scale import contestants, scenarios
from tests.bench.scale.cluster import Cluster
from tests.bench.scale.contestants import Maker
from tests.bench.scale.manifests import Shape
from tests.bench.scale.scenarios import Sizes

FULL = {
    "A": [(1, 250), (1, 500), (1, 1_000)],
    "B": [(50, 4), (200, 4), (1_000, 4)],
    "C": [(1, 4)],
    "D": [(1, 4), (1, 1_000)],
    "E": [(1_000, 10)],
    "G": [(1_000, 1)],
    "H": [(100, 4), (100, 4)],
    "I": [(200, 4), (200, 4), (200, 4)],
}


class Other:
    """A contestant from somewhere else that cannot restart jobs."""

    name = "other"

    def __init__(self, cluster: Cluster) -> None:
        pass

    def prepare(self, namespace: str, shape: Shape) -> None:
        pass

    def pids(self) -> Mapping[str, int]:
        return {}

    def submit(self) -> None:
        pass

    def end(self) -> None:
        pass


@pytest.mark.parametrize(("letter", "shapes"), FULL.items())
def test_sizes_are_those_of_the_budgets(letter: str, shapes: list[tuple[int, int]]) -> None:
    found = scenarios.cases(letter, Sizes())

    assert [(case.shape.jobs, case.shape.workers) for case in found] == shapes


def test_how_many_finished_jobs_lie_around() -> None:
    assert [case.variant for case in scenarios.cases("I", Sizes())] == [
        "among 0 finished", "among 1,000 finished", "among 5,000 finished",
    ]  # fmt: skip


def test_no_two_cases_are_called_the_same() -> None:
    every = [case.name for case in scenarios.cases("".join(FULL), Sizes())]

    assert len(set(every)) == len(every)


def test_a_scale_leaves_something_of_everything() -> None:
    assert [str(case.shape) for case in scenarios.cases("BD", Sizes(scale=0.001))] == [
        "1 x 4", "1 x 4", "1 x 4", "1 x 4", "1 x 4",
    ]  # fmt: skip


def test_a_letter_that_is_no_scenario() -> None:
    with pytest.raises(ValueError, match="scenarios X: there are A, B, C"):
        scenarios.cases("AX", Sizes())


def test_a_part_of_a_name() -> None:
    assert [case.name for case in scenarios.cases("AB", Sizes(), "200 x 4")] == ["B: 200 x 4"]
    with pytest.raises(ValueError, match="no case of AB has '7 x 7' in its name"):
        scenarios.cases("AB", Sizes(), "7 x 7")


TAKE_PART = {
    "all of them create": ("A", {"ours", "floor", "indexed-job", "other"}),
    "who can, restarts": ("D", {"ours", "floor"}),
    "the operator alone rests": ("E", {"ours"}),
}


@pytest.mark.parametrize(("letter", "expected"), TAKE_PART.values(), ids=TAKE_PART.keys())
def test_who_takes_part(letter: str, expected: set[str]) -> None:
    makers: dict[str, Maker] = {**{name: contestants.maker(name) for name in contestants.USUAL}, "other": Other}
    [case, *_] = scenarios.cases(letter, Sizes())

    assert {name for name, make in makers.items() if scenarios.competes(case, name, make)} == expected


def test_a_class_of_somebody_else_is_found_by_its_name() -> None:
    assert contestants.maker("tests.bench.scale.contestants:Floor") is contestants.Floor


UNKNOWN = {
    "no such name": ("jobset", "use ours, floor, indexed-job or package.module:Class"),
    "no such module": ("no_such_module:Class", "No module named 'no_such_module'"),
    "no such class": ("tests.bench.scale.contestants:Nobody", "has no attribute 'Nobody'"),
}


@pytest.mark.parametrize(("name", "words"), UNKNOWN.values(), ids=UNKNOWN.keys())
def test_a_contestant_that_there_is_not(name: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        contestants.maker(name)
