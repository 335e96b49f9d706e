"""Rights: the operator's are these and no others, in each way to install it; people have those of jobs by their own."""

from collections.abc import Iterator
from functools import partial

import pytest

from dtj.api import names
from tests.api.chart.conftest import BARE, NAMESPACED, Helm, Manifest, Objects, Render, granted, parsed
from tests.api.client import Client
from tests.api.operator.polling import eventually
from tests.api.resource import Resource

pytestmark = pytest.mark.api

OF_JOBS = {
    (names.GROUP, names.PLURAL): {"get", "list", "watch", "delete"},
    (names.GROUP, f"{names.PLURAL}/status"): {"patch"},
    ("", "pods"): {"get", "list", "watch", "create", "delete"},
    ("", "services"): {"get", "list", "watch", "create", "delete"},
    ("", "configmaps"): {"create"},
    ("networking.k8s.io", "networkpolicies"): {"get", "create"},
    ("", "events"): {"create", "patch"},
}
OF_NODES = {("", "nodes"): {"list", "watch"}}
AGGREGATED = "templates/aggregated-roles.yaml"
NO_NODES = "--set=watchNodes=false"
TEAMS = ("team-a", "team-b")

READ = {"get", "list", "watch"}
WRITE = {"create", "update", "patch", "delete", "deletecollection"}
OF_PEOPLE = {
    "dtj-viewer": {(names.GROUP, names.PLURAL): READ, (names.GROUP, f"{names.PLURAL}/status"): READ},
    "dtj-editor": {
        (names.GROUP, names.PLURAL): READ | WRITE,
        (names.GROUP, f"{names.PLURAL}/status"): READ,
        (names.GROUP, f"{names.PLURAL}/scale"): {"get", "update", "patch"},
    },
}
STATUS, SCALE = f"{names.PLURAL}/status", f"{names.PLURAL}/scale"
MAY = {
    "view": {("get", names.PLURAL): True, ("get", STATUS): True, ("create", names.PLURAL): False},
    "edit": {
        ("get", names.PLURAL): True,
        ("create", names.PLURAL): True,
        ("deletecollection", names.PLURAL): True,
        ("patch", SCALE): True,
        ("patch", STATUS): False,
        ("update", STATUS): False,
    },
    "admin": {("create", names.PLURAL): True, ("patch", SCALE): True, ("patch", STATUS): False},
}


def cluster_roles(objects: Objects) -> list[Manifest]:
    """Those of the operator."""
    return [each for each in objects.all("ClusterRole") if each["metadata"]["name"] not in OF_PEOPLE]


def bound_to(objects: Objects, kind: str) -> set[tuple[str, str, str]]:
    """Of each binding to a role of that kind: its namespace, the role's name and the account's."""
    found = set()
    for each in [*objects.all("ClusterRoleBinding"), *objects.all("RoleBinding")]:
        if each["roleRef"]["kind"] == kind:
            (subject,) = each["subjects"]
            found.add((each["metadata"].get("namespace", ""), each["roleRef"]["name"], subject["name"]))
    return found


@pytest.mark.parametrize(
    ("options", "rights"), [((), OF_JOBS | OF_NODES), ((NO_NODES,), OF_JOBS)], ids=["with nodes", "without"]
)
def test_in_all_namespaces(rendered: Render, options: tuple[str, ...], rights: dict[tuple[str, str], set[str]]) -> None:
    objects = rendered(*options)
    (role,) = cluster_roles(objects)
    assert granted(role["rules"]) == rights
    assert bound_to(objects, "ClusterRole") == {("", "dtj-operator", "dtj-operator")}
    assert [each["metadata"]["name"] for each in objects.all("Role")] == ["dtj-operator-lease"]


def test_in_some_namespaces_there_is_a_role_in_each(rendered: Render) -> None:
    objects = rendered(NAMESPACED)
    roles = {
        each["metadata"]["namespace"]: each for each in objects.all("Role") if "lease" not in each["metadata"]["name"]
    }
    assert {namespace: granted(role["rules"]) for namespace, role in roles.items()} == dict.fromkeys(TEAMS, OF_JOBS)
    of_teams = {each for each in bound_to(objects, "Role") if each[0] in TEAMS}
    assert of_teams == {(team, "dtj-operator", "dtj-operator") for team in TEAMS}


def test_in_some_namespaces_the_only_right_in_the_cluster_is_that_of_nodes(rendered: Render) -> None:
    objects = rendered(NAMESPACED)
    (role,) = cluster_roles(objects)
    assert granted(role["rules"]) == OF_NODES
    assert bound_to(objects, "ClusterRole") == {("", role["metadata"]["name"], "dtj-operator")}


def test_in_some_namespaces_without_nodes_there_is_no_right_in_the_cluster(rendered: Render) -> None:
    objects = rendered(NAMESPACED, NO_NODES)
    assert (cluster_roles(objects), objects.all("ClusterRoleBinding")) == ([], [])


def test_two_releases_of_one_name_do_not_share_a_cluster_role(helm: Helm) -> None:
    found = set()
    for namespace in TEAMS:
        done = Helm(helm.program, namespace).template(NAMESPACED, release="a" * 53)
        (role,) = cluster_roles(parsed(done))
        found.add(role["metadata"]["name"])
    assert len(found) == 2
    assert all(len(name) <= 63 for name in found)


@pytest.mark.parametrize("options", [(), (NAMESPACED,)], ids=["all namespaces", "some"])
def test_the_lease_is_the_only_one_that_it_may_change(
    rendered: Render, namespace: str, options: tuple[str, ...]
) -> None:
    objects = rendered("--set=fullnameOverride=training", *options)
    role = objects.the("Role", "training-lease")
    assert role["metadata"]["namespace"] == namespace
    create, change = role["rules"]
    leases = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"]}
    assert create == {**leases, "verbs": ["create"]}
    assert change == {**leases, "resourceNames": ["training"], "verbs": ["get", "update"]}
    assert (namespace, "training-lease", "training") in bound_to(objects, "Role")


def test_whoever_gives_the_rights_otherwise_gets_none(rendered: Render) -> None:
    kinds = {each["kind"] for each in rendered(BARE)}
    assert not kinds & {"Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding", "ServiceAccount"}


@pytest.mark.parametrize("options", [(), (NAMESPACED,)], ids=["all namespaces", "some"])
@pytest.mark.parametrize(
    ("given", "account"),
    [
        ((), "dtj-operator"),
        (("--set=serviceAccount.name=robot",), "robot"),
        (("--set=serviceAccount.create=false,serviceAccount.name=mine",), "mine"),
    ],
    ids=["by default", "with a name", "one that exists"],
)
def test_the_pod_has_the_account_that_has_the_rights(
    rendered: Render, namespace: str, given: tuple[str, ...], account: str, options: tuple[str, ...]
) -> None:
    objects = rendered(*given, *options)
    assert objects.the("Deployment")["spec"]["template"]["spec"]["serviceAccountName"] == account
    bindings = [*objects.all("ClusterRoleBinding"), *objects.all("RoleBinding")]
    subject = {"kind": "ServiceAccount", "name": account, "namespace": namespace}
    assert [each["subjects"] for each in bindings] == [[subject]] * len(bindings)
    created = [each["metadata"]["name"] for each in objects.all("ServiceAccount")]
    assert created == ([] if account == "mine" else [account])


@pytest.mark.parametrize(("role", "rights"), OF_PEOPLE.items(), ids=OF_PEOPLE.keys())
def test_what_people_may(rendered: Render, role: str, rights: dict[tuple[str, str], set[str]]) -> None:
    assert granted(rendered().the("ClusterRole", role)["rules"]) == rights


@pytest.fixture(scope="module")
def people(helm: Helm, client: Client, namespace: str, resource: Resource) -> Iterator[None]:
    """The roles are part of the cluster's own, and for each of those there is a user. Roles that were there stay."""
    roles = helm.template(f"--show-only={AGGREGATED}")
    created = client.kubectl("create", "-f", "-", stdin=roles)
    assert created.returncode == 0 or "AlreadyExists" in created.stderr, created.stderr
    for role in MAY:
        binding = (f"--clusterrole={role}", f"--user={user_with(role)}", f"--namespace={namespace}")
        client.kubectl_output("create", "rolebinding", user_with(role), *binding)
        reading = partial(client.kubectl_output, "get", "clusterrole", role, "-o", "json")
        eventually(f"{role} knows the resource", reading, lambda text: names.PLURAL in text)
    yield
    if created.returncode == 0:
        client.kubectl_output("delete", "-f", "-", stdin=roles)


def user_with(role: str) -> str:
    return f"somebody-who-may-{role}"


@pytest.mark.parametrize(
    ("role", "verb", "what", "allowed"),
    [(role, *asked, allowed) for role, answers in MAY.items() for asked, allowed in answers.items()],
)
def test_who_has_a_role_of_the_cluster_has_that_of_jobs(
    client: Client, namespace: str, people: None, role: str, verb: str, what: str, allowed: bool
) -> None:
    resource, _, subresource = what.partition("/")
    asked = ["auth", "can-i", verb, f"{resource}.{names.GROUP}", f"--as={user_with(role)}", f"--namespace={namespace}"]
    done = client.kubectl(*asked, *([f"--subresource={subresource}"] if subresource else []))
    assert done.stdout.strip() == ("yes" if allowed else "no"), done.stderr
