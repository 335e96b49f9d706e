"""What the chart brings for Prometheus and Grafana."""

import json

import pytest
import yaml

from tests.api.chart.conftest import CHART, EVERYTHING, Objects, Render, operator_container
from tests.api.chart.test_deployment import SELECTOR

pytestmark = pytest.mark.api

SCRAPED = {"prometheus.io/scrape": "true", "prometheus.io/port": "8080", "prometheus.io/path": "/metrics"}
ANNOTATIONS: dict[str, tuple[tuple[str, ...], dict[str, str] | None]] = {
    "by default": ((), SCRAPED),
    "beside others": (("--set-string=podAnnotations.note=1",), {**SCRAPED, "note": "1"}),
    "overruled": (
        ("--set-string=podAnnotations.prometheus\\.io/scrape=false",),
        {**SCRAPED, "prometheus.io/scrape": "false"},
    ),
    "not wanted": (("--set=metrics.annotations=false",), None),
    "kept from a version without": (("--set=metrics=null,dashboard=null",), None),
}


@pytest.mark.parametrize(("options", "annotations"), ANNOTATIONS.values(), ids=ANNOTATIONS.keys())
def test_a_prometheus_that_goes_by_annotations_finds_the_pod(
    rendered: Render, options: tuple[str, ...], annotations: dict[str, str] | None
) -> None:
    objects = rendered(*options)
    assert objects.the("Deployment")["spec"]["template"]["metadata"].get("annotations") == annotations
    (port,) = operator_container(objects)["ports"]
    assert str(port["containerPort"]) == SCRAPED["prometheus.io/port"]


def assert_each_pod_is_scraped(objects: Objects) -> None:
    service, monitor = objects.the("Service"), objects.the("ServiceMonitor")
    (port,), (endpoint,) = service["spec"]["ports"], monitor["spec"]["endpoints"]
    (container_port,) = operator_container(objects)["ports"]
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["selector"] == SELECTOR
    assert service["metadata"]["labels"].items() >= monitor["spec"]["selector"]["matchLabels"].items()
    assert monitor["spec"]["namespaceSelector"]["matchNames"] == [service["metadata"]["namespace"]]
    assert (endpoint["port"], port["targetPort"]) == (port["name"], container_port["name"])


def test_the_prometheus_operator_finds_each_pod(rendered: Render) -> None:
    assert_each_pod_is_scraped(rendered("--set=serviceMonitor.enabled=true"))
    objects = rendered(EVERYTHING)
    assert_each_pod_is_scraped(objects)
    assert objects.the("ServiceMonitor")["metadata"]["labels"]["release"] == "prometheus"
    assert objects.the("ServiceMonitor")["spec"]["endpoints"][0]["interval"] == "10s"
    assert objects.the("Service")["metadata"]["annotations"] == {"team": "platform"}


def test_a_service_without_the_prometheus_operator(rendered: Render) -> None:
    objects = rendered("--set=metrics.service.enabled=true")
    assert (len(objects.all("Service")), objects.all("ServiceMonitor")) == (1, [])


def test_nothing_of_that_is_there_unasked(rendered: Render) -> None:
    kinds = {each["kind"] for each in rendered()}
    assert not kinds & {"Service", "ServiceMonitor", "PrometheusRule", "ConfigMap", "NetworkPolicy"}


def test_the_alerts_are_those_of_the_file(rendered: Render) -> None:
    """Helm leaves their own templates alone."""
    rule = rendered(EVERYTHING).the("PrometheusRule")
    assert rule["metadata"]["labels"]["release"] == "prometheus"
    assert rule["spec"] == yaml.safe_load((CHART / "alerts" / "dtj.yaml").read_text(encoding="utf-8"))


def test_the_dashboard_is_there_when_it_is_wanted(rendered: Render) -> None:
    dashboard = rendered("--set=dashboard.enabled=true").the("ConfigMap")
    assert dashboard["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert json.loads(dashboard["data"]["dtj.json"]) == json.loads((CHART / "dashboards" / "dtj.json").read_text())


def test_the_dashboard_has_the_labels_and_annotations_of_ones_own(rendered: Render) -> None:
    metadata = rendered(EVERYTHING).the("ConfigMap")["metadata"]
    assert metadata["annotations"] == {"grafana_folder": "Training"}
    assert metadata["labels"].items() >= {"team": "platform", "grafana_dashboard": "1"}.items()
