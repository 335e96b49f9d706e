"""The API server comes late, hangs, or ends and comes back: the operator waits, says so, and goes on."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from dtj.api import crd
from tests.api.client import Client, connected
from tests.api.operator.auditing_proxy import Audit
from tests.api.operator.conftest import a_scene, assert_no_traceback
from tests.api.operator.polling import eventually, stays
from tests.api.operator.process import Operator
from tests.api.operator.scene import NO_RESTARTS, Scene, worker
from tests.api.resource import REPOSITORY
from tests.cluster import bed, processes, state
from tests.cluster.pytest_fixtures import OTHER_CLUSTER, temporary_bed

pytestmark = [
    pytest.mark.api,
    pytest.mark.skipif(OTHER_CLUSTER in os.environ, reason="stops its API server: not that of somebody's cluster"),
]

API_SERVER = "kube-apiserver"


class Own(NamedTuple):
    """A control plane of this module's own, whose CRD the tests bring, and the operator that they start on it."""

    bed: bed.Bed
    client: Client
    operator: Operator


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Own]:
    log = tmp_path_factory.mktemp("outages") / "log"
    with (
        temporary_bed("outage-tests", nodes=0) as own_bed,
        connected(own_bed.kubectl, own_bed.kubeconfig) as client,
        Operator(own_bed.kubeconfig, log) as operator,
    ):
        yield Own(own_bed, client, operator)
        code = operator.terminate()
        assert code == 0, operator.log
        assert_no_traceback(operator.log)


@pytest.fixture
def scene(own: Own) -> Iterator[Scene]:
    own.client.kubectl_output("apply", "-f", str(REPOSITORY / crd.CRD_FILE))
    if not own.operator.is_alive:
        own.operator.start()
    own.operator.wait_until_ready()
    with a_scene(own.client, Audit()) as scene:
        yield scene


def test_waits_for_its_resource_definition(own: Own) -> None:
    if own.operator.is_alive:  # another test was faster, and brought the definition
        own.operator.terminate()
        own.client.kubectl_output("delete", "-f", str(REPOSITORY / crd.CRD_FILE))
    already_written = len(own.operator.log)
    own.operator.start()

    own.operator.wait_until_it_answers()
    stays("the health of an operator without a CRD", lambda: health(own.operator), seconds=3)
    assert health(own.operator) == (200, 503)
    assert own.operator.log[already_written:].count("the CRD distributedtrainingjobs.dtj.dev is not installed") == 1
    assert own.operator.terminate() == 0
    own.operator.start()

    own.client.kubectl_output("apply", "-f", str(REPOSITORY / crd.CRD_FILE))
    own.operator.wait_until_ready()


def test_an_api_server_that_hangs(own: Own, scene: Scene) -> None:
    pods = scene.start()
    with stopped(own.bed):
        stays("health", lambda: health(own.operator), seconds=8)
    assert scene.pod_uids() == pods

    scene.kubelet.succeed(*pods)
    status = scene.status_in("Succeeded", within=60)

    assert (status["attempt"], status.get("lastFailure")) == (0, None)
    assert health(own.operator) == (200, 200)


def test_an_api_server_that_hangs_while_pods_are_created(own: Own, scene: Scene) -> None:
    scene.submit(replicas=50)
    eventually("some pods", scene.pod_uids, len)
    with stopped(own.bed):
        stays("health", lambda: health(own.operator), seconds=3)

    pods = scene.pods_are(*map(worker, range(50)), within=60)

    assert len(set(pods.values())) == 50


def test_an_api_server_that_ends_and_comes_back(own: Own, scene: Scene) -> None:
    pods = scene.start(NO_RESTARTS)
    with ended(own.bed):
        stays("health", lambda: health(own.operator), seconds=5)
    eventually("the API server answers", lambda: own.client.request("GET", "/readyz").code, lambda code: code == 200)
    assert scene.pod_uids() == pods

    scene.kubelet.fail(worker(1), 3, "boom")
    status = scene.status_in("Failed", "NonZeroExit", within=60)

    assert status["lastFailure"]["rank"] == 1
    assert health(own.operator) == (200, 200)


def health(operator: Operator) -> tuple[int | None, int | None]:
    return operator.health("/healthz"), operator.health("/readyz")


@contextmanager
def stopped(own: bed.Bed) -> Iterator[None]:
    """The API server keeps its connections for the block, and says nothing."""
    server = _process(own.name)
    server.signal(signal.SIGSTOP)
    try:
        yield
    finally:
        server.signal(signal.SIGCONT)


@contextmanager
def ended(own: bed.Bed) -> Iterator[None]:
    """There is no API server for the block; the one that comes back has all that it knew."""
    known, server = state.load(own.name), _process(own.name)
    assert known is not None
    command = Path(f"/proc/{server.pid}/cmdline").read_text(encoding="utf-8").rstrip("\0").split("\0")
    processes.kill([server])
    try:
        yield
    finally:
        known.keep(processes.start(server.name, command, own.logs / f"{server.name}.log"))


def _process(name: str) -> processes.Process:
    known = state.load(name)
    server = known.process(API_SERVER) if known else None
    assert server is not None
    return server
