"""What the chart refuses, what it renders, and that a real API server takes it."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from dtj.api import names
from dtj.cli.operator import run as operator_run
from tests.api.chart.conftest import CHART, Helm, Manifest
from tests.api.client import Client

pytestmark = pytest.mark.api

Render = Callable[..., dict[str, Manifest]]

EVERY_OPTION = (
    "--set=image.repository=registry.example/team/operator,image.tag=0.1.0,image.pullPolicy=Always",
    "--set=imagePullSecrets[0].name=registry",
    "--set=operator.rate=2000000,operator.burst=4000000,operator.verbose=true",
    "--set=serviceAccount.annotations.team=platform",
    "--set=resources.limits.cpu=2",
    "--set-string=nodeSelector.kubernetes\\.io/arch=amd64",
    "--set=tolerations[0].key=infra,tolerations[0].operator=Exists,tolerations[0].effect=NoSchedule",
    '--set-json=affinity={"podAntiAffinity": {}}',
    "--set=priorityClassName=system-cluster-critical",
    "--set-string=podAnnotations.note=1,podLabels.team=platform",
    "--set=metrics.annotations=false",
    "--set=dashboard.enabled=true,dashboard.labels.team=platform,dashboard.annotations.grafana_folder=Training",
)

REFUSED = {
    "an unknown value": ("--set=replicas=3", "additional properties 'replicas' not allowed"),
    "a misspelt value": ("--set=image.digset=sha256:0", "additional properties 'digset' not allowed"),
    "a tag that is a number": ("--set=image.tag=1", "at '/image/tag': got number, want string"),
    "an empty tag": ("--set=image.tag=", "at '/image/tag'"),
    "a digest cut short": ("--set=image.digest=sha256:abc", "at '/image/digest'"),
    "a tag in the repository's place": ("--set=image.repository=a@sha256:0", "at '/image/repository'"),
    "an unknown pull policy": ("--set=image.pullPolicy=Sometimes", "at '/image/pullPolicy'"),
    "a word for a number": ("--set=operator.rate=fast", "at '/operator/rate': got string, want number"),
    "no requests at all": ("--set=operator.rate=0", "at '/operator/rate'"),
    "half a request": ("--set=operator.burst=0.5", "at '/operator/burst'"),
    "a word for a truth": ("--set-string=operator.verbose=true", "at '/operator/verbose': got string, want boolean"),
    "annotations instead of a truth": ("--set=metrics.annotations.a=b", "at '/metrics/annotations': got object"),
    "an unknown value of the metrics": ("--set=metrics.port=9090", "additional properties 'port' not allowed"),
    "a label of the dashboard that is no text": ("--set=dashboard.labels.a=1", "at '/dashboard/labels/a'"),
    "a word for a dashboard": ("--set-string=dashboard.enabled=yes", "at '/dashboard/enabled'"),
    "no account to use": ("--set=serviceAccount.create=false", "at '/serviceAccount/name'"),
    "a list for a map": ("--set=nodeSelector[0]=gpu", "at '/nodeSelector': got array, want object"),
    "an unknown toleration": ("--set=tolerations[0].effects=NoSchedule", "additional properties 'effects' not allowed"),
    "resources of a claim": ("--set=resources.request.cpu=1", "additional properties 'request' not allowed"),
    "a name that is too long": (f"--set=fullnameOverride={'a' * 54}", "at '/fullnameOverride'"),
}

RIGHTS = {
    (names.GROUP, names.PLURAL): {"get", "list", "watch", "delete"},
    (names.GROUP, f"{names.PLURAL}/status"): {"patch"},
    ("", "pods"): {"get", "list", "watch", "create", "delete"},
    ("", "services"): {"get", "list", "watch", "create", "delete"},
    ("", "configmaps"): {"create"},
    ("", "nodes"): {"list", "watch"},
    ("", "events"): {"create", "patch"},
}


def operator_container(objects: dict[str, Manifest]) -> dict[str, Any]:
    (container,) = objects["Deployment"]["spec"]["template"]["spec"]["containers"]
    return dict(container)


def test_it_passes_helm_lint(helm: Helm) -> None:
    done = helm.run("lint", "--strict", str(CHART))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(("option", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_mistakes_in_values_are_refused(helm: Helm, option: str, message: str) -> None:
    done = helm.run("template", "dtj", str(CHART), option)
    assert done.returncode != 0
    assert message in done.stderr


@pytest.mark.parametrize("options", [(), EVERY_OPTION], ids=["defaults", "every option"])
def test_the_api_server_takes_every_object(
    helm: Helm, client: Client, namespace: str, options: tuple[str, ...]
) -> None:
    client.kubectl_output(
        "apply",
        "--dry-run=server",
        "--validate=strict",
        f"--namespace={namespace}",
        "-f",
        "-",
        stdin=helm.template(*options),
    )


def test_every_option_is_rendered(rendered: Render) -> None:
    objects = rendered(*EVERY_OPTION)
    pod = objects["Deployment"]["spec"]["template"]
    container = operator_container(objects)
    assert container["image"] == "registry.example/team/operator:0.1.0"
    assert container["imagePullPolicy"] == "Always"
    assert container["resources"]["limits"] == {"cpu": 2, "memory": "512Mi"}
    assert pod["spec"]["imagePullSecrets"] == [{"name": "registry"}]
    assert pod["spec"]["nodeSelector"] == {"kubernetes.io/arch": "amd64"}
    assert pod["spec"]["tolerations"] == [{"key": "infra", "operator": "Exists", "effect": "NoSchedule"}]
    assert pod["spec"]["affinity"] == {"podAntiAffinity": {}}
    assert pod["spec"]["priorityClassName"] == "system-cluster-critical"
    assert pod["metadata"]["annotations"] == {"note": "1"}
    assert pod["metadata"]["labels"]["team"] == "platform"
    assert objects["ServiceAccount"]["metadata"]["annotations"] == {"team": "platform"}


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
    assert objects["Deployment"]["spec"]["template"]["metadata"].get("annotations") == annotations
    (port,) = operator_container(objects)["ports"]
    assert str(port["containerPort"]) == SCRAPED["prometheus.io/port"]


def test_the_dashboard_is_there_when_it_is_wanted(rendered: Render) -> None:
    assert "ConfigMap" not in rendered()
    dashboard = rendered("--set=dashboard.enabled=true")["ConfigMap"]
    assert dashboard["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert json.loads(dashboard["data"]["dtj.json"]) == json.loads((CHART / "dashboards" / "dtj.json").read_text())


def test_the_dashboard_has_the_labels_and_annotations_of_ones_own(rendered: Render) -> None:
    metadata = rendered(*EVERY_OPTION)["ConfigMap"]["metadata"]
    assert metadata["annotations"] == {"grafana_folder": "Training"}
    assert metadata["labels"].items() >= {"team": "platform", "grafana_dashboard": "1"}.items()


@pytest.mark.parametrize("options", [(), EVERY_OPTION], ids=["defaults", "every option"])
def test_the_operator_understands_its_arguments(rendered: Render, options: tuple[str, ...]) -> None:
    container = operator_container(rendered(*options))
    assert container["command"] == ["dtj", "operator", "run"]
    context = operator_run.make_context("run", list(container["args"]))
    (port,) = container["ports"]
    assert context.params["health_port"] == port["containerPort"]
    assert context.params["verbose"] == (options == EVERY_OPTION)


def test_a_digest_chooses_the_image(rendered: Render) -> None:
    digest = f"sha256:{'0a' * 32}"
    assert operator_container(rendered(f"--set=image.digest={digest}"))["image"] == f"dtj/operator@{digest}"


def test_the_pod_passes_pod_security_restricted(rendered: Render, client: Client, namespace: str) -> None:
    """Asked of the server, which has the standard and applies it to pods alone, not to Deployments."""
    template = rendered()["Deployment"]["spec"]["template"]
    metadata = {"name": "operator", **template["metadata"]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}
    own = f"{namespace}-restricted"
    client.kubectl_output("create", "namespace", own)
    try:
        client.kubectl_output("label", "namespace", own, "pod-security.kubernetes.io/enforce=restricted")
        client.kubectl_output("create", "serviceaccount", "dtj-operator", f"--namespace={own}")
        client.kubectl_output("create", "--dry-run=server", f"--namespace={own}", "-f", "-", stdin=json.dumps(pod))
        del pod["spec"]["securityContext"]
        with pytest.raises(AssertionError, match="violates PodSecurity"):
            client.kubectl_output("create", "--dry-run=server", f"--namespace={own}", "-f", "-", stdin=json.dumps(pod))
    finally:
        client.kubectl_output("delete", "namespace", own, "--wait=false")


def test_the_container_cannot_write_its_file_system(rendered: Render) -> None:
    assert operator_container(rendered())["securityContext"]["readOnlyRootFilesystem"] is True


def test_there_is_never_more_than_one_operator(rendered: Render) -> None:
    spec = rendered()["Deployment"]["spec"]
    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})


def test_its_rights_are_these_and_no_others(rendered: Render) -> None:
    granted = {
        (group, resource): set(rule["verbs"])
        for rule in rendered()["ClusterRole"]["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    assert granted == RIGHTS
    assert all(set(rule) == {"apiGroups", "resources", "verbs"} for rule in rendered()["ClusterRole"]["rules"])


@pytest.mark.parametrize(
    ("options", "account"),
    [
        ((), "dtj-operator"),
        (("--set=serviceAccount.name=robot",), "robot"),
        (("--set=serviceAccount.create=false,serviceAccount.name=mine",), "mine"),
    ],
    ids=["by default", "with a name", "one that exists"],
)
def test_the_pod_has_the_account_that_has_the_rights(
    rendered: Render, namespace: str, options: tuple[str, ...], account: str
) -> None:
    objects = rendered(*options)
    assert objects["Deployment"]["spec"]["template"]["spec"]["serviceAccountName"] == account
    assert objects["ClusterRoleBinding"]["subjects"] == [
        {"kind": "ServiceAccount", "name": account, "namespace": namespace}
    ]
    assert objects["ClusterRoleBinding"]["roleRef"]["name"] == objects["ClusterRole"]["metadata"]["name"]
    created = objects.get("ServiceAccount", {}).get("metadata", {}).get("name")
    assert created == (None if account == "mine" else account)


@pytest.mark.parametrize(
    ("release", "options", "name"),
    [
        ("dtj", (), "dtj-operator"),
        ("dtj-operator", (), "dtj-operator"),
        ("prod", (), "prod-dtj-operator"),
        ("prod", ("--set=nameOverride=training",), "prod-training"),
        ("prod", ("--set=fullnameOverride=training",), "training"),
        ("a" * 53, (), "a" * 53),
    ],
)
def test_names_of_the_objects(rendered: Render, release: str, options: tuple[str, ...], name: str) -> None:
    objects = rendered(*options, release=release)
    objects.pop("CustomResourceDefinition")
    assert {each["metadata"]["name"] for each in objects.values()} == {name}


def test_uninstalling_keeps_the_definition_and_so_the_jobs(rendered: Render) -> None:
    annotations = rendered()["CustomResourceDefinition"]["metadata"]["annotations"]
    assert annotations == {"helm.sh/resource-policy": "keep"}


def test_labels_of_ones_own_cannot_lose_the_pod(rendered: Render) -> None:
    """The API server refuses a Deployment whose selector misses its own pod."""
    deployment = rendered("--set-string=podLabels.app\\.kubernetes\\.io/name=mine")["Deployment"]
    selector, labels = (
        deployment["spec"]["selector"]["matchLabels"],
        deployment["spec"]["template"]["metadata"]["labels"],
    )
    assert selector.items() <= labels.items()
