"""``failurePolicy.rules``: each kind of rule with each action, the first match wins."""

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from tests.api.operator.scene import Counters, Scene, counters, worker

pytestmark = pytest.mark.api

Happening = Callable[[Scene], object]

COUNTED = Counters(attempt=1, restarts=1, since_progress=1)
IGNORED = Counters(attempt=1, restarts=1, since_progress=0)
DISRUPTED = Counters(attempt=1, disruptions=1)
NOT_AGAIN = Counters()


def ended_with_3(scene: Scene) -> None:
    scene.kubelet.fail(worker(1), 3)


def out_of_memory(scene: Scene) -> None:
    scene.kubelet.fail(worker(1), 137, reason="OOMKilled")


def evicted(scene: Scene) -> None:
    scene.kubelet.evict(worker(1), "low on memory")


def deleted(scene: Scene) -> None:
    scene.delete("pods", worker(1))


def drained(scene: Scene) -> None:
    scene.kubelet.choose_for_disruption(worker(1), "EvictionByEvictionAPI")
    scene.delete("pods", worker(1))


def on_codes(action: str, *codes: int, operator: str = "In") -> dict[str, Any]:
    return {"action": action, "onExitCodes": {"operator": operator, "values": list(codes)}}


def on_reason(action: str, reason: str) -> dict[str, Any]:
    return {"action": action, "onReasons": [reason]}


def on_condition(action: str, kind: str, status: str = "True") -> dict[str, Any]:
    return {"action": action, "onPodConditions": [{"type": kind, "status": status}]}


class Case(NamedTuple):
    happens: Happening
    rules: list[dict[str, Any]]
    expected: Counters
    max_restarts: int = 1


CASES: dict[str, Case] = {
    "an exit code fails the job at once": Case(ended_with_3, [on_codes("FailJob", 2, 3)], NOT_AGAIN),
    "an exit code restarts": Case(ended_with_3, [on_codes("RestartJob", 3)], COUNTED),
    "an exit code is not counted": Case(ended_with_3, [on_codes("RestartJobAndIgnore", 3)], IGNORED, 0),
    "another exit code": Case(ended_with_3, [on_codes("FailJob", 2)], COUNTED),
    "all but one exit code": Case(ended_with_3, [on_codes("FailJob", 2, operator="NotIn")], NOT_AGAIN),
    "all but this exit code": Case(ended_with_3, [on_codes("FailJob", 3, operator="NotIn")], COUNTED),
    "a reason fails the job at once": Case(out_of_memory, [on_reason("FailJob", "OOMKilled")], NOT_AGAIN),
    "a reason is not counted": Case(out_of_memory, [on_reason("RestartJobAndIgnore", "OOMKilled")], IGNORED, 0),
    "another reason": Case(out_of_memory, [on_reason("FailJob", "NonZeroExit")], COUNTED),
    "a disruption is counted like a failure": Case(evicted, [on_reason("RestartJob", "Evicted")], COUNTED),
    "a disruption that may not happen again": Case(evicted, [on_reason("RestartJob", "Evicted")], NOT_AGAIN, 0),
    "a disruption fails the job at once": Case(deleted, [on_reason("FailJob", "PodDeleted")], NOT_AGAIN),
    "a disruption is none of the exit codes": Case(deleted, [on_codes("FailJob", 3, operator="NotIn")], DISRUPTED),
    "a condition of the pod": Case(drained, [on_condition("FailJob", "DisruptionTarget")], NOT_AGAIN),
    "a condition that does not hold": Case(drained, [on_condition("FailJob", "DisruptionTarget", "False")], DISRUPTED),
    "a condition is not counted": Case(
        drained, [on_condition("RestartJobAndIgnore", "DisruptionTarget")], DISRUPTED, 0
    ),
    "the first match wins": Case(
        ended_with_3,
        [
            on_codes("FailJob", 2),
            on_codes("RestartJobAndIgnore", 3),
            on_reason("FailJob", "NonZeroExit"),
        ],
        IGNORED,
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_rule(scene: Scene, case: Case) -> None:
    scene.start({"spec.failurePolicy": {"maxRestarts": case.max_restarts, "rules": case.rules}})

    case.happens(scene)
    expected = "Failed" if case.expected is NOT_AGAIN else "Restarting"
    status = scene.status_in(expected)

    assert counters(status) == case.expected
    assert status["lastFailure"]["action"] == action_that_leads_to(case.expected)


def action_that_leads_to(expected: Counters) -> str:
    if expected is NOT_AGAIN:
        return "FailJob"
    return "RestartJob" if expected.since_progress else "RestartJobAndIgnore"


def test_a_rule_that_fails_the_job_says_which_one(scene: Scene) -> None:
    rules = [on_codes("RestartJob", 1), on_codes("FailJob", 3)]
    scene.start({"spec.failurePolicy.rules": rules})

    scene.kubelet.fail(worker(0), 3)
    failed = scene.status_in("Failed", "NonZeroExit")

    message = next(each["message"] for each in failed["conditions"] if each["type"] == "Failed")
    assert "failurePolicy.rules[1] says FailJob" in message
