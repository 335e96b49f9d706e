"""What the images say of themselves."""

import json

import pytest

from tests.e2e.jobs import pod_spec
from tests.kubectl import Kubectl

pytestmark = pytest.mark.e2e

SBOM = "/usr/share/doc/dtj/sbom.cdx.json"
IMAGES = {
    "operator": {"dtj", "dtj-trainer", "kopf", "aiohttp"},
    "pytorch": {"dtj-trainer", "torch", "accelerate"},
    "tensorflow": {"dtj-trainer", "keras"},
    "horovod": {"dtj-trainer", "torch", "horovod"},
    "jax": {"dtj-trainer", "jax"},
}


@pytest.mark.parametrize(("image", "expected"), IMAGES.items(), ids=IMAGES.keys())
def test_an_image_lists_its_packages(kubectl: Kubectl, image: str, expected: set[str]) -> None:
    spec = {**pod_spec(["cat", SBOM], image=f"dtj/{image}:dev"), "restartPolicy": "Never"}
    kubectl.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": image}, "spec": spec})
    kubectl("wait", "--for=jsonpath={.status.phase}=Succeeded", f"pod/{image}", "--timeout=50s")
    sbom = json.loads(kubectl("logs", image))
    assert sbom["bomFormat"] == "CycloneDX"
    assert {component["name"] for component in sbom["components"]} >= expected
