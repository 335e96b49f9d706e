"""The NetworkPolicy of an isolated job: whom it lets in, by an evaluator of what Kubernetes says such policies mean."""

from dataclasses import dataclass
from typing import Any

import pytest

from dtj.api import labels, ports
from dtj.plan.network_policy import network_policy
from dtj.plan.pods import pod_builder
from dtj.plan.topology import topology_of
from tests.builders import NAMESPACE, a_job

JOB = a_job().replicas(2).role("master").build()
SLOTS = topology_of(JOB.spec).slots
OPERATOR_NAMESPACE = "dtj-system"
OPERATOR_LABELS = {labels.DTJ_COMPONENT: labels.OPERATOR_COMPONENT, "app.kubernetes.io/name": "dtj-operator"}


@dataclass(frozen=True)
class Peer:
    """A pod of the cluster: where it is and what it is labelled."""

    namespace: str
    labels: dict[str, str]

    @property
    def labels_of_namespace(self) -> dict[str, str]:
        """As the API server sets them on every namespace."""
        return {"kubernetes.io/metadata.name": self.namespace}


def worker(index: int = 0, attempt: int = 0) -> Peer:
    """A pod of the job as it is created."""
    manifest = pod_builder(JOB, topology_of(JOB.spec), attempt)(SLOTS[index])
    return Peer(manifest["metadata"]["namespace"], manifest["metadata"]["labels"])


OPERATOR = Peer(OPERATOR_NAMESPACE, OPERATOR_LABELS)


def selects(selector: dict[str, Any], found: dict[str, str]) -> bool:
    """A label selector; an empty one selects everything."""
    assert selector.keys() <= {"matchLabels"}, "the evaluator knows no other kind"
    return all(found.get(key) == value for key, value in selector.get("matchLabels", {}).items())


def is_among(peer: dict[str, Any], pod: Peer, policy_namespace: str) -> bool:
    """One entry of ``from``: without a selector of namespaces it means pods of the policy's own namespace."""
    assert peer.keys() <= {"namespaceSelector", "podSelector"}, "the evaluator knows no other kind"
    if "namespaceSelector" not in peer:
        in_namespace = pod.namespace == policy_namespace
    else:
        in_namespace = selects(peer["namespaceSelector"], pod.labels_of_namespace)
    return in_namespace and selects(peer.get("podSelector", {}), pod.labels)


def is_open(rule: dict[str, Any], port: int) -> bool:
    """A rule without ports is about all of them."""
    return "ports" not in rule or {"port": port, "protocol": "TCP"} in rule["ports"]


def lets_in(policy: dict[str, Any], source: Peer, target: Peer, port: int) -> bool:
    """Whether a TCP connection comes through where no other policy exists."""
    namespace, spec = policy["metadata"]["namespace"], policy["spec"]
    if target.namespace != namespace or not selects(spec["podSelector"], target.labels):
        return True
    rules = (rule for rule in spec["ingress"] if is_open(rule, port))
    return any(is_among(peer, source, namespace) for rule in rules for peer in rule["from"])


OTHER_JOB = Peer(NAMESPACE, {**worker().labels, labels.JOB_NAME: "other", labels.JOB_UID: "another"})
LATER_JOB = Peer(NAMESPACE, {**worker().labels, labels.JOB_UID: "another"})
SOMEBODY = Peer(NAMESPACE, {"app": "notebook"})
PRETENDER = Peer(NAMESPACE, OPERATOR_LABELS)
NEIGHBOUR = Peer(OPERATOR_NAMESPACE, {"app": "prometheus"})
TWIN = Peer("team-b", worker().labels)

ALLOWED: dict[str, tuple[Peer, int]] = {
    "a peer at the rendezvous": (worker(1), ports.RENDEZVOUS),
    "a peer at a port that the program chose": (worker(1), 41_973),
    "a peer at the agent": (worker(1), ports.AGENT),
    "a pod of another role": (worker(2), ports.RENDEZVOUS),
    "a pod of a later attempt": (worker(1, attempt=3), ports.RENDEZVOUS),
    "the operator at the agent": (OPERATOR, ports.AGENT),
}
REFUSED: dict[str, tuple[Peer, int]] = {
    "the operator at the rendezvous": (OPERATOR, ports.RENDEZVOUS),
    "the operator at a shell": (OPERATOR, 22),
    "a pod of another job": (OTHER_JOB, ports.RENDEZVOUS),
    "a pod of another job at the agent": (OTHER_JOB, ports.AGENT),
    "a pod of an earlier or later job of the name": (LATER_JOB, ports.RENDEZVOUS),
    "another pod of the namespace": (SOMEBODY, ports.RENDEZVOUS),
    "another pod of the namespace at the agent": (SOMEBODY, ports.AGENT),
    "a pod of the namespace that is labelled as the operator": (PRETENDER, ports.AGENT),
    "another pod of the operator's namespace": (NEIGHBOUR, ports.AGENT),
    "a pod of another namespace that is labelled as the job": (TWIN, ports.RENDEZVOUS),
}


@pytest.mark.parametrize(("source", "port"), ALLOWED.values(), ids=ALLOWED.keys())
def test_is_let_in(source: Peer, port: int) -> None:
    assert lets_in(network_policy(JOB, OPERATOR_NAMESPACE), source, worker(), port)


@pytest.mark.parametrize(("source", "port"), REFUSED.values(), ids=REFUSED.keys())
def test_is_kept_out(source: Peer, port: int) -> None:
    assert not lets_in(network_policy(JOB, OPERATOR_NAMESPACE), source, worker(), port)


def test_an_operator_outside_of_the_cluster_is_not_let_in() -> None:
    policy = network_policy(JOB, None)

    assert not lets_in(policy, OPERATOR, worker(), ports.AGENT)
    assert lets_in(policy, worker(1), worker(), ports.AGENT)


@pytest.mark.parametrize("target", [OTHER_JOB, SOMEBODY, TWIN], ids=["another job", "another pod", "another namespace"])
def test_nobody_elses_pods_are_touched(target: Peer) -> None:
    assert lets_in(network_policy(JOB, OPERATOR_NAMESPACE), SOMEBODY, target, 80)


def test_what_goes_out_is_not_limited() -> None:
    spec = network_policy(JOB, OPERATOR_NAMESPACE)["spec"]

    assert spec["policyTypes"] == ["Ingress"]
    assert "egress" not in spec


def test_it_goes_with_the_job() -> None:
    metadata = network_policy(JOB, None)["metadata"]

    (owner,) = metadata["ownerReferences"]
    assert (metadata["name"], metadata["namespace"]) == ("digits-workers", NAMESPACE)
    assert (owner["uid"], owner["controller"], owner["blockOwnerDeletion"]) == (JOB.metadata.uid, True, False)
    assert metadata["labels"] == {labels.JOB_NAME: "digits", labels.JOB_UID: JOB.metadata.uid}
