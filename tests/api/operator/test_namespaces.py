"""An operator for some namespaces, with the rights that the chart gives it there and no others."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

import pytest
import yaml

from tests.api.chart.conftest import Helm, find_helm
from tests.api.client import Client
from tests.api.operator.auditing_proxy import Audit
from tests.api.operator.conftest import a_scene, assert_no_traceback
from tests.api.operator.process import Operator
from tests.api.operator.scene import Scene, worker, workers
from tests.api.resource import Resource
from tests.cluster.pytest_fixtures import ApiServer

pytestmark = pytest.mark.api

RIGHTS = ("ServiceAccount", "Role", "RoleBinding")


class Namespaces(NamedTuple):
    """Two that are watched, one that is not, and the operator."""

    watched: tuple[Scene, Scene]
    other: Scene
    operator: Operator


@pytest.fixture(scope="module")
def namespaces(
    resource: Resource, api_server: ApiServer, client: Client, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Namespaces]:
    directory, release = tmp_path_factory.mktemp("namespaced"), f"dtj-release-{uuid4().hex[:8]}"
    with ExitStack() as stack:
        first, second, other = (stack.enter_context(a_scene(client, Audit())) for _ in range(3))
        client.kubectl_output("create", "namespace", release)
        stack.callback(client.kubectl_output, "delete", "namespace", release, "--wait=false")
        watched = f"--set=watchNodes=false,watchNamespaces={{{first.namespace},{second.namespace}}}"
        rendered = yaml.load_all(Helm(find_helm(), release).template(watched), yaml.CSafeLoader)
        rights = [each for each in rendered if each and each["kind"] in RIGHTS]
        client.kubectl_output("apply", "-f", "-", stdin="\n---\n".join(map(json.dumps, rights)))
        options = (
            "--no-watch-nodes",
            *(f"--namespace={scene.namespace}" for scene in (first, second)),
            "--leader-elect",
            f"--lease-namespace={release}",
        )
        kubeconfig = _kubeconfig(api_server, client, release, directory / "kubeconfig")
        operator = stack.enter_context(Operator(kubeconfig, directory / "log", *options))
        operator.start()
        operator.wait_until_ready()
        yield Namespaces((first, second), other, operator)
        assert operator.terminate() == 0, operator.log
        assert_no_traceback(operator.log)


def _kubeconfig(api_server: ApiServer, client: Client, namespace: str, path: Path) -> Path:
    """Of the operator's service account."""
    token = client.kubectl_output("create", "token", "dtj-operator", f"--namespace={namespace}").strip()
    content = yaml.safe_load(api_server.kubeconfig.read_text())
    content["users"] = [{"name": each["name"], "user": {"token": token}} for each in content["users"]]
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    return path


def test_jobs_of_each_of_them_are_looked_after(namespaces: Namespaces) -> None:
    for scene in namespaces.watched:
        pods = scene.start()
        scene.kubelet.fail(worker(1), 3)
        scene.attempt_runs(1, kept=[worker(1)])
        scene.kubelet.succeed(*workers(2, attempt=1))
        assert scene.status_in("Succeeded")["restarts"] == 1
        assert len(pods) == 2
    assert "cannot" not in namespaces.operator.log, "it asked for more than it may"


def test_jobs_of_others_are_left_alone(namespaces: Namespaces) -> None:
    namespaces.other.submit()
    first, _ = namespaces.watched
    first.submit({"metadata.name": "later"}, replicas=1)
    first.status_in("Starting", job="later")

    assert namespaces.other.status() == {}
    assert namespaces.other.pod_uids() == {}


def test_a_namespace_that_shuts_the_operator_out_stops_it_for_no_other(namespaces: Namespaces, client: Client) -> None:
    first, second = namespaces.watched
    client.kubectl_output("delete", "rolebinding", "dtj-operator", f"--namespace={second.namespace}")
    assert namespaces.operator.terminate() == 0, namespaces.operator.log

    namespaces.operator.start()
    namespaces.operator.wait_until_ready()

    first.submit({"metadata.name": "alone"}, replicas=1)
    first.status_in("Starting", job="alone")
    told = f"without rights in {second.namespace}: jobs there are not looked after"
    assert told in namespaces.operator.log
    assert namespaces.operator.health("/healthz") == 200
