"""The NetworkPolicy of the operator's pods: who may reach them, and whom they may reach."""

from typing import Any

import pytest

from dtj.api import labels, ports
from tests.api.chart.conftest import EVERYTHING, NAMESPACED, Render
from tests.api.chart.test_deployment import SELECTOR

pytestmark = pytest.mark.api

ENABLED = "--set=networkPolicy.enabled=true"
DNS = [{"protocol": "UDP", "port": 53}, {"protocol": "TCP", "port": 53}]
OF_JOBS = {"matchExpressions": [{"key": labels.JOB_UID, "operator": "Exists"}]}
OF_TEAMS = {
    "matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["team-a", "team-b"]}]
}


def policy(rendered: Render, *options: str) -> dict[str, Any]:
    return dict(rendered(*options).the("NetworkPolicy")["spec"])


def test_it_holds_for_the_operators_pods_in_both_directions(rendered: Render) -> None:
    spec = policy(rendered, ENABLED)
    assert spec["podSelector"] == {"matchLabels": SELECTOR}
    assert spec["policyTypes"] == ["Ingress", "Egress"]


def test_only_metrics_and_health_can_be_reached(rendered: Render) -> None:
    assert policy(rendered, ENABLED)["ingress"] == [{"ports": [{"protocol": "TCP", "port": "health"}]}]


def test_metrics_can_be_kept_to_some(rendered: Render) -> None:
    (rule,) = policy(rendered, EVERYTHING)["ingress"]
    monitoring = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}
    assert rule["from"] == [monitoring, {"ipBlock": {"cidr": "10.1.0.0/16"}}]


@pytest.mark.parametrize(
    ("options", "numbers", "addresses"),
    [((ENABLED,), [443, 6443], []), ((EVERYTHING,), [6443], ["10.0.0.1/32", "fd00::1/128"])],
    ids=["by default", "of ones own"],
)
def test_the_api_server_can_be_reached(
    rendered: Render, options: tuple[str, ...], numbers: list[int], addresses: list[str]
) -> None:
    rule = policy(rendered, *options)["egress"][1]
    assert rule["ports"] == [{"protocol": "TCP", "port": number} for number in numbers]
    assert rule.get("to", []) == [{"ipBlock": {"cidr": each}} for each in addresses]


@pytest.mark.parametrize(
    ("options", "namespaces"), [((ENABLED,), {}), ((NAMESPACED,), OF_TEAMS)], ids=["all namespaces", "some"]
)
def test_names_and_agents_can_be_reached_and_nothing_else(
    rendered: Render, options: tuple[str, ...], namespaces: dict[str, Any]
) -> None:
    names, _, agents = policy(rendered, *options)["egress"]
    assert names == {"ports": DNS}
    assert agents == {
        "ports": [{"protocol": "TCP", "port": ports.AGENT}],
        "to": [{"podSelector": OF_JOBS, "namespaceSelector": namespaces}],
    }
