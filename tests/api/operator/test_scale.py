"""``kubectl scale``: refused while the job may run, applied while it is suspended."""

import pytest

from dtj.api import names
from tests.api.operator.polling import stays
from tests.api.operator.scene import JOB, Counters, Scene, counters, worker, workers

pytestmark = pytest.mark.api


def scale(scene: Scene, replicas: int) -> str:
    """Return what kubectl said against it."""
    done = scene.client.kubectl("scale", f"dtj/{JOB}", f"--namespace={scene.namespace}", f"--replicas={replicas}")
    return done.stderr if done.returncode else ""


def test_refused_while_the_job_runs(scene: Scene) -> None:
    pods = scene.start()

    refused = scale(scene, 3)

    assert "spec.replicas: Forbidden: can change only while the job is suspended" in refused
    stays("pods and counters", lambda: (scene.pod_uids(), counters(scene.status())), seconds=1)
    assert scene.pod_uids() == pods


@pytest.mark.parametrize("replicas", [1, 4])
def test_applied_while_the_job_is_suspended(scene: Scene, replicas: int) -> None:
    scene.start()
    scene.change({"suspend": True})
    scene.status_in("Suspended")
    scene.pods_are()

    assert scale(scene, replicas) == ""
    scene.change({"suspend": False})
    running = scene.attempt_runs(1, replicas=replicas)

    assert counters(running) == Counters(attempt=1)
    assert running["ready"] == f"{replicas}/{replicas}"
    told = scene.client.request("GET", scene.path(names.PLURAL, JOB) + "/scale").body
    assert (told["spec"]["replicas"], told["status"]["replicas"]) == (replicas, replicas)


def test_the_selector_finds_the_pods_of_the_latest_attempt(scene: Scene) -> None:
    scene.start()
    scene.kubelet.fail(worker(0), 3)
    scene.attempt_runs(1, kept=[worker(0)])

    told = scene.client.request("GET", scene.path(names.PLURAL, JOB) + "/scale").body["status"]

    chosen = scene.client.kubectl_output(
        "get", "pods", f"--namespace={scene.namespace}", f"--selector={told['selector']}", "--output=name"
    )
    assert {f"pod/{name}" for name in workers(2, attempt=1)} <= set(chosen.split())
    assert told["replicas"] == 2
