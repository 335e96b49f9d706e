"""Fixtures of the API tier: the committed definition on a real API server."""

import json
import time
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Protocol
from uuid import uuid4

import pytest

from dtj.api import crd, unsupported
from tests.api.client import TIMEOUT, Client, connected
from tests.api.resource import REPOSITORY, Resource

LATER_GROUP = "later.dtj.dev"
LATER_KIND = "LaterJob"
LATER_PLURAL = "laterjobs"


class ApiServer(Protocol):
    @property
    def kubeconfig(self) -> Path: ...

    @property
    def kubectl(self) -> Path: ...


@pytest.fixture(scope="session")
def client(api_server: ApiServer) -> Iterator[Client]:
    with connected(api_server.kubectl, api_server.kubeconfig) as connection:
        yield connection


@pytest.fixture(scope="session")
def namespace(client: Client) -> Iterator[str]:
    name = f"dtj-api-{uuid4().hex[:8]}"
    client.kubectl_output("create", "namespace", name)
    yield name
    client.kubectl_output("delete", "namespace", name, "--wait=false")


@pytest.fixture(scope="session")
def resource(client: Client, namespace: str) -> Resource:
    client.kubectl_output("apply", "-f", str(REPOSITORY / crd.CRD_FILE))
    return _wait_until_served(Resource(client, namespace))


@pytest.fixture(scope="session")
def later_resource(client: Client, namespace: str) -> Iterator[Resource]:
    """The same definition without the rules of ``unsupported``: what stays when everything works."""
    definition = deepcopy(crd.definition())
    definition["metadata"]["name"] = f"{LATER_PLURAL}.{LATER_GROUP}"
    definition["spec"]["group"] = LATER_GROUP
    definition["spec"]["names"] = {"kind": LATER_KIND, "plural": LATER_PLURAL}
    spec = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    refused_for_now = [rule.schema() for rule in unsupported.RULES]
    spec[crd.VALIDATIONS] = [entry for entry in spec[crd.VALIDATIONS] if entry not in refused_for_now]
    client.kubectl_output("apply", "-f", "-", stdin=json.dumps(definition))
    yield _wait_until_served(Resource(client, namespace, LATER_GROUP, LATER_KIND, LATER_PLURAL))
    client.kubectl_output("delete", "crd", definition["metadata"]["name"])


def _wait_until_served(resource: Resource) -> Resource:
    deadline = time.monotonic() + TIMEOUT
    while not (answer := resource.client.request("GET", resource.path)).accepted:
        assert time.monotonic() < deadline, answer.message
        time.sleep(0.05)
    return resource
