"""The manifests under examples/: accepted as they are, fit for a restricted namespace, and true to our image."""

import argparse
import re
from typing import Any

import pytest
import yaml

from dtj.api import names
from dtj.api.job import DistributedTrainingJob
from dtj.plan.topology import trainer_container
from dtj.plan.validation import mistakes_in
from trainer_images.build import IMAGES, ROOT

DOCUMENTS = {
    path.name: list(yaml.safe_load_all(path.read_text())) for path in sorted((ROOT / "examples").glob("*.yaml"))
}
MANIFESTS = {
    name: document for name, documents in DOCUMENTS.items() for document in documents if document["kind"] == names.KIND
}
SCRIPTED = {name: manifest for name, manifest in MANIFESTS.items() if name != "custom-sockets.yaml"}
"""All but the one with its program in it, which test_custom_sockets.py runs."""

each = pytest.mark.parametrize("manifest", MANIFESTS.values(), ids=MANIFESTS.keys())


def trainer(manifest: dict[str, Any]) -> dict[str, Any]:
    return trainer_container(manifest["spec"]["template"])


def claims(manifest: dict[str, Any]) -> set[str]:
    volumes = manifest["spec"]["template"]["spec"].get("volumes", [])
    return {volume["persistentVolumeClaim"]["claimName"] for volume in volumes if "persistentVolumeClaim" in volume}


def test_every_file_is_an_example_of_a_job() -> None:
    assert MANIFESTS.keys() == DOCUMENTS.keys() >= {"pytorch-digits.yaml", "pytorch-digits-checkpoints.yaml"}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_it_brings_the_claims_that_it_mounts_and_workers_on_all_nodes_may_mount_them(name: str) -> None:
    brought = {
        document["metadata"]["name"]: document["spec"]["accessModes"]
        for document in DOCUMENTS[name]
        if document["kind"] == "PersistentVolumeClaim"
    }
    assert brought == {claim: ["ReadWriteMany"] for claim in claims(MANIFESTS[name])}


def test_the_example_with_checkpoints_survives_what_it_says() -> None:
    manifest = MANIFESTS["pytorch-digits-checkpoints.yaml"]
    (directory,) = [word for word in trainer(manifest)["command"] if word.startswith("--checkpoint-dir=")]
    assert f"--checkpoint-dir={trainer(manifest)['volumeMounts'][0]['mountPath']}" == directory
    assert claims(manifest) == {"digits-checkpoints"}
    (rule,) = manifest["spec"]["failurePolicy"]["rules"]
    with pytest.raises(SystemExit) as refusal:
        argparse.ArgumentParser().parse_args(["--no-such-option"])
    assert (rule["action"], rule["onExitCodes"]) == ("FailJob", {"operator": "In", "values": [refusal.value.code]})


@each
def test_the_operator_accepts_it(manifest: dict[str, Any]) -> None:
    assert mistakes_in(DistributedTrainingJob.model_validate(manifest)) == ()


@each
def test_its_pods_pass_pod_security_restricted(manifest: dict[str, Any]) -> None:
    pod = manifest["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in pod["containers"]:
        context = container["securityContext"]
        assert context["allowPrivilegeEscalation"] is False
        assert context["capabilities"] == {"drop": ["ALL"]}


@each
def test_its_image_is_one_that_we_build(manifest: dict[str, Any]) -> None:
    assert f"docker.io/{trainer(manifest)['image']}" in {image.reference for image in IMAGES.values()}


@pytest.mark.parametrize("manifest", SCRIPTED.values(), ids=SCRIPTED.keys())
def test_its_script_exists_and_knows_the_options(manifest: dict[str, Any]) -> None:
    words = trainer(manifest)["command"]
    sources = ROOT / IMAGES[re.split("[/:]", trainer(manifest)["image"])[1]].dockerfile.parent
    (script,) = [word for word in words if word.startswith("/examples/")]
    known = re.findall(r'add_argument\(\s*"(--[a-z-]+)"', (sources / script.removeprefix("/")).read_text())
    assert {word.partition("=")[0] for word in words if word.startswith("--")} <= set(known)


@each
def test_its_workers_spread_over_nodes_by_their_own_label(manifest: dict[str, Any]) -> None:
    for constraint in manifest["spec"]["template"]["spec"].get("topologySpreadConstraints", []):
        assert constraint["labelSelector"] == {"matchLabels": {"dtj.dev/job-name": manifest["metadata"]["name"]}}
