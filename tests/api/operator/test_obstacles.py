"""What keeps the operator from creating a job's children: told in the status, never forced, and healed by itself."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from tests.api.client import Client, Object
from tests.api.operator.accounts import kubeconfig_with, rights_without
from tests.api.operator.polling import eventually, stays
from tests.api.operator.process import Operator
from tests.api.operator.scene import JOB, Counters, Scene, counters, worker, workers

pytestmark = pytest.mark.api

RETRY_SECONDS = 30
"""A refused write is tried again after ten seconds, later after more."""
LONGEST_FIRST_BACKOFF = 15
"""Seconds: 10, spread by up to half."""

SERVICE = f"{JOB}-workers"
FOREIGN: dict[str, tuple[str, str, Object]] = {
    "Service": ("services", SERVICE, {"metadata": {"name": SERVICE}, "spec": {"ports": [{"port": 80}]}}),
    "Pod": (
        "pods",
        worker(1),
        {
            "metadata": {"name": worker(1), "labels": {"app": "somebody-elses"}},
            "spec": {"schedulerName": "tests", "containers": [{"name": "main", "image": "example.com/app:1"}]},
        },
    ),
}


@pytest.mark.parametrize(("kind", "name", "manifest"), FOREIGN.values(), ids=FOREIGN.keys())
def test_a_name_that_somebody_else_holds(scene: Scene, kind: str, name: str, manifest: Object) -> None:
    foreign = scene.create(kind, manifest)

    scene.submit()
    status = scene.status_in("Pending", "NameConflict")
    unchanged = scene.read(kind, name)
    scene.client.request("DELETE", scene.path(kind, name), {"gracePeriodSeconds": 0})
    pods = scene.pods_are(worker(0), worker(1), within=RETRY_SECONDS)
    scene.kubelet.run(*pods)
    scene.status_in("Running", within=RETRY_SECONDS)

    assert name in status["conditions"][0]["message"]
    assert unchanged["metadata"] == foreign["metadata"]
    assert foreign["metadata"]["uid"] not in pods.values()


def set_quota(scene: Scene, pods: int) -> None:
    """Allow so many pods in the namespace, from now on."""
    if "few" in scene.all_of("resourcequotas"):
        scene.patch("resourcequotas", "few", {"spec": {"hard": {"pods": str(pods)}}})
    else:
        scene.create("resourcequotas", {"metadata": {"name": "few"}, "spec": {"hard": {"pods": str(pods)}}})
    eventually(
        "the quota is enforced",
        lambda: scene.read("resourcequotas", "few")["status"],
        lambda status: status.get("hard") == {"pods": str(pods)} and "used" in status,
    )


def test_a_quota_for_no_pod_at_all(scene: Scene) -> None:
    set_quota(scene, 0)

    scene.submit()
    status = scene.status_in("Pending", "QuotaExceeded")
    set_quota(scene, 2)
    pods = scene.pods_are(*workers(2), within=RETRY_SECONDS)
    scene.kubelet.run(*pods)
    running = scene.status_in("Running", within=RETRY_SECONDS)

    assert "exceeded quota: few" in status["conditions"][0]["message"]
    assert counters(running) == Counters(), "there was nothing to give back"


def test_half_a_gang_that_a_quota_lets_through_is_given_back(scene: Scene) -> None:
    set_quota(scene, 1)

    scene.submit()
    given_back = scene.status_of_attempt(1)
    scene.pods_are()
    set_quota(scene, 2)
    scene.let_pass(timedelta(seconds=LONGEST_FIRST_BACKOFF))
    running = scene.attempt_runs(1)

    assert (given_back["phase"], given_back["reason"]) == ("Pending", "QuotaExceeded")
    assert "exceeded quota: few" in given_back["conditions"][0]["message"]
    assert given_back["backoffSeconds"] in range(10, LONGEST_FIRST_BACKOFF + 1)
    assert counters(given_back) == counters(running) == Counters(attempt=1), "neither a failure nor a disruption"


def test_a_restart_under_a_quota_without_room_to_spare(scene: Scene) -> None:
    """The old gang still counts while it ends: that is no reason to give the new one back."""
    set_quota(scene, 2)
    scene.start()

    scene.kubelet.fail(worker(0), 3)
    scene.status_in("Pending", "QuotaExceeded")
    running = scene.attempt_runs(1, kept=[worker(0)])

    assert counters(running) == Counters(attempt=1, restarts=1, since_progress=1)


def test_a_template_that_the_api_server_refuses(scene: Scene) -> None:
    scene.submit({"spec.template.spec.containers.0.volumeMounts": [{"name": "data", "mountPath": "/data"}]})
    status = scene.status_in("Pending", "InvalidTemplate")
    eventually("the event of that", scene.event_reasons, lambda reasons: "InvalidTemplate" in reasons)

    assert 'spec.containers[0].volumeMounts[0].name: Not found: "data"' in status["conditions"][0]["message"]
    writes = stays("the operator's writes", lambda: scene.audit.writes(scene.namespace), seconds=12)
    assert writes["POST pods"] == 2, "each pod once, never again"
    assert scene.pod_uids() == {}


def test_pods_that_the_operator_may_not_create(scene: Scene, operator: Operator, without_pods: Path) -> None:
    operator.terminate()
    operator.start(without_pods)
    operator.wait_until_ready()

    scene.submit()
    status = scene.status_in("Pending", "OperatorForbidden")
    operator.terminate()
    operator.start()
    scene.pods_are(worker(0), worker(1))

    message = status["conditions"][0]["message"]
    assert 'cannot create resource "pods"' in message
    assert f'in the namespace "{scene.namespace}"' in message


@pytest.fixture
def without_pods(client: Client, scene: Scene, tmp_path: Path) -> Iterator[Path]:
    """A kubeconfig of an operator that has every right but that of creating pods."""
    with kubeconfig_with(client, scene, rights_without("create", "pods"), tmp_path) as path:
        yield path
