"""``kubectl`` as a person uses it: explain, apply of the definition, the words of a refusal."""

import time

import pytest

from dtj.api import crd, pod_template
from dtj.api.spec import JobSpec
from tests.api.client import TIMEOUT, Client
from tests.api.resource import REPOSITORY, SAMPLES, Resource

pytestmark = pytest.mark.api


def explained(client: Client, path: str) -> str:
    """What ``kubectl explain`` prints, once the server's documentation has caught up with the definition."""
    deadline = time.monotonic() + TIMEOUT
    while True:
        done = client.kubectl("explain", path)
        if done.returncode == 0 or time.monotonic() > deadline:
            assert done.returncode == 0, done.stderr
            return " ".join(done.stdout.split())
        time.sleep(0.05)


@pytest.mark.parametrize("name", JobSpec.model_fields)
def test_explain_has_every_field_with_its_description(resource: Resource, name: str) -> None:
    field = JobSpec.model_fields[name]

    text = explained(resource.client, f"dtj.spec.{field.alias or name}")

    assert " ".join(str(field.description).split()) in text


def test_explain_reaches_into_the_pod_template(resource: Resource) -> None:
    text = explained(resource.client, "dtj.spec.template.spec.containers.resources.limits")

    assert "FIELD: limits" in text


def test_explain_lists_the_possible_values(resource: Resource) -> None:
    text = explained(resource.client, "dtj.spec.cleanupPolicy")

    assert "ENUM: Running All None" in text


def test_plain_apply_takes_the_definition_again(resource: Resource) -> None:
    output = resource.client.kubectl_output("apply", "-f", str(REPOSITORY / crd.CRD_FILE))

    assert output.endswith("unchanged\n")


def test_refusal_reads_well(resource: Resource) -> None:
    text = (SAMPLES / "minimal.yaml").read_text(encoding="utf-8").replace("PyTorch", "MPI")

    done = resource.client.kubectl("apply", "-n", resource.namespace, "--dry-run=server", "-f", "-", stdin=text)

    assert done.stderr == (
        'The DistributedTrainingJob "digits" is invalid: spec.framework: Forbidden: '
        "this version runs PyTorch, TensorFlow, Horovod, JAX and Custom only\n"
    )


def test_the_pod_template_is_the_clusters_own(client: Client) -> None:
    version = client.request("GET", "/version").body
    if f"{version['major']}.{version['minor']}" != pod_template.KUBERNETES:
        pytest.skip(f"the committed schema is that of Kubernetes {pod_template.KUBERNETES}")

    document = client.request("GET", "/openapi/v3/api/v1").body

    assert pod_template.text(document) == pod_template.DATA.read_text(encoding="utf-8")
