"""Limits of time: of the start, of the run, and of what is left after the end."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from dtj.api import names
from tests.api.fake_kubelet import TRAINER, waiting
from tests.api.operator.polling import GARBAGE_COLLECTION_SECONDS, eventually, stays
from tests.api.operator.process import Operator
from tests.api.operator.scene import JOB, NO_RESTARTS, Counters, Scene, condition, counters, worker, workers

pytestmark = pytest.mark.api

SHORT = 2
"""Seconds: long enough for the fake kubelet to run two pods."""
LONGEST_FIRST_BACKOFF = 15
"""Seconds: 10, spread by up to half."""

Trouble = Callable[[Scene], None]


def full_cluster(scene: Scene) -> None:
    scene.kubelet.refuse_to_place(worker(1), "0/2 nodes are available: 2 Insufficient nvidia.com/gpu.")


def missing_image(scene: Scene) -> None:
    scene.kubelet.report(worker(1), {TRAINER: waiting("ImagePullBackOff", 'Back-off pulling image "a:b"')})


TROUBLES: dict[str, tuple[Trouble, str, int]] = {
    "the cluster is full": (full_cluster, "Unschedulable: 0/2 nodes are available", 0),
    "an image is missing": (missing_image, "ImagePullBackOff: container trainer", 1),
    "nothing is said of it": (lambda scene: scene.kubelet.place(worker(1)), "ContainerCreating", 1),
}


@pytest.mark.parametrize(("trouble", "words", "since_progress"), TROUBLES.values(), ids=TROUBLES.keys())
def test_half_a_gang_is_given_back(scene: Scene, trouble: Trouble, words: str, since_progress: int) -> None:
    scene.submit({"spec.startupDeadlineSeconds": SHORT})
    scene.pods_are(*workers(2))
    scene.kubelet.run(worker(0))
    trouble(scene)

    given_back = scene.status_of_attempt(1)
    scene.pods_are()
    stays("the pods", scene.pod_uids, seconds=1)

    told = given_back["lastFailure"]
    assert (told["class"], told["reason"], told["attempt"]) == ("Startup", "StartupDeadlineExceeded", 0)
    assert (told["pod"], told["rank"]) == (worker(1), 1)
    assert f"not all pods ran within {SHORT} s (startupDeadlineSeconds): {words}" in told["message"]
    assert counters(given_back) == Counters(attempt=1, restarts=1, since_progress=since_progress)
    assert given_back["backoffSeconds"] in range(10, LONGEST_FIRST_BACKOFF + 1)


def test_a_gang_given_back_comes_again(scene: Scene) -> None:
    scene.submit({"spec.startupDeadlineSeconds": SHORT})
    scene.pods_are(*workers(2))
    full_cluster(scene)
    scene.status_of_attempt(1)

    scene.let_pass(timedelta(seconds=LONGEST_FIRST_BACKOFF))
    scene.attempt_runs(1)
    stays("phase and counters", lambda: (scene.status()["phase"], counters(scene.status())), seconds=SHORT + 1)

    assert counters(scene.status()) == Counters(attempt=1, restarts=1)


def test_a_start_that_never_works_ends_the_job(scene: Scene) -> None:
    scene.submit({**NO_RESTARTS, "spec.startupDeadlineSeconds": SHORT})
    scene.pods_are(*workers(2))
    missing_image(scene)

    failed = scene.status_in("Failed", "StartupDeadlineExceeded")

    assert failed["lastFailure"]["action"] == "FailJob"
    scene.pods_are()


def test_a_start_in_time_is_not_watched_any_more(scene: Scene) -> None:
    pods = scene.start({"spec.startupDeadlineSeconds": 10})

    scene.let_pass(timedelta(hours=1))
    stays("pods and counters", lambda: (scene.pod_uids(), counters(scene.status())), seconds=2)

    assert scene.pod_uids() == pods


def test_a_job_that_runs_too_long_fails(scene: Scene) -> None:
    scene.start({"spec.activeDeadlineSeconds": SHORT})

    failed = scene.status_in("Failed", "DeadlineExceeded")

    message = next(each["message"] for each in failed["conditions"] if each["type"] == "Failed")
    assert f"{SHORT} s (activeDeadlineSeconds)" in message
    assert (condition(failed, "Running"), counters(failed)) == ("False", Counters())
    assert "lastFailure" not in failed, "no pod is to blame"
    scene.pods_are()


def test_only_time_after_all_ran_counts(scene: Scene) -> None:
    scene.submit({"spec.activeDeadlineSeconds": SHORT})
    scene.pods_are(*workers(2))
    scene.kubelet.run(worker(0))

    stays("pods", scene.pod_uids, seconds=SHORT + 1)
    scene.kubelet.run(worker(1))

    scene.status_in("Running")
    scene.status_in("Failed", "DeadlineExceeded")


def test_restarts_count_against_the_time_of_the_job(scene: Scene) -> None:
    scene.start({"spec.activeDeadlineSeconds": 600})
    scene.kubelet.fail(worker(0), 3)
    scene.attempt_runs(1, kept=[worker(0)])

    scene.let_pass(timedelta(seconds=600))

    scene.status_in("Failed", "DeadlineExceeded")


def test_a_deadline_that_passed_while_nobody_looked(scene: Scene, operator: Operator) -> None:
    scene.start({"spec.activeDeadlineSeconds": 600})
    operator.kill()
    scene.let_pass(timedelta(seconds=600))

    operator.start()
    operator.wait_until_ready()

    scene.status_in("Failed", "DeadlineExceeded")
    scene.pods_are()


@pytest.mark.parametrize("end", ["Succeeded", "Failed"])
@pytest.mark.parametrize("ttl", [0, SHORT])
def test_a_finished_job_is_deleted_in_time(scene: Scene, end: str, ttl: int) -> None:
    scene.start({**NO_RESTARTS, "spec.ttlSecondsAfterFinished": ttl})
    if end == "Succeeded":
        scene.kubelet.succeed(*workers(2))
    else:
        scene.kubelet.fail(worker(0), 3)

    eventually("the job is gone", lambda: list(scene.all_of(names.PLURAL)), lambda jobs: not jobs)

    nothing_is_left(scene)


def nothing_is_left(scene: Scene) -> None:
    def left() -> list[str]:
        scene.kubelet.finish_deletions()
        return [*scene.all_of("pods"), *scene.all_of("services")]

    eventually("nothing is left of it", left, lambda found: not found, within=GARBAGE_COLLECTION_SECONDS)


def test_a_job_is_not_deleted_before_its_time(scene: Scene, operator: Operator) -> None:
    scene.start({"spec.ttlSecondsAfterFinished": 600})
    scene.kubelet.succeed(*workers(2))
    scene.status_in("Succeeded")
    stays("the job", lambda: list(scene.all_of(names.PLURAL)), seconds=1)
    operator.kill()
    scene.let_pass(timedelta(seconds=600))
    assert list(scene.all_of(names.PLURAL)) == [JOB]

    operator.start()
    operator.wait_until_ready()

    eventually("the job is gone", lambda: list(scene.all_of(names.PLURAL)), lambda jobs: not jobs)


def test_a_time_given_after_the_end_counts_from_the_end(scene: Scene) -> None:
    scene.start()
    scene.kubelet.succeed(*workers(2))
    scene.status_in("Succeeded")

    scene.change({"ttlSecondsAfterFinished": 0})

    eventually("the job is gone", lambda: list(scene.all_of(names.PLURAL)), lambda jobs: not jobs)
