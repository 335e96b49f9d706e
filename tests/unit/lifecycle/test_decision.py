"""Decisions as text."""

from datetime import timedelta

from dtj.api.reasons import Reason
from dtj.api.status import JobStatus, Phase
from dtj.lifecycle.decision import (
    NOTHING,
    CreateNetworkPolicy,
    CreatePod,
    CreateService,
    Decision,
    DeletePod,
    DeleteService,
    Event,
    EventType,
    render,
)

POD = CreatePod({"metadata": {"name": "a-worker-0"}})


def test_one_line_per_effect_in_the_order_of_execution() -> None:
    decision = Decision(
        requeue_after=timedelta(seconds=1.5),
        events=(Event(EventType.WARNING, Reason.NON_ZERO_EXIT, "exit code 3"),),
        writes=(
            CreateService({"metadata": {"name": "a-workers"}}),
            CreateNetworkPolicy({"metadata": {"name": "a-workers"}}),
            POD,
            DeletePod("a-worker-1", "u1", 10),
            DeleteService("a-workers", "u2"),
        ),
        status=JobStatus(phase=Phase.FAILED, reason=Reason.NON_ZERO_EXIT, attempt=2, ready="0/2"),
    )

    assert render(decision).splitlines() == [
        "status: Failed (NonZeroExit), attempt 2, ready 0/2",
        "create service a-workers",
        "create network policy a-workers",
        "create pod a-worker-0",
        "delete pod a-worker-1 (uid u1)",
        "delete service a-workers (uid u2)",
        "event: Warning NonZeroExit: exit code 3",
        "look again after 1.5 s",
    ]


def test_nothing() -> None:
    assert render(NOTHING) == "nothing to do"
