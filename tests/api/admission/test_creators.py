"""Who may create and change a job of which kind: attacks on the operator as a deputy that can be confused."""

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from itertools import chain
from typing import Any

import pytest

from dtj.api import names
from tests.api.admission import secret_places
from tests.api.admission.actor import MERGE, Actor, account
from tests.api.admission.creator_attacks import (
    CHANGES,
    CREATIONS,
    NAMESPACES,
    NO_PODS,
    NO_SECRET,
    OPERATOR,
    OPTIONS,
    OWN_SECRETS,
    SECRETS,
    STORED,
    TRAINING,
    USERS,
    Change,
    Creation,
    in_template,
    with_variables,
)
from tests.api.admission.scene import (
    ALLOWED,
    JOBS,
    Namespaces,
    Rule,
    apply,
    assert_answered,
    granted,
    namespaces,
    policy,
    wait_until_in_force,
)
from tests.api.chart.conftest import Helm
from tests.api.client import Client, Object
from tests.api.operator.polling import GARBAGE_COLLECTION_SECONDS, eventually
from tests.api.resource import Resource, changed, role, sample

pytestmark = pytest.mark.api


@pytest.fixture(scope="module")
def where(client: Client, helm: Helm, resource: Resource) -> Iterator[Namespaces]:
    """The namespaces of this module, with the policies in force, a suspended job in each, and users."""
    with namespaces(client, NAMESPACES) as own, ExitStack() as policies:
        apply(client, *chain.from_iterable(granted(*each) for each in rights(own)))
        for release, options in OPTIONS.items():
            policies.enter_context(policy(client, helm, "creators", own[release], *own.named_in(options)))
        deputy = Actor(client, "deputy")
        for namespace in own.by_role.values():
            wait_until_in_force(partial(deputy.request, "POST", jobs(namespace), sample("minimal")), NO_PODS)
            create(client, namespace)
        yield own


def rights(where: Namespaces) -> Iterator[tuple[str, str, list[Rule]]]:
    for namespace in where.by_role.values():
        yield from ((namespace, user, rules) for user, rules in USERS.items())
        yield namespace, account(where["plain"], OPERATOR), [JOBS]


def create(client: Client, namespace: str, name: str = STORED, **pod: object) -> None:
    """A suspended job that is there; whoever makes it here may do everything."""
    changes = {"metadata.name": name, "spec.suspend": True, **in_template(pod)}
    answer = client.request("POST", jobs(namespace), changed(sample("minimal"), changes))
    assert answer.accepted, answer.message


def jobs(namespace: str) -> str:
    return f"/apis/{names.API_VERSION}/namespaces/{namespace}/{names.PLURAL}"


def attacker(client: Client, who: str | None) -> Actor:
    return Actor(client, who) if who else Actor(client, "root", ("system:masters",))


@pytest.mark.parametrize("attack", CREATIONS.values(), ids=CREATIONS.keys())
def test_creation(client: Client, where: Namespaces, attack: Creation) -> None:
    job = changed(sample("minimal"), attack.changes)

    answer = attacker(client, attack.who).request("POST", jobs(where[attack.where]), job)

    assert_answered(answer, attack.answer)


@pytest.mark.parametrize("attack", CHANGES.values(), ids=CHANGES.keys())
def test_change(client: Client, where: Namespaces, attack: Change) -> None:
    path = f"{jobs(where[attack.where])}/{STORED}{attack.path}"

    answer = attacker(client, attack.who).request(attack.method, path, attack.body, attack.kind)

    assert_answered(answer, attack.answer)


@pytest.mark.parametrize("place", secret_places.places().values(), ids=secret_places.places().keys())
@pytest.mark.parametrize("in_role", [False, True], ids=["of the workers", "of a role"])
def test_a_secret_that_the_creator_cannot_read(
    client: Client, where: Namespaces, place: secret_places.Path, in_role: bool
) -> None:
    reader = Actor(client, "reader")

    answers = [
        reader.request("POST", jobs(where["strict"]), job_with_pod(secret_places.pod_spec(secret, place), in_role))
        for secret in ("other", "own0")
    ]

    assert_answered(answers[0], NO_SECRET)
    assert_answered(answers[1], ALLOWED)


def job_with_pod(pod: Object, in_role: bool) -> Object:
    changes: dict[str, Any] = {"spec.framework": "Custom", "spec.template.spec": pod}
    if in_role:
        changes = {"spec.framework": "Custom", "spec.roles": [role("a", template={"spec": pod})]}
    return changed(sample("minimal"), changes)


def test_somebody_elses_job_with_more_than_one_may_have(client: Client, where: Namespaces) -> None:
    """Whoever resumes it makes its pods run."""
    create(client, where["strict"], "rich", imagePullSecrets=[{"name": "other"}])
    path = f"{jobs(where['strict'])}/rich"

    refused = Actor(client, "reader").request("PATCH", path, {"spec": {"suspend": False}}, MERGE)
    label = Actor(client, "reader").request("PATCH", path, {"metadata": {"labels": {"a": "b"}}}, MERGE)
    allowed = Actor(client, "rich").request("PATCH", path, {"spec": {"suspend": False}}, MERGE)

    assert_answered(refused, NO_SECRET)
    assert_answered(label, ALLOWED)
    assert_answered(allowed, ALLOWED)


def test_a_large_job_is_judged_within_the_budget(client: Client, where: Namespaces) -> None:
    """Seven templates with a hundred variables from Secrets each, and everything else that costs most."""
    pod = changed(sample("minimal"), with_variables(OWN_SECRETS[index % SECRETS] for index in range(100)))
    template = {"spec": pod["spec"]["template"]["spec"] | {"serviceAccountName": "own0"}}
    roles = [role(f"r{index}", template=template) for index in range(6)]
    job = changed(pod, {"spec.framework": "Custom", "spec.roles": roles})

    assert_answered(Actor(client, "reader").request("POST", jobs(where["strict"]), job), ALLOWED)


def test_the_status_of_a_new_job_is_not_the_creators(client: Client, where: Namespaces) -> None:
    job = sample("minimal") | {"status": {"phase": "Succeeded", "attempt": 7}}

    answer = Actor(client, "trainer").request("POST", jobs(where["plain"]), job)

    assert_answered(answer, ALLOWED)
    assert "status" not in answer.body


def test_a_spec_that_is_sent_as_a_status_changes_nothing(client: Client, where: Namespaces) -> None:
    path = f"{jobs(where['plain'])}/{STORED}"

    answer = Actor(client, "trainer").request("PATCH", f"{path}/status", TRAINING, MERGE)

    assert_answered(answer, ALLOWED)
    assert answer.body["spec"] == client.request("GET", path).body["spec"]


def test_the_operator_writes_a_status_without_being_judged(client: Client, where: Namespaces) -> None:
    """It is the one who writes most; that it could create pods matters nothing there."""
    operator = account(where["plain"], OPERATOR)
    path = f"{jobs(where['plain'])}/{STORED}"

    status = Actor(client, operator).request("PATCH", f"{path}/status", {"status": {"attempt": 7}}, MERGE)
    spec = Actor(client, operator).request("PATCH", path, {"spec": {"suspend": False}}, MERGE)

    assert_answered(status, ALLOWED)
    assert_answered(spec, NO_PODS)


def test_the_garbage_collector_can_do_its_work(client: Client, where: Namespaces) -> None:
    """It changes a job that is deleted in the foreground, and may create no pods."""
    namespace = where["plain"]
    create(client, namespace, "doomed")
    path = f"{jobs(namespace)}/doomed"
    uid = client.request("GET", path).body["metadata"]["uid"]
    owner = {"apiVersion": names.API_VERSION, "kind": names.KIND, "name": "doomed", "uid": uid}
    child = {"metadata": {"name": "child", "ownerReferences": [owner | {"blockOwnerDeletion": True}]}}
    assert client.request("POST", f"/api/v1/namespaces/{namespace}/configmaps", child).accepted

    deletion = {"propagationPolicy": "Foreground"}
    assert Actor(client, "deputy").request("DELETE", path, deletion, dry_run=False).accepted

    eventually(
        "the job is gone",
        lambda: client.request("GET", path).code,
        lambda code: code == 404,
        within=GARBAGE_COLLECTION_SECONDS,
    )


def test_a_refusal_is_no_dry_one(client: Client, where: Namespaces) -> None:
    """Everything else here is asked without consequences."""
    job = changed(sample("minimal"), {"metadata.name": "real"})
    path = f"{jobs(where['plain'])}/real"

    refused = Actor(client, "deputy").request("POST", jobs(where["plain"]), job, dry_run=False)
    there = client.request("GET", path).code
    allowed = Actor(client, "trainer").request("POST", jobs(where["plain"]), job, dry_run=False)

    assert_answered(refused, NO_PODS)
    assert there == 404
    assert_answered(allowed, ALLOWED)
