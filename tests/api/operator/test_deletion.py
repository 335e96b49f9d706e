"""Deleting a job leaves nothing, at any moment, and costs the operator nothing."""

from collections.abc import Callable
from typing import Any

import pytest

from dtj.api import names
from tests.api.operator.polling import GARBAGE_COLLECTION_SECONDS, eventually
from tests.api.operator.process import Operator
from tests.api.operator.scene import JOB, NO_RESTARTS, Scene, worker

pytestmark = pytest.mark.api


def test_nothing_is_left_of_a_running_job(scene: Scene) -> None:
    scene.start()
    before = scene.audit.writes(scene.namespace)

    scene.delete(names.PLURAL, JOB)

    nothing_is_left(scene)
    # Where the news of its pods overtakes that of the job, the operator reads it, and finds nothing.
    assert scene.audit.writes(scene.namespace) == before, "the garbage collector does it all"


@pytest.mark.parametrize("end", ["succeed", "fail"])
def test_nothing_is_left_of_a_finished_job(scene: Scene, end: str) -> None:
    scene.start(NO_RESTARTS)
    if end == "succeed":
        scene.kubelet.succeed(worker(0), worker(1))
        scene.status_in("Succeeded")
    else:
        scene.kubelet.fail(worker(0), 1)
        scene.status_in("Failed")

    scene.delete(names.PLURAL, JOB)

    nothing_is_left(scene)


def test_nothing_is_left_of_jobs_deleted_while_their_pods_are_created(scene: Scene) -> None:
    for number in range(10):
        job = f"digits-{number}"
        scene.submit({"metadata.name": job}, replicas=10)
        if number % 2:
            eventually("a first pod", scene.pod_uids, one_is_of(job))
        scene.delete(names.PLURAL, job)

    nothing_is_left(scene)


def test_nothing_is_left_of_a_namespace(scene: Scene, operator: Operator) -> None:
    """Its pods may go before its jobs: the job then starts again where nothing may be created any more."""
    scene.start(replicas=4)
    here = f"/api/v1/namespaces/{scene.namespace}"

    answer = scene.client.request("DELETE", here)
    assert answer.accepted, answer.message

    def namespace() -> tuple[int, list[str]]:
        scene.kubelet.finish_deletions()
        return scene.client.request("GET", here).code, list(scene.all_of("pods"))

    eventually("the namespace is gone", namespace, lambda now: now[0] == 404, within=GARBAGE_COLLECTION_SECONDS)
    assert operator.is_alive
    assert scene.audit.writes(scene.namespace)["POST pods"] <= 4 + 4, "tried again once, if at all"


def test_a_job_of_the_same_name_gets_pods_of_its_own(scene: Scene) -> None:
    old = scene.start()
    scene.delete(names.PLURAL, JOB)
    new_job = scene.submit()
    waiting = scene.status_in("Pending", "EarlierJobTerminating")  # nobody has let go of the old pods yet

    def new_pods() -> dict[str, Any]:
        scene.kubelet.finish_deletions()
        return {name: uid for name, uid in scene.pod_uids().items() if uid not in old.values()}

    new = eventually("the new job's pods", new_pods, lambda pods: len(pods) == 2, within=GARBAGE_COLLECTION_SECONDS)
    scene.kubelet.run(*new)
    scene.status_in("Running")

    assert "of an earlier job of this name is still there" in waiting["conditions"][0]["message"]
    assert scene.pod_uids() == new
    service = scene.all_of("services")[f"{JOB}-workers"]
    assert service["metadata"]["ownerReferences"][0]["uid"] == new_job["metadata"]["uid"]


def one_is_of(job: str) -> Callable[[dict[str, str]], bool]:
    return lambda pods: any(name.startswith(job) for name in pods)


def nothing_is_left(scene: Scene) -> None:
    def left() -> list[str]:
        scene.kubelet.finish_deletions()
        return [*scene.all_of(names.PLURAL), *scene.all_of("pods"), *scene.all_of("services")]

    eventually("nothing is left", left, lambda found: not found, within=GARBAGE_COLLECTION_SECONDS)
