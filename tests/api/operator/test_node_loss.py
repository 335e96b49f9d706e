"""A node that is not heard of any more: the job leaves it, although its pods there can't be deleted."""

import os
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any
from uuid import uuid4

import pytest

from dtj.lifecycle.node_loss import SECONDS_FOR_MANY
from tests.api.client import Client
from tests.api.fake_kubelet import FakeKubelet
from tests.api.fake_node import FakeNode, a_node
from tests.api.operator.polling import stays
from tests.api.operator.process import Operator
from tests.api.operator.scene import NO_RESTARTS, Counters, Scene, counters, worker, workers
from tests.cluster.pytest_fixtures import OTHER_CLUSTER

pytestmark = pytest.mark.api

SECONDS_TO_LEAVE = 20
"""From the moment when the control plane calls the node lost: less than the minute that is promised, because the
operator has nothing to wait for."""
CROWD = 10
LONGER_THAN_DOUBT = 3
"""Seconds after which a lost node would have been believed to be lost."""
UNREACHABLE = "node.kubernetes.io/unreachable"
NOT_READY = "node.kubernetes.io/not-ready"


@pytest.fixture(scope="module", autouse=True)
def crowd(client: Client) -> Iterator[list[FakeNode]]:
    """Healthy nodes, so many that a lost one is soon believed to be lost."""
    with ExitStack() as stack:
        yield [stack.enter_context(a_node(client, f"dtj-crowd-{uuid4().hex[:8]}")) for _ in range(CROWD)]


@pytest.fixture
def second(scene: Scene, second_node: FakeNode) -> Iterator[FakeKubelet]:
    """The kubelet of the second node."""
    kubelet = FakeKubelet(scene.client, scene.namespace, second_node.name)
    yield kubelet
    kubelet.finish_deletions()


def started_on_both(scene: Scene, second: FakeKubelet, changes: dict[str, Any] | None = None) -> dict[str, str]:
    """Worker 0 runs on the first node and worker 1 on the second."""
    scene.submit({**NO_RESTARTS, **(changes or {})})
    pods = scene.pods_are(*workers(2))
    scene.kubelet.run(worker(0))
    second.run(worker(1))
    scene.status_in("Running")
    return pods


def test_the_job_leaves_a_lost_node(scene: Scene, second_node: FakeNode, second: FakeKubelet) -> None:
    before = started_on_both(scene, second)

    second_node.be_lost()
    restarting = scene.status_in("Restarting", "NodeLost", within=SECONDS_TO_LEAVE)
    with_the_lost = scene.pods_are(worker(1), *workers(2, attempt=1))
    scene.kubelet.run(*workers(2, attempt=1))
    running = scene.status_in("Running")

    told = restarting["lastFailure"]
    assert (told["class"], told["pod"], told["node"], told["rank"]) == ("Disruption", worker(1), second_node.name, 1)
    assert counters(running) == Counters(attempt=1, disruptions=1)
    assert running["ready"] == "2/2"
    assert with_the_lost[worker(1)] == before[worker(1)], "nobody can end it while its node is away"
    assert "deletionTimestamp" in scene.read("pods", worker(1))["metadata"]


def test_a_lost_node_that_is_heard_of_again_disturbs_nobody(
    scene: Scene, second_node: FakeNode, second: FakeKubelet
) -> None:
    started_on_both(scene, second)
    second_node.be_lost()
    scene.pods_are(worker(1), *workers(2, attempt=1))
    scene.kubelet.run(*workers(2, attempt=1))
    scene.status_in("Running")

    second_node.be_heard()
    second.finish_deletions()
    pods = scene.pods_are(*workers(2, attempt=1))

    stays("pods and status", lambda: (scene.pod_uids(), scene.status()), seconds=2)
    assert scene.pod_uids() == pods
    assert counters(scene.status()) == Counters(attempt=1, disruptions=1)


def test_a_node_lost_while_the_operator_was_away(
    scene: Scene, second_node: FakeNode, second: FakeKubelet, operator: Operator
) -> None:
    started_on_both(scene, second)
    operator.kill()
    second_node.be_lost()

    operator.start()
    operator.wait_until_ready()

    assert counters(scene.status_in("Restarting", "NodeLost")) == Counters(attempt=1, disruptions=1)
    scene.pods_are(worker(1), *workers(2, attempt=1))


def test_the_node_of_rank_0_is_a_node_like_any_other(scene: Scene, second_node: FakeNode, second: FakeKubelet) -> None:
    scene.submit(NO_RESTARTS)
    scene.pods_are(*workers(2))
    second.run(worker(0))
    scene.kubelet.run(worker(1))
    scene.status_in("Running")

    second_node.be_lost()
    restarting = scene.status_in("Restarting", "NodeLost", within=SECONDS_TO_LEAVE)
    scene.pods_are(worker(0), *workers(2, attempt=1))

    assert restarting["lastFailure"]["rank"] == 0


def test_a_node_lost_while_the_job_starts(scene: Scene, second_node: FakeNode, second: FakeKubelet) -> None:
    scene.submit(NO_RESTARTS)
    scene.pods_are(*workers(2))
    second.run(worker(1))

    second_node.be_lost()

    scene.status_in("Restarting", "NodeLost", within=SECONDS_TO_LEAVE)
    scene.pods_are(worker(1), *workers(2, attempt=1))


def test_a_pod_that_has_succeeded_does_not_need_its_node(
    scene: Scene, second_node: FakeNode, second: FakeKubelet, operator: Operator
) -> None:
    pods = started_on_both(scene, second)
    operator.kill()  # so that it sees the success and the loss in this order
    second.succeed(worker(1))
    second_node.be_lost()
    operator.start()
    operator.wait_until_ready()

    stays("pods and counters", lambda: (scene.pod_uids(), counters(scene.status())), seconds=LONGER_THAN_DOUBT)
    scene.kubelet.succeed(worker(0))

    assert counters(scene.status_in("Succeeded")) == Counters()
    assert scene.pod_uids() == pods


def test_a_template_may_have_more_patience(scene: Scene, second_node: FakeNode, second: FakeKubelet) -> None:
    patience = {"key": UNREACHABLE, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 600}
    pods = started_on_both(scene, second, {"spec.template.spec.tolerations": [patience]})

    second_node.be_lost()
    stays("pods and phase", lambda: (scene.pod_uids(), scene.status()["phase"]), seconds=LONGER_THAN_DOUBT)
    second_node.be_heard()

    assert scene.pod_uids() == pods
    assert counters(scene.status()) == Counters()


@pytest.mark.skipif(OTHER_CLUSTER in os.environ, reason="loses every node: not those of somebody's cluster")
def test_when_no_node_is_heard_of_nothing_is_believed(
    scene: Scene, second_node: FakeNode, second: FakeKubelet, operator: Operator, crowd: list[FakeNode]
) -> None:
    pods = started_on_both(scene, second)
    operator.kill()  # so that it does not see one loss long before the others

    for node in (scene.node, second_node, *crowd):
        node.be_lost()
    operator.start()
    operator.wait_until_ready()
    seconds = SECONDS_FOR_MANY + LONGER_THAN_DOUBT
    stays("pods and counters", lambda: (scene.pod_uids(), counters(scene.status())), seconds=seconds)
    for node in crowd:
        node.be_heard()

    assert scene.pod_uids() == pods


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        ([], {NOT_READY: 30, UNREACHABLE: 30}),
        ([{"key": UNREACHABLE, "operator": "Exists", "effect": "NoExecute"}], {NOT_READY: 30, UNREACHABLE: None}),
        (
            [{"key": NOT_READY, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}],
            {NOT_READY: 5, UNREACHABLE: 30},
        ),
    ],
    ids=["none given", "unreachable given", "not-ready given"],
)
def test_pods_wait_half_a_minute_for_their_node(
    scene: Scene, given: list[dict[str, Any]], seconds: dict[str, int | None]
) -> None:
    scene.submit({"spec.template.spec.tolerations": given})
    scene.pods_are(*workers(2))

    tolerations = scene.read("pods", worker(0))["spec"]["tolerations"]

    found = {each["key"]: each.get("tolerationSeconds") for each in tolerations if each["key"] in seconds}
    assert found == seconds
