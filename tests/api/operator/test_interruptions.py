"""The operator ends and comes back: jobs are not disturbed by it, and nothing that happened meanwhile is lost."""

import random
import time
from collections.abc import Callable
from typing import Any

import pytest

from dtj.api import names
from tests.api.operator.auditing_proxy import AuditingProxy
from tests.api.operator.polling import GARBAGE_COLLECTION_SECONDS, eventually
from tests.api.operator.process import Operator
from tests.api.operator.scene import JOB, Scene, a_job, worker

pytestmark = pytest.mark.api

KILLS = 10
WORKERS = 20
SIGTERM_SECONDS = 10


def test_killed_again_and_again(scene: Scene, operator: Operator) -> None:
    chance = random.Random(WORKERS)  # noqa: S311 - moments, not secrets
    moments = sorted(chance.randrange(WORKERS) for _ in range(KILLS // 2))
    seen: dict[str, str] = {}
    scene.submit(replicas=WORKERS)
    for pods in moments:
        eventually(f"{pods} pods", scene.pod_uids, at_least(pods))
        seen |= killed_and_started(operator, scene, seen)
    operator.wait_until_ready()
    seen |= scene.pods_are(*map(worker, range(WORKERS)))
    for index in range(KILLS // 2):
        scene.kubelet.run(*(worker(each) for each in range(index, WORKERS, KILLS // 2)))
        seen |= killed_and_started(operator, scene, seen)
    operator.wait_until_ready()
    scene.status_in("Running")
    scene.kubelet.succeed(*seen)
    status = scene.status_in("Succeeded")

    assert scene.pod_uids() == seen
    assert (status["attempt"], status["restarts"], status.get("lastFailure")) == (0, 0, None)


def at_least(count: int) -> Callable[[dict[str, str]], bool]:
    return lambda found: len(found) >= count


def killed_and_started(operator: Operator, scene: Scene, seen: dict[str, str]) -> dict[str, str]:
    """Kill the operator and start it anew; return the pods, which must still be those ``seen`` before."""
    operator.kill()
    now = scene.pod_uids()
    assert seen.items() <= now.items(), "a pod is gone or another has taken its place"
    operator.start()
    return now


@pytest.mark.parametrize("code", [401, 403, 404, 410, 429, 500])
def test_a_watch_of_the_jobs_that_is_refused(scene: Scene, operator: Operator, proxy: AuditingProxy, code: int) -> None:
    operator.terminate()
    proxy.refusals[:] = [code, code]
    operator.start()
    operator.wait_until_ready()

    eventually("all refusals", lambda: proxy.refusals, lambda left: left == [])
    scene.start()

    assert operator.is_alive


Happening = Callable[[Scene], object]

MEANWHILE: dict[str, tuple[Happening, str, str]] = {
    "all workers succeed": (lambda scene: scene.kubelet.succeed(worker(0), worker(1)), "Succeeded", "Succeeded"),
    "a worker fails": (lambda scene: scene.kubelet.fail(worker(1), 3, "boom"), "Restarting", "NonZeroExit"),
    "a pod is deleted": (lambda scene: scene.delete("pods", worker(0)), "Restarting", "PodDeleted"),
    "the job is suspended": (lambda scene: scene.change({"suspend": True}), "Suspended", "JobSuspended"),
}


@pytest.mark.parametrize(("happens", "phase", "reason"), MEANWHILE.values(), ids=MEANWHILE.keys())
def test_what_happened_meanwhile_is_seen(
    scene: Scene, operator: Operator, happens: Happening, phase: str, reason: str
) -> None:
    scene.start()
    operator.kill()

    happens(scene)
    scene.kubelet.finish_deletions()
    operator.start()
    operator.wait_until_ready()

    scene.status_in(phase, reason)


def test_a_job_submitted_meanwhile_is_started(scene: Scene, operator: Operator) -> None:
    operator.kill()
    scene.submit()

    operator.start()
    operator.wait_until_ready()

    scene.pods_are(worker(0), worker(1))


def test_a_job_deleted_and_created_again_meanwhile(scene: Scene, operator: Operator) -> None:
    old = scene.start()
    operator.kill()
    scene.delete(names.PLURAL, JOB)
    scene.pods_are(within=GARBAGE_COLLECTION_SECONDS)
    scene.submit()

    operator.start()
    operator.wait_until_ready()
    new = scene.pods_are(worker(0), worker(1))

    assert not set(new.values()) & set(old.values())


def test_a_restart_writes_nothing_for_jobs_that_are_fine(scene: Scene, operator: Operator) -> None:
    scene.start()
    finished = scene.create(names.PLURAL, a_job({"metadata.name": "finished"}))["metadata"]["name"]
    scene.pods_are(worker(0), worker(1), worker(0, finished), worker(1, finished))
    scene.kubelet.succeed(worker(0, finished), worker(1, finished))
    scene.status_in("Succeeded", job=finished)
    operator.kill()
    before: Any = (scene.audit.writes(scene.namespace), scene.pod_uids(), scene.status(), scene.status(finished))

    operator.start()
    operator.wait_until_ready()
    scene.create(names.PLURAL, a_job({"metadata.name": "later"}))  # seen after the others
    scene.pods_are(*before[1], worker(0, "later"), worker(1, "later"))
    scene.delete(names.PLURAL, "later")
    scene.pods_are(*before[1])

    writes = scene.audit.writes(scene.namespace) - before[0]
    assert set(writes.values()) == {1, 2}, f"those of the later job alone: {writes}"
    assert (scene.pod_uids(), scene.status(), scene.status(finished)) == before[1:]


@pytest.mark.parametrize("busy", [False, True], ids=["idle", "creating pods"])
def test_a_polite_end(scene: Scene, operator: Operator, busy: bool) -> None:
    if busy:
        scene.submit(replicas=200)
        eventually("some pods", scene.pod_uids, lambda pods: len(pods) > 10)
    began = time.monotonic()

    code = operator.terminate()

    assert code == 0, operator.log
    assert time.monotonic() - began < SIGTERM_SECONDS
