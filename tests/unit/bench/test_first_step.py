"""What is applied by hand in the place of a job, and what is made of the numbers."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.bench import first_step
from tests.bench.first_step import BUDGET_SECONDS, Overhead, Start
from tests.bench.real_bed import last
from tests.kubectl import Object

MOMENTS = {
    ("first-step-worker-0", "Pending"): 100.25,
    ("first-step-worker-1", "Pending"): 100.5,
    ("first-step-worker-0", "Running"): 102.0,
    ("first-step-worker-1", "Running"): 101.0,
    ("sentinel", "Pending"): 99.0,
}


def template_spec() -> Object:
    spec: Object = first_step.ours()["spec"]["template"]["spec"]
    return spec


def trainer(spec: Object) -> Object:
    [container] = spec["containers"]
    found: Object = container
    return found


def by_hand() -> tuple[Object, list[Object]]:
    service, *pods = first_step.by_hand()["items"]
    return service, pods


SAME_ON_BOTH_SIDES: dict[str, Callable[[Object], Any]] = {
    "image": lambda spec: trainer(spec)["image"],
    "resources": lambda spec: trainer(spec)["resources"],
    "variables": lambda spec: trainer(spec)["env"],
    "security of the container": lambda spec: trainer(spec)["securityContext"],
    "security of the pod": lambda spec: spec["securityContext"],
    "volumes": lambda spec: spec["volumes"],
    "launcher": lambda spec: trainer(spec)["command"][0],
    "script and its options": lambda spec: trainer(spec)["command"][-3:],
    "spread": lambda spec: {**spec["topologySpreadConstraints"][0], "labelSelector": None},
}


@pytest.mark.parametrize("part", SAME_ON_BOTH_SIDES.values(), ids=SAME_ON_BOTH_SIDES.keys())
def test_pods_by_hand_are_those_of_the_job(part: Callable[[Object], Any]) -> None:
    _, pods = by_hand()

    assert [part(pod["spec"]) for pod in pods] == [part(template_spec())] * 2


@pytest.mark.parametrize("rank", [0, 1])
def test_torchrun_by_hand_is_told_by_options(rank: int) -> None:
    _, pods = by_hand()

    assert trainer(pods[rank]["spec"])["command"] == [
        "torchrun",
        "--nnodes=2",
        "--nproc-per-node=1",
        f"--node-rank={rank}",
        "--master-addr=first-step-worker-0.first-step",
        "--master-port=29500",
        *trainer(template_spec())["command"][1:],
    ]


def test_the_address_of_rank_0_by_hand_is_a_name_of_the_service() -> None:
    service, pods = by_hand()

    names = [(pod["metadata"]["name"], pod["spec"]["hostname"], pod["spec"]["subdomain"]) for pod in pods]

    assert names == [(f"first-step-worker-{rank}", f"first-step-worker-{rank}", "first-step") for rank in (0, 1)]
    assert service["metadata"]["name"] == "first-step"


def test_service_and_spread_by_hand_select_the_pods() -> None:
    service, pods = by_hand()

    for pod in pods:
        [constraint] = pod["spec"]["topologySpreadConstraints"]
        assert constraint["labelSelector"]["matchLabels"] == pod["metadata"]["labels"] == service["spec"]["selector"]


def test_nothing_by_hand_is_the_operators() -> None:
    assert "dtj.dev" not in str(first_step.by_hand())


def test_each_is_the_first_as_often_as_the_other() -> None:
    turns = [list(first_step.in_turn(number)) for number in range(1, 5)]

    assert turns == [["ours", "by hand"], ["by hand", "ours"]] * 2


def test_the_last_pod_counts() -> None:
    assert first_step.start_of(MOMENTS, stepped=105.5, began=100.0) == Start(0.5, 2.0, 5.5)
    assert last(MOMENTS, ["first-step-worker-1"], "Running") == 101.0


OVERHEADS = {
    "with an outlier": (
        [Start(0.5, 2.0, 6.0), Start(0.75, 2.0, 6.5), Start(3.0, 4.0, 9.0)],
        [Start(0.25, 1.5, 6.0), Start(0.25, 1.5, 6.0), Start(0.5, 1.5, 7.0)],
        Overhead(0.5, 0.5, 0.0),
    ),
    "before the pods only": ([Start(0.5, 2.0, 6.25)], [Start(0.25, 2.0, 6.0)], Overhead(0.25, 0.25, 0.0)),
    "after the pods only": ([Start(0.25, 2.0, 6.5)], [Start(0.25, 2.0, 6.0)], Overhead(0.5, 0.0, 0.5)),
    "made up for": ([Start(0.75, 2.0, 6.0)], [Start(0.25, 2.0, 6.0)], Overhead(0.0, 0.5, -0.5)),
    "none, but noise": ([Start(0.25, 2.0, 6.0)], [Start(0.25, 2.0, 6.25)], Overhead(-0.25, 0.0, -0.25)),
}


@pytest.mark.parametrize(("ours", "hand", "expected"), OVERHEADS.values(), ids=OVERHEADS.keys())
def test_the_overhead_is_the_difference_of_medians(ours: list[Start], hand: list[Start], expected: Overhead) -> None:
    medians = {"ours": first_step.spreads(ours), "by hand": first_step.spreads(hand)}

    assert first_step.overhead(medians) == expected


def test_the_sentence_tells_budget_and_parts() -> None:
    told = first_step.sentence(Overhead(0.75, 0.5, 0.25))

    assert told.startswith(
        f"the operator adds 0.75 s (budget {BUDGET_SECONDS:g} s): 0.5 s until all pods are created, "
    )
    assert "0.25 s after that" in told


def test_the_report_keeps_every_repetition() -> None:
    measured = {"ours": [Start(0.5, 2.0, 6.5)], "by hand": [Start(0.25, 1.0, 6.0)]}
    medians = {name: first_step.spreads(starts) for name, starts in measured.items()}

    told = first_step.report({"cores": 2}, measured, medians)

    assert told["repetitions"] == {
        "ours": [{"pods_created": 0.5, "pods_running": 2.0, "first_step": 6.5}],
        "by hand": [{"pods_created": 0.25, "pods_running": 1.0, "first_step": 6.0}],
    }
    assert told["overhead"] == {"total": 0.5, "until_created": 0.25, "after_created": 0.25, "budget": BUDGET_SECONDS}
