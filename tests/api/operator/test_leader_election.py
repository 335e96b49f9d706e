"""Two replicas of the operator: one works, the other is ready to; nothing is done twice, and nothing is left undone."""

import re
from collections.abc import Iterator
from uuid import uuid4

import pytest

from tests.api.client import Client
from tests.api.operator.conftest import a_scene, assert_no_traceback
from tests.api.operator.polling import eventually
from tests.api.operator.replicas import Pair, a_pair
from tests.api.operator.scene import Counters, Scene, counters, worker, workers
from tests.api.resource import Resource
from tests.cluster.pytest_fixtures import ApiServer

pytestmark = pytest.mark.api

PLANNED_SECONDS = 5.0
CRASH_SECONDS = 25.0
"""Fifteen of the lease, one until somebody looks, and the rest for a busy machine."""


@pytest.fixture(scope="module")
def pair(
    resource: Resource, api_server: ApiServer, client: Client, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Pair]:
    directory, lease = tmp_path_factory.mktemp("replicas"), f"dtj-operator-{uuid4().hex[:8]}"
    with a_pair(client, api_server.kubeconfig, lease, directory) as own:
        yield own
        for replica in own.replicas:
            if replica.operator.is_alive:
                assert replica.operator.terminate() == 0, replica.operator.log
            assert_no_traceback(replica.operator.log)


@pytest.fixture
def scene(client: Client, pair: Pair) -> Iterator[Scene]:
    leader, _ = pair.leader_and_standby()
    with a_scene(client, leader.proxy.audit) as own:
        yield own


def test_only_one_of_them_writes(pair: Pair, scene: Scene) -> None:
    leader, standby = pair.leader_and_standby()
    pods = scene.start()
    scene.kubelet.fail(worker(1), 3)
    scene.attempt_runs(1, kept=[worker(1)])
    scene.kubelet.succeed(*workers(2, attempt=1))
    scene.status_in("Succeeded")

    assert len(pods) == 2
    assert leader.proxy.audit.writes(scene.namespace)["POST pods"] == 4
    assert standby.writes(scene) == 0
    assert standby.operator.health("/readyz") == 200


def test_a_planned_end_leaves_no_gap(pair: Pair, scene: Scene) -> None:
    leader, standby = pair.leader_and_standby()
    scene.start()

    assert leader.operator.terminate() == 0, leader.operator.log
    pair.wait_until_leads(standby, PLANNED_SECONDS)

    scene.kubelet.fail(worker(0), 3)
    running = scene.attempt_runs(1, kept=[worker(0)])
    assert counters(running) == Counters(attempt=1, restarts=1, since_progress=1)


def test_killed_while_it_creates_a_gang(pair: Pair, scene: Scene) -> None:
    leader, standby = pair.leader_and_standby()
    with leader.proxy.stopping(scene.namespace, "POST pods", after=3) as barrier:
        scene.submit(replicas=8)
        eventually("three pods are under way", barrier.reached.is_set, bool)
        before = eventually("they are there", scene.pod_uids, lambda uids: len(uids) == 3)
        leader.operator.kill()
        pair.wait_until_leads(standby, CRASH_SECONDS)

    after = scene.pods_are(*workers(8))
    assert before.items() <= after.items(), "what was there is left alone"
    scene.kubelet.run(*after)
    assert counters(scene.status_in("Running")) == Counters()
    assert standby.proxy.audit.writes(scene.namespace)["POST pods"] == 8 - len(before)


def test_paused_for_longer_than_its_lease(pair: Pair, scene: Scene) -> None:
    leader, standby = pair.leader_and_standby()
    scene.start()
    with leader.proxy.stopping(scene.namespace, "POST events"):  # it is in the middle of something
        leader.operator.pause()
        try:
            scene.kubelet.fail(worker(1), 3)
            pair.wait_until_leads(standby, CRASH_SECONDS)
            scene.attempt_runs(1, kept=[worker(1)])
            written = leader.writes(scene)
        finally:
            leader.operator.resume()
        assert leader.operator.wait_until_ended() == 1

    assert leader.writes(scene) == written, "whoever wakes up late writes nothing"
    assert re.search(r"CRITICAL .*the lease", leader.operator.log), leader.operator.log[-1000:]
    assert counters(scene.status()) == Counters(attempt=1, restarts=1, since_progress=1)
    assert scene.pod_uids().keys() == {worker(1), *workers(2, attempt=1)}


def test_cut_off_from_the_api_server(pair: Pair, scene: Scene) -> None:
    leader, standby = pair.leader_and_standby()
    scene.start()
    leader.proxy.cut_off = True
    try:
        scene.kubelet.fail(worker(0), 3)
        assert leader.operator.wait_until_ended() == 1
        assert pair.holder() == leader.name, "it stops before anybody follows"
        pair.wait_until_leads(standby, CRASH_SECONDS)
    finally:
        leader.proxy.cut_off = False

    running = scene.attempt_runs(1, kept=[worker(0)])
    assert counters(running) == Counters(attempt=1, restarts=1, since_progress=1)
    assert "CRITICAL dtj.cli.operator: the lease" in leader.operator.log
