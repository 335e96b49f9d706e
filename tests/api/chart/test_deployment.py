"""The operator's pods as the chart makes them: one leads, and each is under Pod Security `restricted`."""

from typing import Any

import pytest

from dtj.cli.operator import run as operator_run
from tests.api.chart.conftest import BARE, EVERYTHING, NAMESPACED, Objects, Render, operator_container

pytestmark = pytest.mark.api

SELECTOR = {"app.kubernetes.io/name": "dtj-operator", "app.kubernetes.io/instance": "dtj"}
SPREAD = {
    "preferredDuringSchedulingIgnoredDuringExecution": [
        {
            "weight": 100,
            "podAffinityTerm": {
                "topologyKey": "kubernetes.io/hostname",
                "labelSelector": {"matchLabels": SELECTOR},
            },
        }
    ]
}
ARGUMENTS: dict[str, tuple[str, dict[str, Any]]] = {
    "the defaults": (
        "--set=replicas=2",
        {
            "leader_elect": True,
            "lease_name": "dtj-operator",
            "lease_namespace": None,
            "namespaces": (),
            "watch_nodes": True,
            "log_format": "text",
            "debug_endpoint": False,
            "verbose": False,
            "rate": 1000.0,
            "burst": 2000,
            "health_port": 8080,
        },
    ),
    "everything": (
        EVERYTHING,
        {
            "leader_elect": True,
            "watch_nodes": False,
            "log_format": "json",
            "debug_endpoint": True,
            "verbose": True,
            "rate": 2_000_000.0,
            "burst": 4_000_000,
        },
    ),
    "two namespaces": (NAMESPACED, {"namespaces": ("team-a", "team-b"), "watch_nodes": True}),
    "one operator": (BARE, {"leader_elect": True, "watch_nodes": False}),
    "another name": ("--set=fullnameOverride=training", {"lease_name": "training"}),
}


def pod_spec(objects: Objects) -> dict[str, Any]:
    return dict(objects.the("Deployment")["spec"]["template"]["spec"])


def test_one_leads_and_the_others_are_ready_to(rendered: Render) -> None:
    """Without an old pod that goes before a new one is ready there is always somebody to lead."""
    spec = rendered().the("Deployment")["spec"]
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}
    assert (spec["replicas"], spec["strategy"]) == (2, rolling)


def test_each_takes_part_under_the_name_of_its_pod(rendered: Render) -> None:
    container = operator_container(rendered())
    assert "--lease-identity=$(DTJ_POD_NAME)" in container["args"]
    name = {"name": "DTJ_POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    assert name in container["env"]


@pytest.mark.parametrize(("option", "understood"), ARGUMENTS.values(), ids=ARGUMENTS.keys())
def test_the_operator_understands_its_arguments(rendered: Render, option: str, understood: dict[str, Any]) -> None:
    container = operator_container(rendered(option))
    assert container["command"] == ["dtj", "operator", "run"]
    parameters = operator_run.make_context("run", list(container["args"])).params
    assert {name: parameters[name] for name in understood} == understood
    (port,) = container["ports"]
    assert parameters["health_port"] == port["containerPort"]


def test_the_container_has_what_was_given(rendered: Render) -> None:
    container = operator_container(rendered(EVERYTHING))
    assert container["image"] == "registry.example/team/operator:0.1.0"
    assert container["imagePullPolicy"] == "Always"
    assert container["resources"]["limits"] == {"cpu": 2, "memory": "512Mi"}
    assert [each["name"] for each in container["env"]] == ["DTJ_POD_NAME", "TZ", "NODE"]
    assert container["volumeMounts"] == [{"name": "certificates", "mountPath": "/certificates", "readOnly": True}]


def test_the_pod_has_what_was_given(rendered: Render) -> None:
    objects = rendered(EVERYTHING)
    spec, metadata = pod_spec(objects), objects.the("Deployment")["spec"]["template"]["metadata"]
    assert spec["imagePullSecrets"] == [{"name": "registry"}]
    assert spec["nodeSelector"] == {"kubernetes.io/arch": "amd64"}
    assert spec["tolerations"] == [{"key": "infra", "operator": "Exists", "effect": "NoSchedule"}]
    assert spec["priorityClassName"] == "system-cluster-critical"
    assert spec["volumes"] == [{"name": "certificates", "emptyDir": {}}]
    assert metadata["annotations"] == {"note": "1"}
    assert metadata["labels"]["team"] == "platform"
    assert objects.the("ServiceAccount")["metadata"]["annotations"] == {"team": "platform"}


def test_the_replicas_rather_run_on_different_nodes(rendered: Render) -> None:
    assert pod_spec(rendered())["affinity"] == {"podAntiAffinity": SPREAD}


def test_an_affinity_of_ones_own_replaces_that(rendered: Render) -> None:
    assert pod_spec(rendered(EVERYTHING))["affinity"] == {"podAntiAffinity": {}}


def test_a_constraint_without_a_selector_counts_the_operators_pods(rendered: Render) -> None:
    without, given = pod_spec(rendered(EVERYTHING))["topologySpreadConstraints"]
    assert without["labelSelector"] == {"matchLabels": SELECTOR}
    assert (without["topologyKey"], without["maxSkew"]) == ("topology.kubernetes.io/zone", 1)
    assert given["labelSelector"] == {"matchLabels": {"team": "platform"}}


def test_a_digest_chooses_the_image(rendered: Render) -> None:
    digest = f"sha256:{'0a' * 32}"
    assert operator_container(rendered(f"--set=image.digest={digest}"))["image"] == f"dtj/operator@{digest}"


def test_the_container_cannot_write_its_file_system(rendered: Render) -> None:
    assert operator_container(rendered())["securityContext"]["readOnlyRootFilesystem"] is True


def test_the_pods_are_known_as_the_operators_and_chosen_by_what_never_changes(rendered: Render) -> None:
    """The selector of a Deployment cannot be changed: it is that of the first version."""
    spec = rendered().the("Deployment")["spec"]
    assert spec["template"]["metadata"]["labels"]["dtj.dev/component"] == "operator"
    assert spec["selector"] == {"matchLabels": SELECTOR}


def test_labels_of_ones_own_cannot_lose_the_pod(rendered: Render) -> None:
    """The API server refuses a Deployment whose selector misses its own pod."""
    own = "--set-string=podLabels.app\\.kubernetes\\.io/name=mine,podLabels.dtj\\.dev/component=mine"
    spec = rendered(own).the("Deployment")["spec"]
    labels = spec["template"]["metadata"]["labels"]
    assert labels.items() >= {**spec["selector"]["matchLabels"], "dtj.dev/component": "operator"}.items()


@pytest.mark.parametrize(
    ("options", "budget"),
    [
        ((), 1),
        ((EVERYTHING,), "50%"),
        (("--set=replicas=1",), None),
        (("--set=podDisruptionBudget.enabled=false",), None),
        (("--set=podDisruptionBudget=null,replicas=null",), 1),
    ],
    ids=["by default", "of ones own", "one operator", "not wanted", "kept from a version without"],
)
def test_a_drain_takes_one_operator_at_a_time(rendered: Render, options: tuple[str, ...], budget: int | None) -> None:
    budgets = [each["spec"] for each in rendered(*options).all("PodDisruptionBudget")]
    assert [each["maxUnavailable"] for each in budgets] == ([] if budget is None else [budget])
    assert all(each["selector"] == {"matchLabels": SELECTOR} for each in budgets)
