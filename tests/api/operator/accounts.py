"""Operators with fewer rights than the tests' own."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import yaml

from dtj.api import names
from tests.api.client import Client, Object
from tests.api.operator.scene import Scene

ACCESS = "/apis/rbac.authorization.k8s.io/v1"
RESOURCES = {
    names.GROUP: (names.PLURAL, f"{names.PLURAL}/status"),
    "": ("pods", "services", "configmaps", "nodes", "events"),
    "networking.k8s.io": ("networkpolicies",),
}
VERBS = ("get", "list", "watch", "create", "patch", "delete")


def rights_without(verb: str, resource: str) -> list[Object]:
    """Rules for everything that an operator asks for, and more, but for this verb on this resource."""
    return [
        {
            "apiGroups": [group],
            "resources": [each],
            "verbs": [known for known in VERBS if (known, each) != (verb, resource)],
        }
        for group, resources in RESOURCES.items()
        for each in resources
    ]


@contextmanager
def kubeconfig_with(client: Client, scene: Scene, rules: Sequence[Object], directory: Path) -> Iterator[Path]:
    """A kubeconfig, for the block, of a service account that has these rights in the whole cluster and no others."""
    account, role = "operator", f"{scene.namespace}-operator"
    scene.create("serviceaccounts", {"metadata": {"name": account}})
    subject = {"kind": "ServiceAccount", "name": account, "namespace": scene.namespace}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
    binding = {"metadata": {"name": role}, "roleRef": reference, "subjects": [subject]}
    _post(client, f"{ACCESS}/clusterroles", {"metadata": {"name": role}, "rules": list(rules)})
    _post(client, f"{ACCESS}/clusterrolebindings", binding)
    token = _post(client, scene.path("serviceaccounts", account) + "/token", {"spec": {}})["status"]["token"]
    path = directory / "kubeconfig"
    path.write_text(yaml.safe_dump(_with_token(client, token)), encoding="utf-8")
    try:
        yield path
    finally:
        client.request("DELETE", f"{ACCESS}/clusterrolebindings/{role}")
        client.request("DELETE", f"{ACCESS}/clusterroles/{role}")


def _with_token(client: Client, token: str) -> Object:
    kubeconfig: Object = yaml.safe_load(client.kubectl_output("config", "view", "--raw", "--minify", "--flatten"))
    return {**kubeconfig, "users": [{"name": kubeconfig["users"][0]["name"], "user": {"token": token}}]}


def _post(client: Client, path: str, manifest: Object) -> Object:
    answer = client.request("POST", path, manifest)
    assert answer.accepted, answer.message
    return answer.body
