"""Fixtures of the operator's tests: one operator for a module, a scene for each test."""

from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

import pytest

from tests.api.client import Client
from tests.api.fake_kubelet import FakeKubelet
from tests.api.fake_node import FakeNode, a_node
from tests.api.operator.auditing_proxy import Audit, AuditingProxy, audited
from tests.api.operator.polling import eventually
from tests.api.operator.process import Operator
from tests.api.operator.scene import Scene
from tests.api.resource import Resource
from tests.cluster.pytest_fixtures import ApiServer


@pytest.fixture(scope="session")
def proxy(api_server: ApiServer) -> Iterator[AuditingProxy]:
    with audited(api_server.kubeconfig) as running:
        yield running


@pytest.fixture(scope="module")
def module_operator(
    resource: Resource, proxy: AuditingProxy, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Operator]:
    """The one operator of the cluster; ``resource`` has brought its CRD.

    It ends with the module, because tests of the bare resource want nobody to touch their jobs.
    """
    directory = tmp_path_factory.mktemp("operator")
    with Operator(proxy.write_kubeconfig(directory / "kubeconfig"), directory / "log") as own:
        yield own


@pytest.fixture
def operator(module_operator: Operator) -> Iterator[Operator]:
    """A ready operator, whose log must be free of tracebacks afterwards."""
    already_written = len(module_operator.log)
    if not module_operator.is_alive:
        module_operator.start()
    module_operator.wait_until_ready()
    yield module_operator
    if module_operator.is_alive and not module_operator.is_usual:
        module_operator.kill()
    assert_no_traceback(module_operator.log[already_written:])


@pytest.fixture
def scene(client: Client, proxy: AuditingProxy, operator: Operator) -> Iterator[Scene]:
    with a_scene(client, proxy.audit) as own:
        yield own


@pytest.fixture
def second_node(scene: Scene) -> Iterator[FakeNode]:
    """One more node beside that of the scene's kubelet."""
    with a_node(scene.client, f"{scene.namespace}-second") as node:
        yield node


@contextmanager
def a_scene(client: Client, audit: Audit) -> Iterator[Scene]:
    """A new namespace for the block, with a node of its own."""
    name = f"dtj-api-{uuid4().hex[:8]}"
    with a_node(client, name) as node:
        own = Scene(client, name, node, FakeKubelet(client, name, node.name), audit)
        client.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        eventually(
            "the namespace has its service account",  # pods are refused before
            lambda: client.request("GET", own.path("serviceaccounts", "default")).code,
            lambda code: code == 200,
        )
        try:
            yield own
        finally:
            client.request("DELETE", own.path("pods"), {"gracePeriodSeconds": 0})
            client.request("DELETE", f"/api/v1/namespaces/{name}")


def assert_no_traceback(log: str) -> None:
    assert "Traceback" not in log, log
