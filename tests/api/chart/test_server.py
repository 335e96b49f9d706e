"""A real API server takes what the chart makes, with every option, and applies Pod Security to its pods."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.api.chart.conftest import BARE, EVERYTHING, NAMESPACED, SELFTEST, Helm, Manifest, Objects, Render, parsed
from tests.api.client import Client

pytestmark = pytest.mark.api

FOREIGN_DEFINITIONS = Path(__file__).parent / "monitoring.yaml"


@pytest.fixture(scope="module")
def cluster(client: Client, namespace: str) -> Iterator[Client]:
    """With what a dry run needs and does not make: an account, and kinds of the Prometheus operator where it is not."""
    created = client.kubectl("create", "-f", str(FOREIGN_DEFINITIONS))
    assert created.returncode == 0 or "AlreadyExists" in created.stderr, created.stderr
    client.kubectl_output("wait", "--for=condition=Established", "--timeout=30s", "-f", str(FOREIGN_DEFINITIONS))
    client.kubectl_output("create", "serviceaccount", "dtj-operator-test", f"--namespace={namespace}")
    yield client
    if created.returncode == 0:
        client.kubectl_output("delete", "-f", str(FOREIGN_DEFINITIONS), "--wait=false")


@pytest.mark.parametrize(
    "options",
    [(), (EVERYTHING,), (BARE,), (NAMESPACED,), (EVERYTHING, NAMESPACED)],
    ids=["defaults", "everything", "bare", "namespaced", "everything namespaced"],
)
def test_it_takes_every_object(helm: Helm, cluster: Client, namespace: str, options: tuple[str, ...]) -> None:
    """In one namespace that exists where the chart would watch two. What is tested last comes along."""
    own = (f"--set=watchNamespaces={{{namespace}}}",) if NAMESPACED in options else ()
    text = helm.template(*options, *own)
    assert f"# Source: dtj-operator/{SELFTEST}" in text
    cluster.kubectl_output("apply", "--dry-run=server", "--validate=strict", "-f", "-", stdin=text)


@contextmanager
def restricted(client: Client, name: str) -> Iterator[str]:
    """A namespace that enforces the standard, with the accounts of the chart's pods."""
    client.kubectl_output("create", "namespace", name)
    try:
        client.kubectl_output("label", "namespace", name, "pod-security.kubernetes.io/enforce=restricted")
        for account in ("dtj-operator", "dtj-operator-test"):
            client.kubectl_output("create", "serviceaccount", account, f"--namespace={name}")
        yield name
    finally:
        client.kubectl_output("delete", "namespace", name, "--wait=false")


def operator_pod(objects: Objects) -> Manifest:
    template = objects.the("Deployment")["spec"]["template"]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "operator", "labels": template["metadata"]["labels"]},
        "spec": template["spec"],
    }


def selftest_pods(helm: Helm) -> list[Manifest]:
    """The pod that `helm test` runs, and one as its job has it."""
    objects = parsed(helm.template(f"--show-only={SELFTEST}"))
    job = json.loads(objects.the("ConfigMap")["data"]["job.json"])
    of_job = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "worker"},
        "spec": job["spec"]["template"]["spec"],
    }
    test = objects.the("Pod")
    return [{**test, "metadata": {"name": "test"}}, of_job]


def test_all_pods_pass_pod_security_restricted(helm: Helm, rendered: Render, client: Client, namespace: str) -> None:
    """Asked of the server, which has the standard and applies it to pods alone, not to Deployments."""
    with restricted(client, f"{namespace}-restricted") as own:
        create = ("create", "--dry-run=server", f"--namespace={own}", "-f", "-")
        for pod in [operator_pod(rendered()), *selftest_pods(helm)]:
            client.kubectl_output(*create, stdin=json.dumps(pod))
            del pod["spec"]["securityContext"]
            with pytest.raises(AssertionError, match="violates PodSecurity"):
                client.kubectl_output(*create, stdin=json.dumps(pod))
