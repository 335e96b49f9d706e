"""A job that wants to be alone: its NetworkPolicy fits the operator as the chart installs it."""

import pytest

from dtj.api import ports
from tests.e2e.jobs import SLEEP, job, status_when
from tests.e2e.operator import OPERATOR_NAMESPACE, Installed
from tests.kubectl import Kubectl

pytestmark = pytest.mark.e2e


def test_the_policy_lets_in_the_operator_as_it_is_installed(kubectl: Kubectl, installed: Installed) -> None:
    manifest = job("alone", SLEEP, replicas=1)
    manifest["spec"]["networkIsolation"] = "Job"
    kubectl.apply(manifest)
    status_when(kubectl, "alone", "Running")

    _, from_operator = kubectl.get("networkpolicy", "alone-workers")["spec"]["ingress"]
    [peer] = from_operator["from"]
    namespace = kubectl.get("namespace", OPERATOR_NAMESPACE)["metadata"]["labels"]
    operators = installed.namespaced(OPERATOR_NAMESPACE).all("pods", "app.kubernetes.io/name=dtj-operator")
    assert peer["namespaceSelector"]["matchLabels"].items() <= namespace.items()
    assert operators
    for pod in operators:
        assert peer["podSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    assert from_operator["ports"] == [{"port": ports.AGENT, "protocol": "TCP"}]
