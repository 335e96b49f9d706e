"""The operator's rights, held against what it asked of the API server in this whole run."""

import json
import re
from functools import partial
from typing import NamedTuple

import pytest

from tests.cluster.state import Layout
from tests.e2e.jobs import SLEEP, job, pod_spec, status_of, status_when
from tests.e2e.operator import LEASE, OPERATOR_NAMESPACE, Installed
from tests.kubectl import Kubectl, Object, eventually

pytestmark = [pytest.mark.e2e, pytest.mark.alone, pytest.mark.conclusion]

ACCOUNT = f"system:serviceaccount:{OPERATOR_NAMESPACE}:dtj-operator"
DISCOVERY = re.compile(r"/(api|apis)(/.*)?|/version")
"""What Kubernetes lets everybody read who has an account, where it is about no resource."""


class Right(NamedTuple):
    """As in a rule of RBAC: one resource, with its subresource, and one verb."""

    group: str
    resource: str
    verb: str


def test_each_right_is_used_and_none_is_missed(installed: Installed, bed: str, kubectl: Kubectl) -> None:
    _let_rare_things_happen(kubectl)

    lines = Layout(bed).audit_log.read_text().splitlines()
    asked = [entry for line in lines if _is_operators(entry := json.loads(line))]

    refused = [_right(entry) for entry in asked if _decision(entry) != "allow"]
    other = {entry["requestURI"].partition("?")[0] for entry in asked if "objectRef" not in entry}
    beyond = {path for path in other if not DISCOVERY.fullmatch(path)}
    used = {_right(entry) for entry in asked if "resource" in entry.get("objectRef", {})}
    assert (refused, beyond) == ([], set())
    assert used == _granted(installed)
    leases = {_place(entry) for entry in asked if entry.get("objectRef", {}).get("resource") == "leases"}
    assert leases <= {(OPERATOR_NAMESPACE, LEASE), (OPERATOR_NAMESPACE, "")}


def _let_rare_things_happen(kubectl: Kubectl) -> None:
    """What no other test must bring about."""
    _suspend_twice(kubectl)
    _let_names_be_taken(kubectl)
    brief = job("brief", ["true"], replicas=1)
    brief["spec"] |= {"ttlSecondsAfterFinished": 1, "cleanupPolicy": "All"}
    kubectl.apply(brief)
    eventually(lambda: kubectl("get", "dtj", "-o", "name"), lambda names: "brief" not in names)


def _suspend_twice(kubectl: Kubectl) -> None:
    """The same event a second time is a count in the first."""
    manifest = job("paused", SLEEP, replicas=1)
    manifest["spec"]["suspend"] = True
    kubectl.apply(manifest)
    status_when(kubectl, "paused", "Suspended")
    for suspend, phase in ((False, "Running"), (True, "Suspended")):
        kubectl("patch", "dtj", "paused", "--type=merge", "-p", json.dumps({"spec": {"suspend": suspend}}))
        status_when(kubectl, "paused", phase)
    counts = partial(kubectl, "get", "events", "--field-selector=reason=JobSuspended", "-o=jsonpath={..count}")
    eventually(counts, lambda told: told == "2")


def _let_names_be_taken(kubectl: Kubectl) -> None:
    metadata = {"name": "taken-workers"}
    kubectl.apply({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"clusterIP": "None"}})
    policy = {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": metadata}
    kubectl.apply({**policy, "spec": {"podSelector": {}}})
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "taken-worker-0"}}
    kubectl.apply({**pod, "spec": {**pod_spec(SLEEP), "schedulerName": "nobody"}})
    manifest = job("taken", ["true"])
    manifest["spec"]["networkIsolation"] = "Job"
    kubectl.apply(manifest)
    taken = {"service/taken-workers", "networkpolicy/taken-workers", "pod/taken-worker-0"}
    while taken:
        found = eventually(partial(_in_the_way, kubectl, taken), bool)
        kubectl("delete", *found, "--grace-period=1")
        taken -= set(found)
    status_when(kubectl, "taken", "Succeeded", within=120)


def _in_the_way(kubectl: Kubectl, objects: set[str]) -> list[str]:
    """Which of these the status names as taken."""
    told = json.dumps(status_of(kubectl, "taken")).lower()
    return [each for each in sorted(objects) if f"{each.replace('/', ' ')} exists" in told]


def _is_operators(entry: Object) -> bool:
    return bool(entry["user"]["username"] == ACCOUNT)


def _decision(entry: Object) -> str:
    return str(entry.get("annotations", {}).get("authorization.k8s.io/decision", ""))


def _right(entry: Object) -> Right:
    about = entry.get("objectRef", {})
    resource = "/".join(part for part in (about.get("resource"), about.get("subresource")) if part)
    return Right(about.get("apiGroup", ""), resource, entry["verb"])


def _place(entry: Object) -> tuple[str, str]:
    return entry["objectRef"].get("namespace", ""), entry["objectRef"].get("name", "")


def _granted(installed: Installed) -> set[Right]:
    kubectl = installed.own
    roles = [*kubectl.all("clusterroles"), *kubectl.all("roles")]
    bindings = [*kubectl.all("clusterrolebindings"), *kubectl.all("rolebindings")]
    bound = {(each["roleRef"]["kind"], each["roleRef"]["name"]) for each in bindings if _binds_operator(each)}
    rules = [rule for role in roles if (role["kind"], role["metadata"]["name"]) in bound for rule in role["rules"]]
    return {
        Right(group, resource, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def _binds_operator(binding: Object) -> bool:
    account = {"kind": "ServiceAccount", "name": "dtj-operator", "namespace": OPERATOR_NAMESPACE}
    return account in binding.get("subjects", [])
