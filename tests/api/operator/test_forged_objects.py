"""Objects in another namespace that say they belong to a job: a namespace is the border, so they mean nothing."""

from collections.abc import Iterator
from typing import Any

import pytest

from dtj.api import labels, names
from tests.api.client import Client
from tests.api.operator.conftest import a_scene
from tests.api.operator.scene import JOB, Counters, Scene, counters, worker, workers

pytestmark = pytest.mark.api

KEPT = ["dtj.dev/kept-by-an-attacker"]
"""A finalizer: the garbage collector would remove objects whose owner is not in their namespace."""


@pytest.fixture
def attacker(client: Client, scene: Scene) -> Iterator[Scene]:
    with a_scene(client, scene.audit) as own:
        yield own
        for resource in ("pods", "services"):
            for name in own.all_of(resource):
                own.patch(resource, name, {"metadata": {"finalizers": None}})


def forged(victim: dict[str, Any], name: str, **spec: object) -> dict[str, Any]:
    """An object as it would be of the victim's job."""
    uid = victim["metadata"]["uid"]
    owner = {"apiVersion": names.API_VERSION, "kind": names.KIND, "name": JOB, "uid": uid, "controller": True}
    own = {labels.JOB_UID: uid, labels.JOB_NAME: JOB, labels.ROLE: "worker", labels.INDEX: "0", labels.ATTEMPT: "0"}
    metadata = {"name": name, "labels": own, "ownerReferences": [owner], "finalizers": KEPT}
    return {"metadata": metadata, "spec": spec}


def test_a_forged_pod_hides_none_and_its_end_ends_nothing(scene: Scene, attacker: Scene) -> None:
    pods = scene.start()
    spec = {"nodeName": attacker.node.name, "containers": [{"name": "trainer", "image": "busybox"}]}
    attacker.create("pods", forged(scene.read(names.PLURAL, JOB), worker(0), **spec))
    attacker.kubelet.fail(worker(0), 3)

    scene.kubelet.fail(worker(1), 3)
    running = scene.attempt_runs(1, kept=[worker(1)])

    assert counters(running) == Counters(attempt=1, restarts=1, since_progress=1)
    assert running["lastFailure"]["pod"] == worker(1)
    assert len(pods) == 2


def test_a_forged_service_stands_in_for_none(scene: Scene, attacker: Scene) -> None:
    scene.submit({"spec.suspend": True})
    scene.status_in("Suspended")
    attacker.create("services", forged(scene.read(names.PLURAL, JOB), f"{JOB}-workers", clusterIP="None"))

    scene.change({"suspend": False})

    scene.pods_are(*workers(2))
    assert list(scene.all_of("services")) == [f"{JOB}-workers"]
