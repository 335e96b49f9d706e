"""The manifest for those who install without Helm: it is the chart's, and a real API server takes it."""

from collections.abc import Iterator

import pytest
import yaml

from dtj.api import crd, names
from helm import manifest
from tests.api.chart.conftest import Helm, Objects, Render, parsed
from tests.api.client import Client

pytestmark = pytest.mark.api


@pytest.fixture(scope="module")
def objects() -> Objects:
    return parsed(manifest.MANIFEST.read_text(encoding="utf-8"))


def test_it_is_what_the_chart_says(helm: Helm) -> None:
    written = manifest.MANIFEST.read_text(encoding="utf-8")
    assert written == manifest.text(helm.program), "run `make manifest`"


def test_it_begins_with_what_the_rest_needs(objects: Objects) -> None:
    namespace, definition, *_ = objects
    assert (namespace["kind"], namespace["metadata"]["name"]) == ("Namespace", manifest.NAMESPACE)
    assert definition == crd.definition()


def test_it_has_all_that_the_chart_installs(rendered: Render, objects: Objects) -> None:
    kinds = sorted(each["kind"] for each in rendered())
    assert sorted(each["kind"] for each in objects if each["kind"] != "Namespace") == kinds


def test_it_is_for_one_namespace(objects: Objects) -> None:
    namespaces = {each["metadata"].get("namespace") for each in objects}
    assert namespaces == {None, manifest.NAMESPACE}


def test_it_does_not_claim_to_be_helms(objects: Objects) -> None:
    text = yaml.safe_dump([each for each in objects if each["kind"] != "CustomResourceDefinition"])
    assert "helm" not in text.lower()


@pytest.fixture(scope="module")
def target(client: Client) -> Iterator[None]:
    """The namespace, which a dry run does not create. Where it is there already somebody uses it, and it stays."""
    created = client.kubectl("create", "namespace", manifest.NAMESPACE)
    assert created.returncode == 0 or "AlreadyExists" in created.stderr, created.stderr
    yield
    if created.returncode == 0:
        client.kubectl_output("delete", "namespace", manifest.NAMESPACE, "--wait=false")


@pytest.mark.parametrize("side", ["--server-side=false", "--server-side=true"])
def test_the_api_server_takes_it(client: Client, target: None, side: str) -> None:
    apply = ("apply", side, "--dry-run=server", "--validate=strict", "-f", str(manifest.MANIFEST))
    assert f"{names.PLURAL}.{names.GROUP}" in client.kubectl_output(*apply)
