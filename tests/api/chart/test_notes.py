"""Names of what the chart makes, and what it tells who has installed it."""

import pytest

from tests.api.chart.conftest import BARE, CHART, EVERYTHING, NAMESPACED, SELFTEST, Helm, Render, parsed

pytestmark = pytest.mark.api

LONGEST = 63
FREE = {"CustomResourceDefinition", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}
"""Kinds whose names may be longer."""
NAMES = [
    ("dtj", (), "dtj-operator"),
    ("dtj-operator", (), "dtj-operator"),
    ("prod", (), "prod-dtj-operator"),
    ("prod", ("--set=nameOverride=training",), "prod-training"),
    ("prod", ("--set=fullnameOverride=training",), "training"),
    ("a" * 53, (), "a" * 53),
]
NOTES = {
    "all namespaces": ((), "in all namespaces", "apply -f examples/pytorch-digits.yaml"),
    "some": ((NAMESPACED,), "in team-a, team-b.", "kubectl -n team-a apply -f examples/pytorch-digits.yaml"),
    "without rights": ((BARE,), "the operator can do nothing until", "the account mine"),
    "with roles for people": ((), "the ClusterRole dtj-editor", "helm test dtj"),
}


@pytest.mark.parametrize(("release", "options", "name"), NAMES)
def test_names_of_the_objects(rendered: Render, release: str, options: tuple[str, ...], name: str) -> None:
    objects = rendered(*options, release=release)
    for kind in ("Deployment", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "PodDisruptionBudget"):
        assert objects.the(kind, name)
    assert objects.the("Role", f"{name}-lease")


@pytest.mark.parametrize("options", [(EVERYTHING,), (EVERYTHING, NAMESPACED)], ids=["all namespaces", "some"])
def test_no_name_is_too_long(helm: Helm, options: tuple[str, ...]) -> None:
    """Those of `helm test` included."""
    objects = parsed(helm.template(*options, release="a" * 53))
    found = {each["metadata"]["name"] for each in objects if each["kind"] not in FREE}
    assert len(found) > 4
    assert {name for name in found if len(name) > LONGEST} == set()


def test_uninstalling_keeps_the_definition_and_so_the_jobs(rendered: Render) -> None:
    annotations = rendered().the("CustomResourceDefinition")["metadata"]["annotations"]
    assert annotations == {"helm.sh/resource-policy": "keep"}


def test_a_definition_from_elsewhere_is_left_alone(rendered: Render) -> None:
    assert rendered("--set=crds.install=false").all("CustomResourceDefinition") == []


def test_roles_for_people_only_where_they_are_wanted(rendered: Render) -> None:
    named = {each["metadata"]["name"] for each in rendered("--set=rbac.aggregate=false").all("ClusterRole")}
    assert named == {"dtj-operator"}


@pytest.mark.parametrize(("options", "where", "next_step"), NOTES.values(), ids=NOTES.keys())
def test_what_to_do_next(helm: Helm, options: tuple[str, ...], where: str, next_step: str) -> None:
    done = helm.run("install", "dtj", str(CHART), "--dry-run=client", *options)
    assert done.returncode == 0, done.stderr
    notes = done.stdout.partition("NOTES:\n")[2]
    assert where in notes
    assert next_step in notes
    assert f"kubectl -n {helm.namespace} get lease dtj-operator" in notes


def test_the_selftest_is_no_part_of_the_release(rendered: Render, helm: Helm) -> None:
    """Its pod would count as one of the operator's."""
    selector = rendered().the("Deployment")["spec"]["selector"]["matchLabels"]
    hooks = parsed(helm.template(f"--show-only={SELFTEST}"))
    assert {each["metadata"]["annotations"]["helm.sh/hook"] for each in hooks} == {"test"}
    assert not any(selector.items() & each["metadata"]["labels"].items() for each in hooks)
