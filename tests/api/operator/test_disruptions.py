"""A job whose pods are taken away: it starts again, and that counts as a disruption, not as a failure."""

from collections.abc import Callable

import pytest

from tests.api.operator.polling import eventually, stays
from tests.api.operator.process import Operator
from tests.api.operator.scene import JOB, NO_RESTARTS, Counters, Scene, counters, worker, workers

pytestmark = pytest.mark.api

SERVICE = f"{JOB}-workers"
Happening = Callable[[Scene, str], object]


def chosen(reason: str, *, deleted: bool) -> Happening:
    """Marked as the target of a disruption, and then deleted or ended by a signal."""

    def happens(scene: Scene, pod: str) -> None:
        scene.kubelet.choose_for_disruption(pod, reason, "somebody else needs the node")
        if deleted:
            scene.delete("pods", pod)
        else:
            scene.patch_status("pods", pod, {"phase": "Failed", "reason": "Terminated"})

    return happens


def vanishes(scene: Scene, pod: str) -> None:
    answer = scene.client.request("DELETE", scene.path("pods", pod), {"gracePeriodSeconds": 0})
    assert answer.accepted, answer.message


DISRUPTIONS: dict[str, tuple[Happening, str]] = {
    "evicted by the kubelet": (lambda scene, pod: scene.kubelet.evict(pod, "low on memory"), "Evicted"),
    "drained": (chosen("EvictionByEvictionAPI", deleted=True), "Evicted"),
    "preempted": (chosen("PreemptionByScheduler", deleted=True), "Preempted"),
    "taken off a tainted node": (chosen("DeletionByTaintManager", deleted=True), "Evicted"),
    "ended with its node": (chosen("TerminationByKubelet", deleted=False), "Evicted"),
    "deleted by hand": (lambda scene, pod: scene.delete("pods", pod), "PodDeleted"),
    "gone without a trace": (vanishes, "PodDeleted"),
}


@pytest.mark.parametrize(("happens", "reason"), DISRUPTIONS.values(), ids=DISRUPTIONS.keys())
def test_disruption_starts_the_job_again_and_is_not_counted_against_it(
    scene: Scene, happens: Happening, reason: str
) -> None:
    before = scene.start(NO_RESTARTS)

    happens(scene, worker(1))
    status = scene.status_in("Restarting", reason)
    eventually("the old pods are gone but for one that failed", lambda: let_go(scene, set(before)), at_most_the_failed)
    scene.kubelet.run(*workers(2, attempt=1))
    scene.status_in("Running")

    assert counters(status) == Counters(attempt=1, disruptions=1)
    told = status["lastFailure"]
    assert (told["class"], told["action"]) == ("Disruption", "RestartJobAndIgnore")
    assert (told["pod"], told["rank"]) == (worker(1), 1)


def let_go(scene: Scene, old: set[str]) -> set[str]:
    scene.kubelet.finish_deletions()
    pods = set(scene.all_of("pods"))
    return pods & old if set(workers(2, attempt=1)) <= pods else old


def at_most_the_failed(left: set[str]) -> bool:
    return left <= {worker(1)}


def test_a_second_disruption_within_a_minute_is_held_back(scene: Scene) -> None:
    scene.start()
    scene.delete("pods", worker(0))
    first = scene.status_in("Restarting", "PodDeleted")
    scene.attempt_runs(1)

    scene.delete("pods", worker(0, attempt=1))
    second = scene.status_of_attempt(2)

    assert (first.get("backoffSeconds", 0), second["backoffSeconds"]) == (0, 10)
    assert counters(second) == Counters(attempt=2, disruptions=2)


def test_a_pod_deleted_before_all_ran_is_a_disruption_too(scene: Scene) -> None:
    scene.submit(NO_RESTARTS)
    scene.pods_are(*workers(2))
    scene.kubelet.run(worker(0))

    scene.delete("pods", worker(0))
    restarting = scene.status_in("Restarting", "PodDeleted")

    assert counters(restarting) == Counters(attempt=1, disruptions=1)
    scene.attempt_runs(1)


def test_a_pod_that_vanishes_before_all_ran_is_made_again(scene: Scene, operator: Operator) -> None:
    """Nobody has met it, and the operator can't tell that it ever was there.

    It is away meanwhile, because the API server says first that a pod is being deleted, and then that it is gone.
    """
    scene.submit(NO_RESTARTS)
    before = scene.pods_are(*workers(2))

    operator.kill()
    vanishes(scene, worker(0))
    operator.start()
    after = scene.pods_are(*workers(2))
    scene.kubelet.run(*after)

    assert counters(scene.status_in("Running")) == Counters()
    assert after[worker(1)] == before[worker(1)]
    assert after[worker(0)] != before[worker(0)]


def test_all_pods_deleted_at_once_are_one_disruption(scene: Scene) -> None:
    scene.start(replicas=4)

    answer = scene.client.request("DELETE", scene.path("pods"))
    assert answer.accepted, answer.message

    assert counters(scene.attempt_runs(1, replicas=4)) == Counters(attempt=1, disruptions=1)


def test_the_service_comes_back_and_disturbs_nobody(scene: Scene) -> None:
    pods = scene.start()
    scene.delete("services", SERVICE)

    eventually("the Service is there again", lambda: list(scene.all_of("services")), lambda found: found == [SERVICE])

    stays("pods and counters", lambda: (scene.pod_uids(), counters(scene.status())), seconds=1)
    assert scene.pod_uids() == pods
    assert counters(scene.status()) == Counters()


def test_a_pod_of_an_earlier_attempt_that_is_deleted_disturbs_nobody(scene: Scene) -> None:
    scene.start()
    scene.kubelet.fail(worker(0), 3)
    scene.attempt_runs(1, kept=[worker(0)])

    scene.delete("pods", worker(0))
    running = scene.pods_are(*workers(2, attempt=1))

    stays("status and pods", lambda: (scene.status(), scene.pod_uids()), seconds=1)
    assert scene.pod_uids() == running
    assert counters(scene.status()) == Counters(attempt=1, restarts=1, since_progress=1)
