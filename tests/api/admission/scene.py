"""What the tests of admission share: namespaces, users with rights in them, the chart's policies for these alone."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

import yaml

from dtj.api import names
from tests.api.chart.conftest import Helm
from tests.api.client import Answer, Client, Object
from tests.api.operator.polling import eventually

ACCESS = "rbac.authorization.k8s.io"
ADMISSION = ("validatingadmissionpolicy", "validatingadmissionpolicybinding")
ALLOWED = ""
"""As an answer: it goes through."""

Rule = Mapping[str, Any]


def rule(verbs: str, resources: str, *of_names: str, group: str = "") -> Rule:
    """One rule of a Role; verbs and resources separated by blanks."""
    only = {"resourceNames": list(of_names)} if of_names else {}
    return {"apiGroups": [group], "resources": resources.split(), "verbs": verbs.split(), **only}


JOBS = rule("*", f"{names.PLURAL} {names.PLURAL}/status {names.PLURAL}/scale", group=names.GROUP)
PODS = rule("create", "pods")


@dataclass(frozen=True)
class Namespaces:
    """Namespaces of one test module, by what they stand for."""

    by_role: Mapping[str, str]

    def __getitem__(self, role: str) -> str:
        """The name of a namespace; one that is not the module's own stands for itself."""
        return self.by_role.get(role, role)

    def named_in(self, options: Sequence[str]) -> list[str]:
        """Options for helm in which ``{a,b}`` lists namespaces of the module by what they stand for."""
        roles = "|".join(self.by_role)
        return [re.sub(rf"(?<=[{{,])({roles})(?=[,}}])", lambda found: self[found[0]], each) for each in options]


@contextmanager
def namespaces(client: Client, roles: Mapping[str, Mapping[str, str]]) -> Iterator[Namespaces]:
    """New namespaces for the block, with these labels."""
    suffix = uuid4().hex[:8]
    own = {role: f"dtj-{role}-{suffix}" for role in roles}
    for role, labels in roles.items():
        apply(
            client, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": own[role], "labels": dict(labels)}}
        )
    try:
        yield Namespaces(own)
    finally:
        client.kubectl_output("delete", "namespace", *own.values(), "--wait=false")


def granted(namespace: str, user: str, rules: Sequence[Rule]) -> tuple[Object, Object]:
    """A Role of the user's own there, and its binding."""
    metadata = {"name": user.replace(":", "-"), "namespace": namespace}
    reference = {"kind": "Role", "name": metadata["name"], "apiGroup": ACCESS}
    subjects = [{"kind": "User", "name": user, "apiGroup": ACCESS}]
    common = {"apiVersion": f"{ACCESS}/v1", "metadata": metadata}
    return (
        {**common, "kind": "Role", "rules": list(rules)},
        {**common, "kind": "RoleBinding", "roleRef": reference, "subjects": subjects},
    )


@contextmanager
def policy(client: Client, helm: Helm, which: str, namespace: str, *options: str) -> Iterator[str]:
    """The chart's policy of that name for the block, as a release in this namespace brings it; yields its name.

    It is not in force at once.
    """
    template = f"templates/admission-{which}.yaml"
    text = replace(helm, namespace=namespace).template(f"--show-only={template}", *options)
    (name,) = {each["metadata"]["name"] for each in yaml.safe_load_all(text)}
    client.kubectl_output("apply", "-f", "-", stdin=text)
    try:
        yield name
    finally:
        for kind in ADMISSION:
            client.kubectl_output("delete", kind, name)


def wait_until_in_force(ask: Callable[[], Answer], words: str) -> None:
    """Until what the policy refuses in these words is refused in them."""
    eventually(f"the policy says: {words}", lambda: ask().message, lambda message: words in message)


def apply(client: Client, *manifests: Object) -> None:
    content = {"apiVersion": "v1", "kind": "List", "items": list(manifests)}
    client.kubectl_output("apply", "-f", "-", stdin=json.dumps(content))


def _namespace(name: str, labels: Mapping[str, str]) -> Object:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": dict(labels)}}


def assert_answered(answer: Answer, expected: str) -> None:
    """Whether it went through, or was refused in these words."""
    if expected == ALLOWED:
        assert answer.accepted, answer.message
    else:
        assert answer.code in {403, 422}, answer
        assert expected in answer.message
