"""The policies as the chart renders them."""

from collections.abc import Callable

import pytest
import yaml

from tests.api.admission.scene import policy
from tests.api.chart.conftest import CHART, Helm
from tests.api.client import Client, Object
from tests.api.operator.polling import eventually

pytestmark = pytest.mark.api

POLICY = "ValidatingAdmissionPolicy"
BINDING = "ValidatingAdmissionPolicyBinding"
EVERYTHING = (
    "--set=admission.serviceAccounts=true,admission.secrets=true,watchNamespaces={a}",
    "--set=admission.capabilities={IPC_LOCK},admission.trustedUsers={system:serviceaccount:queue:queue}",
)

Render = Callable[..., list[Object]]

REFUSED = {
    "a word for a truth": ("--set-string=admission.enabled=yes", "at '/admission/enabled'"),
    "an unknown value": ("--set=admission.secret=true", "additional properties 'secret' not allowed"),
    "a capability in small letters": ("--set=admission.capabilities={ipc_lock}", "at '/admission/capabilities/0'"),
    "a user who would end the expression": (
        "--set=admission.trustedUsers={a'] || true}",
        "at '/admission/trustedUsers/0'",
    ),
}


@pytest.fixture
def rendered(helm: Helm) -> Render:
    """Return the objects of admission, for the options of ``helm template``."""

    def render(*options: str, helm: Helm = helm) -> list[Object]:
        manifests = yaml.load_all(helm.template("--no-hooks", *options), yaml.CSafeLoader)
        return [each for each in manifests if each and each["kind"] in {POLICY, BINDING}]

    return render


def named(objects: list[Object], kind: str, policy: str) -> Object:
    (found,) = (each for each in objects if each["kind"] == kind and f"-{policy}." in each["metadata"]["name"])
    return found


@pytest.mark.parametrize(
    ("options", "count"),
    [((), 4), (("--set=admission.enabled=false",), 0), (("--set=admission=null",), 4)],
    ids=["by default", "not wanted", "kept from a version without"],
)
def test_there_are_two_policies_with_a_binding_each(rendered: Render, options: tuple[str, ...], count: int) -> None:
    assert len(rendered(*options)) == count


def test_they_refuse_where_they_cannot_judge(rendered: Render) -> None:
    assert {each["spec"]["failurePolicy"] for each in rendered() if each["kind"] == POLICY} == {"Fail"}
    assert [each["spec"]["validationActions"] for each in rendered() if each["kind"] == BINDING] == [["Deny"], ["Deny"]]


def test_creators_are_judged_where_the_release_watches_and_the_operator_everywhere(rendered: Render) -> None:
    everywhere, some = rendered(), rendered("--set=watchNamespaces={a,b}")

    names = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["a", "b"]}
    selector = {"namespaceSelector": {"matchExpressions": [names]}}
    assert named(some, BINDING, "creators")["spec"]["matchResources"] == selector
    for binding in (
        named(everywhere, BINDING, "creators"),
        named(everywhere, BINDING, "cage"),
        named(some, BINDING, "cage"),
    ):
        assert "matchResources" not in binding["spec"]


def test_releases_of_one_name_in_two_namespaces_have_policies_of_their_own(rendered: Render, helm: Helm) -> None:
    first, second = ({each["metadata"]["name"] for each in rendered(helm=Helm(helm.program, each))} for each in "ab")
    assert not first & second


def test_the_operator_is_known_by_the_account_that_it_has(rendered: Render, helm: Helm) -> None:
    cage = named(rendered("--set=serviceAccount.name=robot"), POLICY, "cage")
    (condition,) = cage["spec"]["matchConditions"]
    assert condition["expression"] == f"request.userInfo.username == 'system:serviceaccount:{helm.namespace}:robot'"


@pytest.mark.parametrize(("option", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_mistakes_in_values_are_refused(helm: Helm, option: str, message: str) -> None:
    done = helm.run("template", "dtj", str(CHART), option)
    assert done.returncode != 0
    assert message in done.stderr


@pytest.mark.parametrize("which", ["creators", "cage"])
def test_the_api_server_finds_nothing_to_warn_of(client: Client, helm: Helm, namespace: str, which: str) -> None:
    """It checks the types of all expressions, and tells in the status."""
    with policy(client, helm, which, namespace, *EVERYTHING) as name:
        path = f"/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/{name}"
        status: Object = eventually("it is checked", lambda: client.request("GET", path).body.get("status", {}), bool)
    assert status["typeChecking"].get("expressionWarnings", []) == []
