"""What docs/security.md says: its attacks are those tried here, its examples grant what they say, its tests exist."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from dtj.api import names
from tests.api.admission import attack_table
from tests.api.admission.actor import Actor
from tests.api.admission.creator_attacks import HOST_PATH, NO_PODS, in_template, with_secrets
from tests.api.admission.scene import (
    ACCESS,
    ALLOWED,
    JOBS,
    PODS,
    apply,
    assert_answered,
    granted,
    namespaces,
    policy,
    wait_until_in_force,
)
from tests.api.chart.conftest import Helm
from tests.api.client import Client, Object
from tests.api.resource import REPOSITORY, Resource, changed, sample

pytestmark = pytest.mark.api

TEXT = attack_table.PAGE.read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```yaml\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
EXAMPLES = [example for block in BLOCKS for example in yaml.safe_load_all(block)]
NAMED_TEST = re.compile(r"\[`(test_\w+)`\]\(\.\./(tests/[\w/]+\.py)\)")
OPTIONS = "--set=admission.serviceAccounts=true,admission.secrets=true,watchNamespaces="
WANTED: dict[str, dict[str, Any]] = {
    "the account": in_template({"serviceAccountName": "robot"}),
    "the Secret": with_secrets("datasets"),
    "the files of the node": in_template(HOST_PATH),
}


def test_its_attacks_are_those_of_the_tests() -> None:
    found = attack_table.BETWEEN.search(TEXT)
    assert found is not None
    assert found[0] == attack_table.tables(), "run python -m tests.api.admission.attack_table"


@pytest.mark.parametrize(("test", "path"), sorted(set(NAMED_TEST.findall(TEXT))))
def test_the_tests_that_it_names_exist(test: str, path: str) -> None:
    assert f"def {test}(" in (REPOSITORY / path).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def team(client: Client, helm: Helm, resource: Resource) -> Iterator[str]:
    """A namespace as the page labels it, with a user who has what its Roles grant."""
    (labelled,) = (each["metadata"]["labels"] for each in EXAMPLES if each["kind"] == "Namespace")
    with (
        namespaces(client, {"team": labelled}) as own,
        policy(client, helm, "creators", own["team"], f"{OPTIONS}{{{own['team']}}}"),
    ):
        for user in ("reader", "outsider"):
            apply(client, *granted(own["team"], user, [JOBS, PODS]))
        apply(client, *granted(own["team"], "deputy", [JOBS]))
        for example in EXAMPLES:
            if example["kind"] == "Role":
                apply(client, *bound(example, own["team"]))
        path = jobs(own["team"])
        wait_until_in_force(lambda: Actor(client, "deputy").request("POST", path, sample("minimal")), NO_PODS)
        yield own["team"]


def bound(role: Object, namespace: str) -> tuple[Object, Object]:
    """The Role in a namespace of the test's, for the reader of the page."""
    metadata = {"name": role["metadata"]["name"], "namespace": namespace}
    reference = {"kind": "Role", "name": metadata["name"], "apiGroup": ACCESS}
    subjects = [{"kind": "User", "name": "reader", "apiGroup": ACCESS}]
    binding = {"apiVersion": role["apiVersion"], "kind": "RoleBinding", "metadata": metadata}
    return {**role, "metadata": metadata}, {**binding, "roleRef": reference, "subjects": subjects}


def jobs(namespace: str) -> str:
    return f"/apis/{names.API_VERSION}/namespaces/{namespace}/{names.PLURAL}"


@pytest.mark.parametrize("changes", WANTED.values(), ids=WANTED.keys())
def test_its_examples_grant(client: Client, team: str, changes: dict[str, Any]) -> None:
    job = changed(sample("minimal"), changes)

    without = Actor(client, "outsider").request("POST", jobs(team), job)
    granted_to = Actor(client, "reader").request("POST", jobs(team), job)

    assert_answered(without, "outsider may not")
    assert_answered(granted_to, ALLOWED)
