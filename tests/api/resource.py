"""The resource on the API server under test: samples, small changes to them, and where to send them."""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from dtj.api import names
from tests.api.client import Answer, Client, Object

REPOSITORY = Path(__file__).parents[2]
SAMPLES = Path(__file__).parent / "samples"
ABSENT = object()
"""As a value in ``changed``: the field is taken away."""


TEMPLATE = {"spec": {"containers": [{"name": "trainer", "image": "a"}]}}
"""A pod template with nothing that a test might mean."""


class Refused(NamedTuple):
    """Changes to a sample with which it is refused: at this field, with these words among others."""

    changes: dict[str, Any]
    field: str
    words: str


def sample(name: str) -> Object:
    content: Object = yaml.safe_load((SAMPLES / f"{name}.yaml").read_text(encoding="utf-8"))
    return content


def changed(original: Object, changes: Mapping[str, Any]) -> Object:
    """A copy with other values at dotted paths, where a number is an index: ``spec.roles.0.name``."""
    copy = deepcopy(original)
    for path, value in changes.items():
        *parents, last = path.split(".")
        node: Any = copy
        for key in parents:
            node = node[int(key)] if isinstance(node, list) else node.setdefault(key, {})
        if value is ABSENT:
            del node[last]
        elif isinstance(node, list):
            node[int(last)] = value
        else:
            node[last] = value
    return copy


def role(name: str, **more: object) -> dict[str, Any]:
    return {"name": name, "template": TEMPLATE} | more


def assert_refused_once(answer: Answer, case: Refused) -> None:
    """Other mistakes may be told besides, but this one with this field and once."""
    at_fault = [field for field, message in answer.refusals if case.words in message]
    assert at_fault == [case.field], answer.message


@dataclass(frozen=True)
class Resource:
    """One served kind in a namespace of the test's own."""

    client: Client
    namespace: str
    group: str = names.GROUP
    kind: str = names.KIND
    plural: str = names.PLURAL

    @property
    def path(self) -> str:
        return f"/apis/{self.group}/{names.VERSION}/namespaces/{self.namespace}/{self.plural}"

    def _of_this_kind(self, job: Object) -> Object:
        return job | {"apiVersion": f"{self.group}/{names.VERSION}", "kind": self.kind}

    def create(self, job: Object, *, dry_run: bool = False) -> Answer:
        query = "?fieldValidation=Strict" + ("&dryRun=All" if dry_run else "")
        return self.client.request("POST", self.path + query, self._of_this_kind(job))

    def try_to_create(self, job: Object) -> Answer:
        return self.create(job, dry_run=True)

    def patch(self, name: str, change: Object, *, subresource: str = "", dry_run: bool = False) -> Answer:
        path = f"{self.path}/{name}" + (f"/{subresource}" if subresource else "")
        query = "?fieldValidation=Strict" + ("&dryRun=All" if dry_run else "")
        return self.client.request("PATCH", path + query, change, "application/merge-patch+json")

    def read(self, name: str) -> Object:
        answer = self.client.request("GET", f"{self.path}/{name}")
        assert answer.accepted, answer.message
        return answer.body
