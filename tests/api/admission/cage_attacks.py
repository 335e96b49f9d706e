"""What whoever has the operator's token may try, each with its answer: words of the refusal, or that it is allowed.

In these tests the operator's account may do everything as far as rights go: what refuses is the policy alone.
``where`` is a namespace of ``NAMESPACES``, or one of the cluster.
"""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any, NamedTuple

from dtj.api import labels, names
from dtj.plan.agent_archive import agent_config_map
from dtj.plan.metadata import job_labels, owner_reference
from dtj.plan.network_policy import network_policy
from dtj.plan.pods import pod_builder
from dtj.plan.services import headless_service
from dtj.plan.topology import topology_of
from tests.api.admission.actor import JSON, MERGE
from tests.api.admission.host_access import HOST_ACCESS, TRAINER
from tests.api.admission.scene import ACCESS, ALLOWED
from tests.api.client import Object
from tests.api.resource import ABSENT, changed
from tests.builders import JOB_UID, a_job

ACCOUNT = "dtj-operator"
NAMESPACES: dict[str, dict[str, str]] = {"own": {}, "team": {}, "host": {"dtj.dev/host-access": "allowed"}}
"""With their labels. ``own``: where the operator itself runs."""

JOB = a_job("digits").build()
OWNER = owner_reference(JOB)
LABELS = job_labels(JOB)
ANOTHER_UID = JOB_UID.replace("0", "1")

NOT_A_JOBS = "of a job only: named after it"
NO_DELETION = "of a job only: with its label and a controller reference"
NO_BUSINESS = "the operator has nothing to do with"
NO_CHANGE = "the operator changes no"
NO_JOB = "creates no jobs, and deletes those only that are finished and have ttlSecondsAfterFinished"
NOT_HEADLESS = "headless Services (clusterIP None) for the pods of one job only"
NOT_ITS_PODS = "NetworkPolicies for the pods of one job only"
NOT_THE_AGENT = "the agent's ConfigMap only"
NO_EVENT = "tells events of jobs only"
OWN_ACCOUNT = "may use the operator's own service account"
PROTECTED = "does nothing in the namespace kube-system"
NO_HOST = "the namespace lacks the label dtj.dev/host-access=allowed"


def planned() -> dict[str, Object]:
    """What the operator makes of a job, by resource, without a namespace."""
    topology = topology_of(JOB.spec)
    manifests = {
        "pods": pod_builder(JOB, topology, 0)(topology.slots[0]),
        "services": headless_service(JOB),
        "networkpolicies": network_policy(JOB, "dtj-system"),
        "configmaps": agent_config_map(""),
        "events": _event("digits.a"),
    }
    for manifest in manifests.values():
        manifest["metadata"] = {**manifest["metadata"], "namespace": ""}
    return manifests


def _event(name: str, **involved: str) -> Object:
    job = {"apiVersion": names.API_VERSION, "kind": names.KIND, "name": "digits", "namespace": ""}
    return {"metadata": {"name": name}, "involvedObject": {**job, **involved}, "type": "Normal", "reason": "A"}


PLANNED = planned()


class Creation(NamedTuple):
    """Of an object as the operator makes it, but for changes."""

    resource: str
    changes: dict[str, Any]
    answer: str
    where: str = "team"


class Request(NamedTuple):
    """About an object that is ``there``, or all of a resource; a connection cannot be tried by a dry run."""

    method: str
    resource: str
    name: str
    answer: str
    body: object = None
    kind: str = MERGE
    dry_run: bool = True


def owned_by(**changes: object) -> dict[str, Any]:
    return {"metadata.ownerReferences": [{**OWNER, **changes}]}


def labelled(changes: Mapping[str, str]) -> dict[str, Any]:
    return {"metadata.labels": {**PLANNED["pods"]["metadata"]["labels"], **changes}}


def in_small_pod(changes: dict[str, Any]) -> dict[str, Any]:
    """In place of what the operator puts into a pod."""
    spec = {"containers": [dict(TRAINER)], "volumes": []} | changes
    return {f"spec.{path}": value for path, value in spec.items()}


NODE_PORT = {"spec.type": "NodePort", "spec.clusterIP": ABSENT}
EXTERNAL_NAME = {"spec": {"type": "ExternalName", "externalName": "example.org"}}
OUTSIDE = {"spec.externalIPs": ["203.0.113.1"]}
OTHER_PODS = {labels.JOB_UID: ANOTHER_UID}

CREATIONS: dict[str, Creation] = {
    **{f"{resource} as the operator makes them": Creation(resource, {}, ALLOWED) for resource in PLANNED},
    "a pod of no job": Creation("pods", {"metadata.ownerReferences": ABSENT}, NOT_A_JOBS),
    "a pod with a second owner": Creation(
        "pods",
        {"metadata.ownerReferences": [OWNER, {"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "a"}]},
        NOT_A_JOBS,
    ),
    "a pod of a job that does not control it": Creation("pods", owned_by(controller=False), NOT_A_JOBS),
    "a pod of a ReplicaSet": Creation("pods", owned_by(apiVersion="apps/v1", kind="ReplicaSet"), NOT_A_JOBS),
    "a pod of another kind's": Creation("pods", owned_by(kind="Job"), NOT_A_JOBS),
    "a pod of a kind of that name of another group": Creation("pods", owned_by(apiVersion="evil.dev/v1"), NOT_A_JOBS),
    "a pod with another job's UID on its label": Creation("pods", labelled({labels.JOB_UID: ANOTHER_UID}), NOT_A_JOBS),
    "a pod with another job's name on its label": Creation("pods", labelled({labels.JOB_NAME: "other"}), NOT_A_JOBS),
    "a pod without labels": Creation("pods", {"metadata.labels": {}}, NOT_A_JOBS),
    "a pod that is not named after its job": Creation(
        "pods", {"metadata.name": "coredns-0", "spec.hostname": ABSENT}, NOT_A_JOBS
    ),
    "a pod in kube-system": Creation("pods", {}, PROTECTED, "kube-system"),
    "an event in kube-system": Creation("events", {}, PROTECTED, "kube-system"),
    "a pod with the operator's own account": Creation("pods", {"spec.serviceAccountName": ACCOUNT}, OWN_ACCOUNT, "own"),
    "a pod with the operator's own account by the deprecated field": Creation(
        "pods", {"spec.serviceAccount": ACCOUNT}, OWN_ACCOUNT, "own"
    ),
    "a pod on the network of the node": Creation("pods", {"spec.hostNetwork": True, "spec.hostname": ABSENT}, NO_HOST),
    "a privileged pod where the administrator allowed it": Creation(
        "pods", {"spec.containers.0.securityContext.privileged": True}, ALLOWED, "host"
    ),
    "a Service of no job": Creation("services", {"metadata.ownerReferences": ABSENT}, NOT_A_JOBS),
    "a Service with an address": Creation("services", {"spec.clusterIP": ABSENT}, NOT_HEADLESS),
    "a Service on the nodes' ports": Creation("services", NODE_PORT, NOT_HEADLESS),
    "a Service that is another name": Creation("services", EXTERNAL_NAME, NOT_HEADLESS),
    "a Service that takes other addresses": Creation("services", OUTSIDE, NOT_HEADLESS),
    "a Service for the pods of others": Creation("services", {"spec.selector": {"app": "bank"}}, NOT_HEADLESS),
    "a Service for the pods of another job": Creation("services", {"spec.selector": OTHER_PODS}, NOT_HEADLESS),
    "a Service whose addresses are written by hand": Creation("services", {"spec.selector": ABSENT}, NOT_HEADLESS),
    "a NetworkPolicy of no job": Creation("networkpolicies", {"metadata.ownerReferences": ABSENT}, NOT_A_JOBS),
    "a NetworkPolicy for all pods": Creation("networkpolicies", {"spec.podSelector": {}}, NOT_ITS_PODS),
    "a NetworkPolicy for the pods of another job": Creation(
        "networkpolicies", {"spec.podSelector.matchLabels": OTHER_PODS}, NOT_ITS_PODS
    ),
    "a ConfigMap of another name": Creation("configmaps", {"metadata.name": "kube-root-ca"}, NOT_THE_AGENT),
    "a ConfigMap of nearly the agent's name": Creation(
        "configmaps", {"metadata.name": "dtj-agent-0123456789abcdef0"}, NOT_THE_AGENT
    ),
    "a ConfigMap that can be changed": Creation("configmaps", {"immutable": ABSENT}, NOT_THE_AGENT),
    "a ConfigMap with text": Creation("configmaps", {"data": {"a": "b"}}, NOT_THE_AGENT),
    "a ConfigMap with another file": Creation("configmaps", {"binaryData": {"authorized_keys": "YQ=="}}, NOT_THE_AGENT),
    "an event of a pod": Creation("events", {"involvedObject.kind": "Pod"}, NO_EVENT),
    "an event of a kind of that name of another group": Creation(
        "events", {"involvedObject.apiVersion": "evil.dev/v1"}, NO_EVENT
    ),
    "a job": Creation(names.PLURAL, {}, NO_JOB),
} | {
    f"a pod with {what}": Creation("pods", in_small_pod(asked.changes), f"may have {asked.words}")
    for what, asked in HOST_ACCESS.items()
}

FINISHED = {
    "conditions": [{"type": "Complete", "status": "True", "reason": "A", "lastTransitionTime": "2030-01-02T12:00:00Z"}]
}
FOREIGN_SPEC: Object = {"containers": [{"name": "a", "image": "a"}], "schedulerName": "tests"}


def there(uid: str) -> dict[str, list[Object]]:
    """Objects that exist in the namespace ``team`` beside ``JOBS``, by resource; ``uid``: of the job that runs."""
    owned = {"labels": {labels.JOB_UID: uid}, "ownerReferences": [{**OWNER, "name": "running", "uid": uid}]}
    policy: Object = {"podSelector": {}}
    service: Object = {"ports": [{"port": 80}]}
    return {
        "pods": [
            _named("foreign", FOREIGN_SPEC),
            _named("forged", FOREIGN_SPEC, labels=owned["labels"]),
            _named("running-worker-0", FOREIGN_SPEC, **owned),
        ],
        "services": [_named("foreign", service), _named("running-workers", service, **owned)],
        "networkpolicies": [_named("foreign", policy), _named("running-workers", policy, **owned)],
        "configmaps": [{"metadata": {"name": "foreign"}}],
        "secrets": [{"metadata": {"name": "foreign"}}],
        "events": [_event("foreign", kind="Pod", apiVersion="v1"), _event("running.a")],
    }


def _named(name: str, spec: Object, **metadata: object) -> Object:
    return {"metadata": {"name": name, **metadata}, "spec": deepcopy(spec)}


def _job(name: str, **spec: object) -> Object:
    raw = a_job(name).spec(suspend=True, **spec).raw()
    return {"apiVersion": raw["apiVersion"], "kind": raw["kind"], "metadata": {"name": name}, "spec": raw["spec"]}


JOBS = (_job("running"), _job("finished"), _job("over", ttlSecondsAfterFinished=1))
FORGERY = {"metadata": {"labels": LABELS, "ownerReferences": [OWNER]}}
LABEL = {"metadata": {"labels": {"a": "b"}}}

REQUESTS: dict[str, Request] = {
    "changing a job's pod": Request("PATCH", "pods", "running-worker-0", NO_CHANGE, LABEL),
    "changing somebody's pod into a job's": Request("PATCH", "pods", "foreign", NO_CHANGE, FORGERY),
    "changing a Service": Request("PATCH", "services", "foreign", NO_CHANGE, LABEL),
    "changing a NetworkPolicy": Request("PATCH", "networkpolicies", "foreign", NO_CHANGE, LABEL),
    "changing a ConfigMap": Request("PATCH", "configmaps", "foreign", NO_CHANGE, {"data": {"a": "b"}}),
    "changing the spec of a job": Request("PATCH", names.PLURAL, "running", NO_CHANGE, {"spec": {"suspend": False}}),
    "changing a job's labels": Request("PATCH", names.PLURAL, "running", NO_CHANGE, LABEL),
    "counting an event of a job": Request("PATCH", "events", "running.a", ALLOWED, {"count": 2}),
    "changing an event of a pod": Request("PATCH", "events", "foreign", NO_EVENT, {"count": 2}),
    "deleting a job's pod": Request("DELETE", "pods", "running-worker-0", ALLOWED),
    "deleting somebody's pod": Request("DELETE", "pods", "foreign", NO_DELETION),
    "deleting a pod that has the labels alone": Request("DELETE", "pods", "forged", NO_DELETION),
    "deleting all pods": Request("DELETE", "pods", "", NO_DELETION),
    "deleting a job's Service": Request("DELETE", "services", "running-workers", ALLOWED),
    "deleting somebody's Service": Request("DELETE", "services", "foreign", NO_DELETION),
    "deleting somebody's NetworkPolicy": Request("DELETE", "networkpolicies", "foreign", NO_DELETION),
    "deleting a ConfigMap": Request("DELETE", "configmaps", "foreign", NOT_THE_AGENT),
    "deleting a job that runs": Request("DELETE", names.PLURAL, "running", NO_JOB),
    "deleting a finished job that nobody wants deleted": Request("DELETE", names.PLURAL, "finished", NO_JOB),
    "deleting a finished job whose time may be over": Request("DELETE", names.PLURAL, "over", ALLOWED),
    "deleting all jobs": Request("DELETE", names.PLURAL, "", NO_JOB),
    "scaling a job": Request("PATCH", names.PLURAL, "running/scale", NO_BUSINESS, {"spec": {"replicas": 2}}),
}


def _role(kind: str) -> Object:
    return {
        "metadata": {"name": "a"},
        "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}],
        "kind": kind,
    }


def _binding(kind: str) -> Object:
    subjects = [{"kind": "User", "name": "thief", "apiGroup": ACCESS}]
    return {"metadata": {"name": "a"}, "roleRef": _CLUSTER_ADMIN, "subjects": subjects, "kind": kind}


_CLUSTER_ADMIN = {"apiGroup": ACCESS, "kind": "ClusterRole", "name": "cluster-admin"}
_EPHEMERAL = {"spec": {"ephemeralContainers": [{"name": "b", "image": "b"}]}}
_BINDING: Object = {"metadata": {"name": "foreign"}, "target": {"kind": "Node", "name": "a"}}
_EVICTION: Object = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "foreign"}}

FOREIGN_KINDS: dict[str, Request] = {
    "reaching a pod's ports": Request("POST", "pods", "foreign/portforward", NO_BUSINESS, dry_run=False),
    "asking a pod through the API server": Request("GET", "pods", "foreign/proxy", NO_BUSINESS, dry_run=False),
    "asking a Service through the API server": Request("GET", "services", "foreign/proxy", NO_BUSINESS, dry_run=False),
    "an ephemeral container in a pod": Request("PATCH", "pods", "foreign/ephemeralcontainers", NO_BUSINESS, _EPHEMERAL),
    "evicting a pod": Request("POST", "pods", "foreign/eviction", NO_BUSINESS, _EVICTION, JSON),
    "putting a pod onto a node": Request("POST", "pods", "foreign/binding", NO_BUSINESS, _BINDING, JSON),
    "resizing a pod": Request("PATCH", "pods", "foreign/resize", NO_BUSINESS, LABEL),
    "writing the status of a pod": Request("PATCH", "pods", "foreign/status", NO_BUSINESS, LABEL),
    "a token of another account": Request("POST", "serviceaccounts", "default/token", NO_BUSINESS, {"spec": {}}, JSON),
    "an account": Request("POST", "serviceaccounts", "", NO_BUSINESS, {"metadata": {"name": "a"}}, JSON),
    "changing an account": Request("PATCH", "serviceaccounts", "default", NO_BUSINESS, LABEL),
    "a Secret": Request("POST", "secrets", "", NO_BUSINESS, {"metadata": {"name": "a"}}, JSON),
    "deleting a Secret": Request("DELETE", "secrets", "foreign", NO_BUSINESS),
    "a Role": Request("POST", "roles", "", NO_BUSINESS, _role("Role"), JSON),
    "a RoleBinding": Request("POST", "rolebindings", "", NO_BUSINESS, _binding("RoleBinding"), JSON),
    "a ClusterRole": Request("POST", "clusterroles", "", NO_BUSINESS, _role("ClusterRole"), JSON),
    "a ClusterRoleBinding": Request(
        "POST", "clusterrolebindings", "", NO_BUSINESS, _binding("ClusterRoleBinding"), JSON
    ),
    "changing a ClusterRole": Request("PATCH", "clusterroles", "view", NO_BUSINESS, LABEL),
}


def manifest(creation: Creation, namespace: str) -> Object:
    """The object in that namespace."""
    made = PLANNED.get(creation.resource) or _job("another")
    in_namespace = changed(made, {"metadata.namespace": namespace})
    if creation.resource == "events":
        in_namespace = changed(in_namespace, {"involvedObject.namespace": namespace})
    return changed(in_namespace, creation.changes)
