"""What `helm test` runs: a job as the account of the test may create it, whose life the tests play."""

import base64
import json
import ssl
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import dtj_selftest
import pytest

from dtj.api import names
from dtj.api.job import DistributedTrainingJob
from dtj.plan.validation import mistakes_in
from tests.api.chart.conftest import EVERYTHING, NAMESPACED, SELFTEST, Helm, Manifest, granted, parsed
from tests.api.client import Client
from tests.api.operator.polling import eventually
from tests.api.resource import Resource

pytestmark = pytest.mark.api

SHOWN = f"--show-only={SELFTEST}"
RIGHTS = {(names.GROUP, names.PLURAL): {"create", "get", "delete"}, ("", "pods"): {"create"}}
ACCOUNT = "dtj-operator-test"
WITHOUT_RIGHTS = "somebody"
MAY_NOT_DELETE = "somebody-who-leaves-things-behind"
TIME = "2026-01-01T00:00:00Z"
SECONDS = 30.0


def job_of(text: str) -> Manifest:
    return dict(json.loads(parsed(text).the("ConfigMap")["data"]["job.json"]))


@dataclass(frozen=True)
class Stage:
    """A namespace with the accounts, and the jobs that are there."""

    helm: Helm
    resource: Resource
    address: str
    authority: str

    @property
    def manifest(self) -> Manifest:
        return job_of(self.helm.template(SHOWN))

    def server(self, account: str = ACCOUNT) -> dtj_selftest.ApiServer:
        context = ssl.create_default_context(cadata=self.authority)
        return dtj_selftest.ApiServer(self.address, self.token(account), context)

    def token(self, account: str) -> str:
        return self.resource.client.kubectl_output(
            "create", "token", account, f"--namespace={self.resource.namespace}"
        ).strip()

    def jobs(self) -> list[str]:
        found = self.resource.client.request("GET", self.resource.path).body["items"]
        return [each["metadata"]["name"] for each in found]

    def say(self, **status: Any) -> None:  # noqa: ANN401 - JSON
        """As the operator would, once the job is there."""
        (name,) = eventually("the job is there", self.jobs, lambda there: len(there) == 1)
        answer = self.resource.patch(name, {"status": status}, subresource="status")
        assert answer.accepted, answer.message


@pytest.fixture(scope="module")
def stage(helm: Helm, client: Client, resource: Resource) -> Iterator[Stage]:
    """In a namespace of its own, which has no jobs of others."""
    own = f"dtj-selftest-{uuid4().hex[:8]}"
    client.kubectl_output("create", "namespace", own)
    for account in (WITHOUT_RIGHTS, MAY_NOT_DELETE):
        client.kubectl_output("create", "serviceaccount", account, f"--namespace={own}")
    rights = ("--verb=create,get", f"--resource={names.PLURAL}.{names.GROUP}")
    client.kubectl_output("create", "role", MAY_NOT_DELETE, *rights, f"--namespace={own}")
    binding = (f"--role={MAY_NOT_DELETE}", f"--serviceaccount={own}:{MAY_NOT_DELETE}")
    client.kubectl_output("create", "rolebinding", MAY_NOT_DELETE, *binding, f"--namespace={own}")
    here = Helm(helm.program, own)
    hooks = [each for each in parsed(here.template(SHOWN)) if each["kind"] not in {"Pod", "ConfigMap"}]
    client.kubectl_output("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": hooks}))
    config = json.loads(client.kubectl_output("config", "view", "--raw", "--flatten", "--minify", "-o", "json"))
    cluster = config["clusters"][0]["cluster"]
    authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
    yield Stage(here, Resource(client, own), cluster["server"], authority)
    client.kubectl_output("delete", "namespace", own, "--wait=false")


@pytest.fixture
def background() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as executor:
        yield executor


def started(executor: ThreadPoolExecutor, stage: Stage, account: str = ACCOUNT) -> Future[None]:
    return executor.submit(dtj_selftest.run, stage.server(account), stage.manifest, SECONDS)


@pytest.mark.parametrize(
    "options", [(), (EVERYTHING,), (EVERYTHING, NAMESPACED)], ids=["defaults", "everything", "some"]
)
def test_its_job_is_one_that_the_operator_runs(helm: Helm, options: tuple[str, ...]) -> None:
    job = job_of(helm.template(SHOWN, *options))
    assert mistakes_in(DistributedTrainingJob.model_validate(job)) == ()


def test_its_job_runs_where_the_operator_does(helm: Helm) -> None:
    spec = job_of(helm.template(SHOWN, EVERYTHING))["spec"]["template"]["spec"]
    assert spec["containers"][0]["image"] == "registry.example/team/operator:0.1.0"
    assert spec["nodeSelector"] == {"kubernetes.io/arch": "amd64"}
    assert spec["tolerations"][0]["key"] == "infra"
    assert spec["imagePullSecrets"] == [{"name": "registry"}]


@pytest.mark.parametrize(
    ("watched", "where"),
    [([], None), (["team-a", "team-b"], "team-a"), (["team-a", "here"], None)],
    ids=["all namespaces", "not that of the release", "that of the release too"],
)
def test_its_job_runs_in_a_namespace_that_is_watched(helm: Helm, watched: list[str], where: str | None) -> None:
    given = json.dumps([helm.namespace if each == "here" else each for each in watched])
    objects = parsed(helm.template(SHOWN, f"--set-json=watchNamespaces={given}"))
    expected = where or helm.namespace
    assert json.loads(objects.the("ConfigMap")["data"]["job.json"])["metadata"]["namespace"] == expected
    assert {objects.the(kind)["metadata"]["namespace"] for kind in ("Role", "RoleBinding")} == {expected}
    assert objects.the("RoleBinding")["subjects"][0]["namespace"] == helm.namespace


def test_its_rights_are_these(helm: Helm) -> None:
    assert granted(parsed(helm.template(SHOWN, EVERYTHING)).the("Role")["rules"]) == RIGHTS


def test_it_may_name_the_secrets_of_its_images_where_that_is_asked_for(helm: Helm) -> None:
    rules = parsed(helm.template(SHOWN, EVERYTHING, "--set=admission.secrets=true")).the("Role")["rules"]
    assert rules[-1] == {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["registry"], "verbs": ["get"]}


def test_a_job_that_succeeds(stage: Stage, background: ThreadPoolExecutor, capsys: pytest.CaptureFixture[str]) -> None:
    test = started(background, stage)
    running = {"type": "Running", "status": "False", "reason": "Unschedulable", "message": "no node has room"}
    stage.say(phase="Pending", reason="Unschedulable", conditions=[running | {"lastTransitionTime": TIME}])
    eventually("it says so", lambda: capsys.readouterr().out, lambda text: "Pending (Unschedulable: no node" in text)
    stage.say(phase="Succeeded")
    test.result(SECONDS)
    assert stage.jobs() == []


def test_a_job_that_fails(stage: Stage, background: ThreadPoolExecutor) -> None:
    test = started(background, stage)
    stage.say(
        phase="Failed", lastFailure={"reason": "ImagePullBackOff", "class": "Startup", "attempt": 0, "time": TIME}
    )
    with pytest.raises(dtj_selftest.SelftestError, match="ImagePullBackOff"):
        test.result(SECONDS)
    assert stage.jobs() == []


def test_a_job_that_nobody_looks_at(stage: Stage) -> None:
    with pytest.raises(dtj_selftest.SelftestError, match="within 2 s; it is not seen by the operator"):
        dtj_selftest.run(stage.server(), stage.manifest, deadline_seconds=2)
    assert stage.jobs() == []


@pytest.mark.parametrize(
    ("phase", "message"),
    [("Failed", "^the job failed:"), ("Succeeded", "cannot delete resource")],
    ids=["that fails", "that succeeds"],
)
def test_a_job_that_cannot_be_deleted(
    stage: Stage, background: ThreadPoolExecutor, capsys: pytest.CaptureFixture[str], phase: str, message: str
) -> None:
    """Why the job failed matters more than why it is still there."""
    test = started(background, stage, MAY_NOT_DELETE)
    stage.say(phase=phase)
    with pytest.raises(dtj_selftest.SelftestError, match=message):
        test.result(SECONDS)
    assert ("the job is left behind: DELETE" in capsys.readouterr().out) == (phase == "Failed")
    for name in stage.jobs():
        stage.resource.client.request("DELETE", f"{stage.resource.path}/{name}")


def test_an_account_without_rights(stage: Stage) -> None:
    with pytest.raises(dtj_selftest.SelftestError, match="cannot create resource"):
        dtj_selftest.run(stage.server(WITHOUT_RIGHTS), stage.manifest)


def test_as_a_pod_runs_it(
    stage: Stage, background: ThreadPoolExecutor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the files that a pod has of its account."""
    (tmp_path / "token").write_text(stage.token(ACCOUNT))
    (tmp_path / "ca.crt").write_text(stage.authority)
    (tmp_path / "job.json").write_text(json.dumps(stage.manifest))
    host, _, port = stage.address.removeprefix("https://").rpartition(":")
    monkeypatch.setattr(dtj_selftest, "ACCOUNT", tmp_path)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", port)
    test = background.submit(dtj_selftest.main, tmp_path / "job.json")
    stage.say(phase="Succeeded")
    assert test.result(SECONDS) == 0
