"""The operator with the chart's rights and both policies: its honest work goes on, and a refusal reaches the job."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from dtj.api import names
from tests.api.admission.actor import MERGE, Actor, account
from tests.api.admission.cage_attacks import NOT_A_JOBS
from tests.api.admission.creator_attacks import NO_PODS
from tests.api.admission.scene import ALLOWED, JOBS, PODS, apply, assert_answered, granted, policy, wait_until_in_force
from tests.api.chart.conftest import Helm, Objects, parsed
from tests.api.client import Client, Object
from tests.api.fake_kubelet import SCHEDULER
from tests.api.operator.accounts import kubeconfig_with
from tests.api.operator.auditing_proxy import Audit
from tests.api.operator.conftest import a_scene, assert_no_traceback
from tests.api.operator.polling import DEADLINE_SECONDS, eventually
from tests.api.operator.process import Operator
from tests.api.operator.scene import JOB, Scene, a_job, worker, workers
from tests.api.resource import TEMPLATE, Resource, changed, role

pytestmark = pytest.mark.api

ACCOUNT = "operator"
HOST_ACCESS = "dtj.dev/host-access"
IDLE = changed(TEMPLATE, {"spec.schedulerName": SCHEDULER})
PRIVILEGED = {"spec.template.spec.containers.0.securityContext.privileged": True}
RETRY_SECONDS = 2 * DEADLINE_SECONDS
"""A refused write is tried again after ten seconds, later after more."""


@pytest.fixture
def scene(client: Client, resource: Resource) -> Iterator[Scene]:
    with a_scene(client, Audit()) as own:
        apply(client, *granted(own.namespace, "trainer", [JOBS, PODS]), *granted(own.namespace, "deputy", [JOBS]))
        yield own


@pytest.fixture
def operator(client: Client, helm: Helm, scene: Scene, tmp_path: Path) -> Iterator[Operator]:
    """With a token of an account that has the rights of the chart's, and is caged as it is."""
    namespace = scene.namespace
    options = (f"--set=watchNamespaces={{{namespace}}},serviceAccount.name={ACCOUNT}",)
    rules = chart_rules(parsed(replace(helm, namespace=namespace).template("--no-hooks")))
    with (
        policy(client, helm, "cage", namespace, *options),
        policy(client, helm, "creators", namespace, *options),
        kubeconfig_with(client, scene, rules, tmp_path) as kubeconfig,
        Operator(kubeconfig, tmp_path / "log") as own,
    ):
        pod = {"metadata": {"name": "a"}, "spec": TEMPLATE["spec"]}
        operator, deputy = Actor(client, account(namespace, ACCOUNT)), Actor(client, "deputy")
        wait_until_in_force(partial(operator.request, "POST", scene.path("pods"), pod), NOT_A_JOBS)
        wait_until_in_force(partial(deputy.request, "POST", scene.path(names.PLURAL), a_job()), NO_PODS)
        own.start()
        own.wait_until_ready()
        yield own
        assert_no_traceback(own.log)


def chart_rules(objects: Objects) -> list[Object]:
    account = objects.the("ServiceAccount")["metadata"]["name"]
    bindings = [each for kind in ("ClusterRoleBinding", "RoleBinding") for each in objects.all(kind)]
    roles = [each["roleRef"] for each in bindings if each["subjects"][0]["name"] == account]
    return [rule for role in roles for rule in objects.the(role["kind"], role["name"])["rules"]]


def submit(client: Client, scene: Scene, job: Object) -> None:
    answer = Actor(client, "trainer").request("POST", scene.path(names.PLURAL), job, dry_run=False)
    assert_answered(answer, ALLOWED)


def test_a_whole_life_is_never_refused(client: Client, scene: Scene, operator: Operator) -> None:
    """Isolated, restarted after a failure, cleaned up, and deleted when its time is over."""
    spec = {"spec.networkIsolation": "Job", "spec.cleanupPolicy": "All", "spec.ttlSecondsAfterFinished": 3}
    submit(client, scene, a_job(spec))
    scene.pods_are(*workers(2))
    scene.kubelet.run(*workers(2))
    scene.status_in("Running")

    scene.kubelet.fail(worker(0), 3)
    scene.attempt_runs(1, kept=[worker(0)])
    scene.kubelet.succeed(*workers(2, attempt=1))
    scene.status_in("Succeeded")

    eventually(
        "the job is deleted",
        lambda: client.request("GET", scene.path(names.PLURAL, JOB)).code,
        lambda code: code == 404,
    )
    assert "denied request" not in operator.log
    assert scene.event_messages("InvalidTemplate") == []


def test_a_pod_that_the_cage_refuses_is_told_in_the_job(client: Client, scene: Scene, operator: Operator) -> None:
    """The administrator takes the namespace's label away under a running job, and gives it back."""
    label(client, scene, "allowed")
    scene.start(PRIVILEGED)

    label(client, scene, None)
    scene.kubelet.fail(worker(0), 3)
    refused = scene.status_in("Pending", "InvalidTemplate")
    label(client, scene, "allowed")
    scene.pods_are(worker(0), *workers(2, attempt=1), within=RETRY_SECONDS)

    assert "may have privileged containers: the namespace lacks the label" in refused["conditions"][0]["message"]


def test_a_job_whose_pods_would_be_called_as_anothers_gets_nothing(
    client: Client, scene: Scene, operator: Operator
) -> None:
    scene.create(names.PLURAL, a_job({"metadata.name": "a-b"}, replicas=1))
    before = scene.pods_are(worker(0, "a-b"))

    collides = {"metadata.name": "a", "spec.framework": "Custom", "spec.roles": [role("b-worker", template=IDLE)]}
    submit(client, scene, a_job(collides, replicas=1))
    in_the_way = f"Pod {worker(0, 'a-b')} "
    scene.status_where(
        "the job says which pod is in its way",
        lambda status: in_the_way in str(status.get("conditions")) and status["phase"] == "Pending",
        job="a",
    )

    assert scene.pod_uids().items() >= before.items()


def label(client: Client, scene: Scene, value: str | None) -> None:
    change = {"metadata": {"labels": {HOST_ACCESS: value}}}
    path = f"/api/v1/namespaces/{scene.namespace}"
    answer = client.request("PATCH", path, change, MERGE)
    assert answer.accepted, answer.message
