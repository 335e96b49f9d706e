"""The operator is killed in the middle of a restart: what was counted is counted once, and no pod runs twice."""

import pytest

from dtj.api import names
from tests.api.operator.auditing_proxy import AuditingProxy
from tests.api.operator.polling import eventually
from tests.api.operator.process import Operator
from tests.api.operator.scene import Counters, Scene, counters, worker, workers

pytestmark = pytest.mark.api

STATUS = f"PATCH {names.PLURAL}/status"
ONCE = Counters(attempt=1, restarts=1, since_progress=1)

MOMENTS: dict[str, tuple[str, int]] = {
    "before the next attempt is committed": (STATUS, 0),
    "before the first survivor is deleted": ("DELETE pods", 0),
    "between two deletions": ("DELETE pods", 2),
    "before the first pod is created": ("POST pods", 0),
    "between two creations": ("POST pods", 3),
    "before the event": ("POST events", 0),
    "before the status of the new pods": (STATUS, 1),
}


@pytest.mark.parametrize(("kind", "passing"), MOMENTS.values(), ids=MOMENTS.keys())
def test_killed_in_a_restart(scene: Scene, operator: Operator, proxy: AuditingProxy, kind: str, passing: int) -> None:
    scene.start(replicas=4)

    with proxy.stopping(scene.namespace, kind, after=passing) as barrier:
        scene.kubelet.fail(worker(2), 3, "boom")
        if (kind, passing) == (STATUS, 1):
            scene.pods_are(worker(2), *workers(4, attempt=1))
            scene.kubelet.run(*workers(4, attempt=1))
        eventually("the operator is at this point", barrier.reached.is_set, bool)
        operator.kill()
    operator.start()
    operator.wait_until_ready()
    running = scene.attempt_runs(1, replicas=4, kept=[worker(2)])

    assert counters(running) == ONCE
    assert (running["lastFailure"]["pod"], running["lastFailure"]["exitCode"]) == (worker(2), 3)


def test_killed_before_each_of_several_failures(scene: Scene, operator: Operator) -> None:
    """The budget is that of the job, not that of the process."""
    scene.start({"spec.failurePolicy.maxRestarts": 1})
    operator.kill()
    scene.kubelet.fail(worker(0), 3)
    operator.start()
    operator.wait_until_ready()
    scene.attempt_runs(1, kept=[worker(0)])
    operator.kill()
    scene.kubelet.fail(worker(0, attempt=1), 3)

    operator.start()
    operator.wait_until_ready()
    failed = scene.status_in("Failed", "NonZeroExit")

    assert counters(failed) == ONCE


def test_killed_during_a_backoff(scene: Scene, operator: Operator) -> None:
    scene.start()
    scene.delete("pods", worker(0))
    scene.attempt_runs(1)
    scene.delete("pods", worker(0, attempt=1))
    held_back = scene.status_of_attempt(2)
    operator.kill()

    operator.start()
    operator.wait_until_ready()
    running = scene.attempt_runs(2)

    created = scene.read("pods", worker(0, attempt=2))["metadata"]["creationTimestamp"]
    assert held_back["backoffSeconds"] == 10
    assert created > held_back["attemptTime"]
    assert counters(running) == Counters(attempt=2, disruptions=2)
    assert running["attemptTime"] == held_back["attemptTime"]


def test_a_pod_that_vanished_while_nobody_looked(scene: Scene, operator: Operator) -> None:
    scene.start()
    operator.kill()
    answer = scene.client.request("DELETE", scene.path("pods", worker(1)), {"gracePeriodSeconds": 0})
    assert answer.accepted, answer.message

    operator.start()
    operator.wait_until_ready()

    assert counters(scene.attempt_runs(1)) == Counters(attempt=1, disruptions=1)
