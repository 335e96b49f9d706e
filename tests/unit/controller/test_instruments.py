"""What is measured of the process, by the rules of controller-runtime."""

import asyncio
from datetime import timedelta

import pytest

from dtj.controller.instruments import CONTROLLER, Instruments
from dtj.controller.queue import Key, WorkQueue
from dtj.controller.reconcile import Outcome
from dtj.kube.errors import ApiError, UnreachableError

WITHOUT_SOCKETS = True
KEY, OTHER = Key("team-a", "digits", "uid-1"), Key("team-a", "letters", "uid-2")


def value(instruments: Instruments, metric: str, **labels: str) -> float | None:
    return instruments.registry.get_sample_value(metric, labels)


def of_controller(instruments: Instruments, metric: str, **labels: str) -> float | None:
    return value(instruments, f"controller_runtime_{metric}", controller=CONTROLLER, **labels)


def of_queue(instruments: Instruments, metric: str, **labels: str) -> float | None:
    return value(instruments, f"workqueue_{metric}", name=CONTROLLER, controller=CONTROLLER, **labels)


async def look(outcome: Outcome | Exception, seconds: float = 0.0) -> Outcome:
    await asyncio.sleep(seconds)
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


OUTCOMES: dict[str, tuple[Outcome, str, int]] = {
    "all is done": (Outcome(), "success", 0),
    "a deadline is ahead": (Outcome(again_after=timedelta(seconds=5)), "requeue_after", 0),
    "it was changed meanwhile": (Outcome(error=ApiError(409, "Conflict", "changed")), "requeue", 0),
    "it was refused": (Outcome(error=ApiError(403, "Forbidden", "no")), "error", 1),
    "nobody answered": (Outcome(error=UnreachableError("no answer")), "error", 1),
}


@pytest.mark.parametrize(("outcome", "result", "errors"), OUTCOMES.values(), ids=OUTCOMES.keys())
async def test_how_a_look_is_counted(outcome: Outcome, result: str, errors: int) -> None:
    instruments = Instruments()
    assert await instruments.looks.measured(look(outcome)) is outcome
    counted = {
        each: of_controller(instruments, "reconcile_total", result=each)
        for each in ("success", "error", "requeue", "requeue_after")
    }
    assert {word: count for word, count in counted.items() if count} == {result: 1}
    assert of_controller(instruments, "reconcile_errors_total") == errors
    assert of_controller(instruments, "reconcile_panics_total") == 0


async def test_a_fault_is_counted_and_goes_on() -> None:
    instruments = Instruments()
    with pytest.raises(KeyError):
        await instruments.looks.measured(look(KeyError("fault")))
    assert of_controller(instruments, "reconcile_panics_total") == 1
    assert of_controller(instruments, "reconcile_errors_total") == 1
    assert of_controller(instruments, "reconcile_total", result="error") == 1
    assert of_controller(instruments, "active_workers") == 0


async def test_looks_under_way_and_how_long_they_took() -> None:
    instruments = Instruments()
    instruments.looks.workers(32)
    looking = asyncio.gather(*(instruments.looks.measured(look(Outcome(), seconds)) for seconds in (2.0, 5.0)))
    await asyncio.sleep(1)
    assert of_controller(instruments, "active_workers") == 2
    await looking
    assert of_controller(instruments, "active_workers") == 0
    assert of_controller(instruments, "max_concurrent_reconciles") == 32
    assert of_controller(instruments, "reconcile_time_seconds_sum") == pytest.approx(7, abs=0.1)
    assert of_controller(instruments, "reconcile_time_seconds_bucket", le="2.5") == 1


async def test_the_queue_while_jobs_wait_and_are_worked_on() -> None:
    instruments = Instruments()
    queue = WorkQueue(meter=instruments.queue)
    queue.add(KEY)
    queue.add(OTHER, urgent=True)
    queue.add(OTHER)
    instruments.queue.read(queue)
    assert [of_queue(instruments, "depth", priority=each) for each in "01"] == [1, 1]
    assert of_queue(instruments, "adds_total") == 2

    await asyncio.sleep(3)
    await queue.get()
    await asyncio.sleep(2)
    await queue.get()
    instruments.queue.read(queue)
    assert [of_queue(instruments, "depth", priority=each) for each in "01"] == [0, 0]
    assert of_queue(instruments, "queue_duration_seconds_sum") == pytest.approx(3 + 5, abs=0.1)
    await asyncio.sleep(4)
    instruments.queue.read(queue)
    assert of_queue(instruments, "unfinished_work_seconds") == pytest.approx(6 + 4, abs=0.1)
    assert of_queue(instruments, "longest_running_processor_seconds") == pytest.approx(6, abs=0.1)

    queue.done(OTHER)
    queue.failed(KEY, at_least=10)
    instruments.queue.read(queue)
    assert of_queue(instruments, "work_duration_seconds_sum") == pytest.approx(6 + 4, abs=0.1)
    assert of_queue(instruments, "unfinished_work_seconds") == 0
    assert of_queue(instruments, "longest_running_processor_seconds") == 0
    assert of_queue(instruments, "retries_total") == 1


def test_requests_are_counted_by_code_method_and_host() -> None:
    instruments = Instruments()
    count = instruments.requests_to("https://10.0.0.1:6443")
    for method, code in (("GET", "200"), ("GET", "200"), ("POST", "<error>")):
        count(method, code)
    name = "rest_client_requests_total"
    assert value(instruments, name, code="200", method="GET", host="10.0.0.1:6443") == 2
    assert value(instruments, name, code="<error>", method="POST", host="10.0.0.1:6443") == 1


def test_who_leads_is_told_once_there_is_an_election() -> None:
    instruments = Instruments()
    name = "leader_election_master_status"
    assert value(instruments, name, name="dtj-operator") is None
    for leads in (True, False):
        instruments.leading("dtj-operator", leads)
        assert value(instruments, name, name="dtj-operator") == leads
