"""What keeps others away from a job's pods: the NetworkPolicy it may ask for, and no token unless it asks for one."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dtj.api import names
from dtj.api.job import DistributedTrainingJob
from dtj.plan.network_policy import network_policy
from tests.api.client import Client, Object
from tests.api.operator.accounts import kubeconfig_with, rights_without
from tests.api.operator.polling import GARBAGE_COLLECTION_SECONDS, eventually, stays
from tests.api.operator.process import Operator
from tests.api.operator.scene import JOB, NO_RESTARTS, Scene, worker, workers

pytestmark = pytest.mark.api

ISOLATED = {"spec.networkIsolation": "Job"}
POLICY = f"{JOB}-workers"
RETRY_SECONDS = 30
"""A refused write is tried again after ten seconds, later after more."""
FOREIGN: Object = {"metadata": {"name": POLICY}, "spec": {"podSelector": {}}}


def policies(scene: Scene) -> dict[str, Object]:
    return scene.all_of("networkpolicies")


def creations(scene: Scene) -> list[str]:
    return [request.what for request in scene.audit.requests(scene.namespace) if request.method == "POST"]


def test_the_policy_is_made_as_planned_before_the_pods(scene: Scene) -> None:
    scene.start(ISOLATED)

    job = DistributedTrainingJob.model_validate(scene.read(names.PLURAL, JOB))
    planned, stored = network_policy(job, None), policies(scene)[POLICY]
    assert stored["spec"] == planned["spec"], "taken without a change"
    assert stored["metadata"]["labels"] == planned["metadata"]["labels"]
    assert stored["metadata"]["ownerReferences"] == planned["metadata"]["ownerReferences"]
    made = creations(scene)
    assert made.count("networkpolicies") == 1
    assert made.index("networkpolicies") < made.index("pods")
    assert all(
        pod["metadata"]["labels"].items() >= stored["spec"]["podSelector"]["matchLabels"].items()
        for pod in scene.all_of("pods").values()
    )


def test_a_job_that_does_not_ask_costs_no_request(scene: Scene) -> None:
    scene.start()

    whats = {request.what for request in scene.audit.requests(scene.namespace)}
    assert "networkpolicies" not in whats
    assert policies(scene) == {}


def test_a_restart_makes_a_deleted_policy_anew_and_leaves_one_that_is_there(scene: Scene) -> None:
    scene.start(ISOLATED)
    first = policies(scene)[POLICY]["metadata"]["uid"]

    scene.kubelet.fail(worker(0), 3)
    scene.attempt_runs(1, kept=[worker(0)])
    kept = policies(scene)[POLICY]["metadata"]["uid"]
    scene.delete("networkpolicies", POLICY)
    scene.kubelet.fail(worker(0, attempt=1), 3)
    scene.pods_are(worker(0), worker(0, attempt=1), *workers(2, attempt=2), within=RETRY_SECONDS)

    assert kept == first
    assert policies(scene)[POLICY]["metadata"]["uid"] != first


def test_the_policy_goes_with_the_job_and_not_before(scene: Scene) -> None:
    scene.start({**NO_RESTARTS, **ISOLATED, "spec.cleanupPolicy": "All"})
    scene.kubelet.succeed(*workers(2))
    scene.status_in("Succeeded")
    left_at_end = list(policies(scene))

    scene.delete(names.PLURAL, JOB)
    eventually(
        "the policy is gone", lambda: list(policies(scene)), lambda left: not left, within=GARBAGE_COLLECTION_SECONDS
    )

    assert left_at_end == [POLICY]
    assert "DELETE networkpolicies" not in scene.audit.writes(scene.namespace)


def test_a_policy_of_that_name_that_is_somebody_elses(scene: Scene) -> None:
    foreign = scene.create("networkpolicies", FOREIGN)

    scene.submit(ISOLATED)
    status = scene.status_in("Pending", "NameConflict")
    unchanged = policies(scene)[POLICY]
    without_policy = scene.pod_uids()
    scene.delete("networkpolicies", POLICY)
    scene.pods_are(*workers(2), within=RETRY_SECONDS)

    assert f"NetworkPolicy {POLICY} exists" in status["conditions"][0]["message"]
    assert (unchanged["metadata"], without_policy) == (foreign["metadata"], {})
    assert policies(scene)[POLICY]["metadata"]["uid"] != foreign["metadata"]["uid"]


def test_a_policy_that_a_quota_forbids(scene: Scene) -> None:
    count = "count/networkpolicies.networking.k8s.io"
    scene.create("resourcequotas", {"metadata": {"name": "none"}, "spec": {"hard": {count: "0"}}})
    eventually(
        "the quota is enforced",
        lambda: scene.read("resourcequotas", "none")["status"],
        lambda status: status.get("hard") == {count: "0"} and "used" in status,
    )

    scene.submit(ISOLATED)
    status = scene.status_in("Pending", "QuotaExceeded")

    assert "exceeded quota: none" in status["conditions"][0]["message"]
    tried = stays("the pods", scene.pod_uids, seconds=2)
    assert tried == {}


def test_a_policy_that_the_operator_may_not_make(scene: Scene, operator: Operator, without_policies: Path) -> None:
    operator.terminate()
    operator.start(without_policies)
    operator.wait_until_ready()

    scene.submit(ISOLATED)
    status = scene.status_in("Pending", "OperatorForbidden")
    unprotected = scene.pod_uids()
    operator.terminate()
    operator.start()
    scene.pods_are(*workers(2))

    assert 'cannot create resource "networkpolicies"' in status["conditions"][0]["message"]
    assert unprotected == {}
    assert list(policies(scene)) == [POLICY]


@pytest.fixture
def without_policies(client: Client, scene: Scene, tmp_path: Path) -> Iterator[Path]:
    """A kubeconfig of an operator that has every right but that of creating NetworkPolicies."""
    with kubeconfig_with(client, scene, rights_without("create", "networkpolicies"), tmp_path) as path:
        yield path


def test_a_job_that_asks_for_isolation_while_suspended_begins_anew(scene: Scene) -> None:
    scene.start()

    scene.change({"suspend": True})
    scene.change({"networkIsolation": "Job", "suspend": False})
    status = scene.attempt_runs(1)

    assert list(policies(scene)) == [POLICY]
    assert (status["restarts"], status["disruptions"]) == (0, 0)


TOKENS: dict[str, tuple[dict[str, Any], bool]] = {
    "by default": ({}, False),
    "with an account of its own": ({"spec.template.spec.serviceAccountName": "default"}, False),
    "asked for": ({"spec.template.spec.automountServiceAccountToken": True}, True),
}


@pytest.mark.parametrize(("changes", "mounted"), TOKENS.values(), ids=TOKENS.keys())
def test_a_token_is_mounted_only_where_it_is_asked_for(scene: Scene, changes: dict[str, Any], mounted: bool) -> None:
    scene.submit(changes, replicas=1)
    scene.pods_are(worker(0))

    spec = scene.read("pods", worker(0))["spec"]
    projected = [source for volume in spec["volumes"] for source in volume.get("projected", {}).get("sources", ())]

    assert any("serviceAccountToken" in source for source in projected) is mounted
