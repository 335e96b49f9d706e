"""What the operator's account may do, whoever uses it: attacks with its token, which has every right here."""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import yaml

from dtj.api import names
from tests.api.admission.actor import MERGE, Actor, account
from tests.api.admission.cage_attacks import (
    ACCOUNT,
    CREATIONS,
    FINISHED,
    FOREIGN_KINDS,
    JOBS,
    NAMESPACES,
    NO_BUSINESS,
    NOT_A_JOBS,
    REQUESTS,
    Creation,
    Request,
    manifest,
    there,
)
from tests.api.admission.scene import (
    ACCESS,
    ALLOWED,
    Namespaces,
    apply,
    assert_answered,
    namespaces,
    policy,
    wait_until_in_force,
)
from tests.api.chart.conftest import Helm
from tests.api.client import Answer, Client, Object
from tests.api.operator.polling import GARBAGE_COLLECTION_SECONDS, eventually
from tests.api.resource import Resource

pytestmark = pytest.mark.api

GROUPS = {
    "networkpolicies": "/apis/networking.k8s.io/v1",
    names.PLURAL: f"/apis/{names.API_VERSION}",
    **dict.fromkeys(("roles", "rolebindings", "clusterroles", "clusterrolebindings"), f"/apis/{ACCESS}/v1"),
}
OF_THE_CLUSTER = {"clusterroles", "clusterrolebindings"}
NO_OWNER = Creation("pods", {"metadata.ownerReferences": []}, NOT_A_JOBS)


@pytest.fixture(scope="module")
def where(client: Client, helm: Helm, resource: Resource) -> Iterator[Namespaces]:
    """The namespaces of this module, with the policy in force, an almighty operator, and objects of all kinds."""
    with namespaces(client, NAMESPACES) as own, policy(client, helm, "cage", own["own"]):
        everything = almighty(own["own"])
        apply(client, *everything)
        for namespace in own.by_role.values():
            default = path("serviceaccounts", namespace, "default")
            eventually("pods can be created", partial(client.request, "GET", default), lambda answer: answer.accepted)
        fill(client, own["team"])
        wait_until_in_force(partial(create, operator(client, own), own, NO_OWNER), NOT_A_JOBS)
        yield own
        client.kubectl_output("delete", "clusterrolebinding", own["own"])


def almighty(namespace: str) -> tuple[Object, Object]:
    """The operator's account, and every right for it."""
    subject = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": namespace}
    return (
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT, "namespace": namespace}},
        {
            "apiVersion": f"{ACCESS}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": namespace},
            "roleRef": {"apiGroup": ACCESS, "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [subject],
        },
    )


def fill(client: Client, namespace: str) -> None:
    for job in JOBS:
        answer = client.request("POST", path(names.PLURAL, namespace), job)
        assert answer.accepted, answer.message
    for name in ("finished", "over"):
        status = path(names.PLURAL, namespace, name) + "/status"
        answer = client.request("PATCH", status, {"status": {"phase": "Succeeded", **FINISHED}}, MERGE)
        assert answer.accepted, answer.message
    running = client.request("GET", path(names.PLURAL, namespace, "running")).body["metadata"]["uid"]
    for resource, manifests in there(running).items():
        for each in manifests:
            if resource == "events":
                each["involvedObject"]["namespace"] = namespace
            answer = client.request("POST", path(resource, namespace), each)
            assert answer.accepted, answer.message


def operator(client: Client, where: Namespaces) -> Actor:
    return Actor(client, account(where["own"], ACCOUNT))


def path(resource: str, namespace: str, name: str = "") -> str:
    within = "" if resource in OF_THE_CLUSTER else f"/namespaces/{namespace}"
    return f"{GROUPS.get(resource, '/api/v1')}{within}/{resource}" + (f"/{name}" if name else "")


def create(actor: Actor, where: Namespaces, creation: Creation) -> Answer:
    namespace = where[creation.where]
    return actor.request("POST", path(creation.resource, namespace), manifest(creation, namespace))


@pytest.mark.parametrize("attack", CREATIONS.values(), ids=CREATIONS.keys())
def test_creation(client: Client, where: Namespaces, attack: Creation) -> None:
    assert_answered(create(operator(client, where), where, attack), attack.answer)


ALL_REQUESTS = REQUESTS | FOREIGN_KINDS


@pytest.mark.parametrize("attack", ALL_REQUESTS.values(), ids=ALL_REQUESTS.keys())
def test_request(client: Client, where: Namespaces, attack: Request) -> None:
    target = path(attack.resource, where["team"], attack.name)

    actor = operator(client, where)
    answer = actor.request(attack.method, target, attack.body, attack.kind, dry_run=attack.dry_run)

    assert_answered(answer, attack.answer)


OTHERS = {
    "the administrator": ("root", ("system:masters",)),
    "a user who is called as the account is": (ACCOUNT, ("system:masters",)),
    "an account of that name in another namespace": (account("elsewhere", ACCOUNT), ("system:masters",)),
}


@pytest.mark.parametrize(("user", "groups"), OTHERS.values(), ids=OTHERS.keys())
def test_nobody_else_is_caged(client: Client, where: Namespaces, user: str, groups: tuple[str, ...]) -> None:
    assert_answered(create(Actor(client, user, groups), where, NO_OWNER), ALLOWED)


@pytest.fixture
def stolen(client: Client, where: Namespaces, tmp_path: Path) -> str:
    """The option of kubectl that lets it use the account's token; the other tests only call themselves by its name."""
    token = client.kubectl_output("create", "token", ACCOUNT, f"--namespace={where['own']}").strip()
    kubeconfig = yaml.safe_load(client.kubectl_output("config", "view", "--raw", "--minify", "--flatten"))
    kubeconfig["users"][0]["user"] = {"token": token}
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(kubeconfig), encoding="utf-8")
    return f"--kubeconfig={path}"


def test_a_stolen_token_is_caged(client: Client, where: Namespaces, stolen: str) -> None:
    pod = json.dumps(manifest(NO_OWNER, where["team"]))

    done = client.kubectl("create", stolen, "--dry-run=server", "-f", "-", stdin=pod)

    assert NOT_A_JOBS in done.stderr


@pytest.mark.parametrize("command", [("exec", "foreign", "--", "sh"), ("attach", "foreign")], ids=["exec", "attach"])
def test_a_stolen_token_gets_into_no_pod(
    client: Client, where: Namespaces, stolen: str, command: tuple[str, ...]
) -> None:
    done = client.kubectl(stolen, f"--namespace={where['team']}", *command)

    assert f"{NO_BUSINESS} pods/{command[0]}" in done.stderr


def test_a_pod_of_a_job_that_does_not_exist_does_not_stay(client: Client, where: Namespaces) -> None:
    """Nobody looks the owner up when the pod is created; the garbage collector does soon after."""
    pod = manifest(Creation("pods", {"spec.schedulerName": "tests"}, ALLOWED, "own"), where["own"])

    answer = operator(client, where).request("POST", path("pods", where["own"]), pod, dry_run=False)

    assert_answered(answer, ALLOWED)
    eventually(
        "the pod is gone",
        lambda: client.request("GET", path("pods", where["own"], pod["metadata"]["name"])).code,
        lambda code: code == 404,
        within=GARBAGE_COLLECTION_SECONDS,
    )
