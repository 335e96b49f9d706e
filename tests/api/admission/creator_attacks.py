"""Attacks by people who may create or change jobs, each with its answer: words of the refusal, or that it is allowed.

``who`` is a user of ``USERS``, another user's name, or None for the administrator; ``where`` a namespace of
``NAMESPACES``, or one of the cluster.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from dtj.api import names
from tests.api.admission.actor import APPLY, JSON_PATCH, MERGE, account
from tests.api.admission.host_access import HOST_ACCESS
from tests.api.admission.scene import ALLOWED, JOBS, PODS, rule
from tests.api.client import Object
from tests.api.resource import TEMPLATE, changed, role, sample

OPERATOR = "dtj-operator"
"""The operator's account, which its release has in the namespace ``plain``."""
POD = "spec.template.spec"
SECRETS = 16
ACCOUNTS = 4
"""How many of them the policy judges one by one."""

NAMESPACES: dict[str, dict[str, str]] = {
    "plain": {},
    "strict": {},
    "trusting": {},
    "host": {"dtj.dev/host-access": "allowed"},
}
"""With their labels. ``strict``: service accounts and Secrets are judged, too; ``trusting``: a queue is trusted, and a
capability."""
OPTIONS = {
    "plain": ("--set=watchNamespaces={plain,host,kube-system}",),
    "strict": ("--set=watchNamespaces={strict},admission.serviceAccounts=true,admission.secrets=true",),
    "trusting": ("--set=watchNamespaces={trusting},admission.capabilities={IPC_LOCK},admission.trustedUsers={queue}",),
}
"""Values of the release that each of these namespaces has."""
STORED = "stored"
"""The suspended job that is there in each namespace."""

HOST = rule("use", "hostaccess", group=names.GROUP)
OWN_SECRETS = tuple(f"own{index}" for index in range(SECRETS))
OWN_ACCOUNTS = tuple(f"own{index}" for index in range(ACCOUNTS))
GARBAGE_COLLECTOR = account("kube-system", "generic-garbage-collector")
AUTOSCALER = account("kube-system", "horizontal-pod-autoscaler")

USERS = {
    "deputy": [JOBS],
    "trainer": [JOBS, PODS],
    "host": [JOBS, PODS, HOST],
    "reader": [JOBS, PODS, rule("get", "secrets", *OWN_SECRETS), rule("use", "serviceaccounts", *OWN_ACCOUNTS)],
    "rich": [JOBS, PODS, rule("get", "secrets"), rule("use", "serviceaccounts")],
    "lister": [JOBS, PODS, rule("list watch", "secrets"), rule("get", "serviceaccounts")],
    "queue": [JOBS],
    OPERATOR: [JOBS],
    account("elsewhere", OPERATOR): [JOBS],
}

NO_PODS = "may not create pods in the namespace"
NO_USE = "may not use the service account other"
NO_SECRET = "may not get the Secret other"  # noqa: S105 - words of a refusal
NO_HOST_VERB = "or ask for the verb use on hostaccess.dtj.dev there"
NO_HOST_LABEL = "the label dtj.dev/host-access=allowed on the namespace"
OPERATORS_ACCOUNT = "is the operator's own; name another one"


class Creation(NamedTuple):
    """A new job: the minimal one with changes."""

    who: str | None
    where: str
    changes: dict[str, Any]
    answer: str


class Change(NamedTuple):
    """A request about a suspended job that is there; ``path`` is appended to that of the job."""

    who: str | None
    where: str
    method: str
    kind: str
    body: object
    answer: str
    path: str = ""


def in_template(changes: dict[str, Any]) -> dict[str, Any]:
    return {f"{POD}.{path}": value for path, value in changes.items()}


def in_role(changes: dict[str, Any]) -> dict[str, Any]:
    pod = changed(TEMPLATE["spec"], changes)
    return {"spec.framework": "Custom", "spec.roles": [role("a"), role("b", template={"spec": pod})]}


def with_variables(secrets: Iterable[str]) -> dict[str, Any]:
    """Each from a Secret."""
    sources = [{"secretKeyRef": {"name": name, "key": "key"}} for name in secrets]
    variables = [{"name": f"V{index}", "valueFrom": source} for index, source in enumerate(sources)]
    return in_template({"containers.0.env": variables})


def with_secrets(*secrets: str) -> dict[str, Any]:
    return {f"{POD}.imagePullSecrets": [{"name": name} for name in secrets]}


def with_accounts(*accounts: str) -> dict[str, Any]:
    """One for the workers, the others for roles."""
    first, *others = accounts
    pods = [{"spec": {**TEMPLATE["spec"], "serviceAccountName": name}} for name in others]
    roles = [role(f"r{index}", template=pod) for index, pod in enumerate(pods)]
    return {"spec.framework": "Custom", f"{POD}.serviceAccountName": first, "spec.roles": roles}


def merge(who: str | None, body: object, answer: str, *, where: str = "plain", path: str = "") -> Change:
    return Change(who, where, "PATCH", MERGE, body, answer, path)


def template(**pod: object) -> Object:
    return {"spec": {"template": {"spec": pod}}}


UNCONFINED = {"container.apparmor.security.beta.kubernetes.io/trainer": "unconfined"}
HOST_PATH = {"volumes": [{"name": "root", "hostPath": {"path": "/"}}]}

CREATIONS: dict[str, Creation] = {
    "a job where one may create pods": Creation("trainer", "plain", {}, ALLOWED),
    "a job without create on pods": Creation("deputy", "plain", {}, NO_PODS),
    "a job without create on pods, named by the server": Creation(
        "deputy", "plain", {"metadata": {"generateName": "job-"}}, NO_PODS
    ),
    "a job without create on pods, for another controller": Creation(
        "deputy", "plain", {"spec.managedBy": "other.dev/controller"}, NO_PODS
    ),
    "a suspended job without create on pods": Creation("deputy", "plain", {"spec.suspend": True}, NO_PODS),
    "a job of a user who is called as the operator's account is": Creation(OPERATOR, "plain", {}, NO_PODS),
    "a job of an account of the operator's name in another namespace": Creation(
        account("elsewhere", OPERATOR), "plain", {}, NO_PODS
    ),
    "a job in kube-system": Creation(None, "kube-system", {}, "no job runs in the namespace kube-system"),
    "a job that belongs to somebody else's object": Creation(
        "trainer",
        "plain",
        {"metadata.ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "a"}]},
        ALLOWED,
    ),
    "a job with a finalizer": Creation("trainer", "plain", {"metadata.finalizers": ["example.dev/stay"]}, ALLOWED),
    "the operator's own account": Creation(
        "trainer", "plain", in_template({"serviceAccountName": OPERATOR}), OPERATORS_ACCOUNT
    ),
    "the operator's own account by the deprecated field": Creation(
        "trainer", "plain", in_template({"serviceAccount": OPERATOR}), OPERATORS_ACCOUNT
    ),
    "the operator's own account in a role": Creation(
        "trainer", "plain", in_role({"serviceAccountName": OPERATOR}), OPERATORS_ACCOUNT
    ),
    "an account of that name in another namespace": Creation(
        "trainer", "host", in_template({"serviceAccountName": OPERATOR}), ALLOWED
    ),
    "any account where accounts are not judged": Creation(
        "trainer", "plain", in_template({"serviceAccountName": "other"}), ALLOWED
    ),
    "any Secret where Secrets are not judged": Creation("trainer", "plain", with_secrets("other"), ALLOWED),
    "an account of one's own": Creation("reader", "strict", in_template({"serviceAccountName": "own0"}), ALLOWED),
    "the default account": Creation("trainer", "strict", in_template({"serviceAccountName": "default"}), ALLOWED),
    "somebody else's account": Creation("reader", "strict", in_template({"serviceAccountName": "other"}), NO_USE),
    "somebody else's account by the deprecated field": Creation(
        "reader", "strict", in_template({"serviceAccountName": "own0", "serviceAccount": "other"}), NO_USE
    ),
    "somebody else's account in a role": Creation("reader", "strict", in_role({"serviceAccountName": "other"}), NO_USE),
    "somebody else's account behind one's own": Creation(
        "reader", "strict", in_template({"serviceAccountName": "own0/other"}), NO_USE
    ),
    "an account that one may only read": Creation(
        "lister", "strict", in_template({"serviceAccountName": "other"}), NO_USE
    ),
    "any account with use on all": Creation("rich", "strict", in_template({"serviceAccountName": "other"}), ALLOWED),
    "as many accounts as are judged, and Secrets": Creation(
        "reader", "strict", with_accounts(*OWN_ACCOUNTS) | with_secrets(*OWN_SECRETS), ALLOWED
    ),
    "one account more": Creation(
        "reader", "strict", with_accounts(*OWN_ACCOUNTS, "more"), "name more than 4 service accounts"
    ),
    "one Secret more": Creation("reader", "strict", with_secrets(*OWN_SECRETS, "more"), "name more than 16 Secrets"),
    "as many Secrets with get on all": Creation("rich", "strict", with_secrets(*OWN_SECRETS, "more"), ALLOWED),
    "the same Secret very often": Creation("reader", "strict", with_variables(["own0"] * 200), ALLOWED),
    "somebody else's Secret behind one's own": Creation("reader", "strict", with_secrets("own0/other"), NO_SECRET),
    "a Secret that one may only list": Creation("lister", "strict", with_secrets("other"), NO_SECRET),
    "a job of a queue that is trusted": Creation("queue", "trusting", {}, ALLOWED),
    "a job of a queue that is trusted elsewhere": Creation("queue", "plain", {}, NO_PODS),
    "a capability that is allowed everywhere": Creation(
        "trainer", "trusting", in_template({"containers.0.securityContext.capabilities.add": ["IPC_LOCK"]}), ALLOWED
    ),
    "another capability than that": Creation(
        "trainer",
        "trusting",
        in_template({"containers.0.securityContext.capabilities.add": ["IPC_LOCK", "SYS_ADMIN"]}),
        "further capabilities",
    ),
    "privileged in a role": Creation(
        "trainer", "plain", in_role({"containers.0.securityContext.privileged": True}), NO_HOST_VERB
    ),
    "no AppArmor profile by annotation": Creation(
        "trainer", "plain", {"spec.template.metadata": {"annotations": UNCONFINED}}, "no AppArmor profile"
    ),
    "a process of the Windows host": Creation(
        "trainer",
        "plain",
        in_template({"securityContext": {"windowsOptions": {"hostProcess": True}}}),
        "Windows host processes",
    ),
    "the network of the node": Creation(
        "host", "host", in_template({"hostNetwork": True}), "can't put workers on the node's own network"
    ),
    "a harmless capability": Creation(
        "trainer",
        "plain",
        in_template({"containers.0.securityContext.capabilities": {"add": ["CHOWN"], "drop": ["ALL"]}}),
        ALLOWED,
    ),
    "files of the node where no administrator allowed them": Creation(
        "host", "plain", in_template(HOST_PATH), NO_HOST_LABEL
    ),
    "files of the node where they are allowed, without the verb": Creation(
        "trainer", "host", in_template(HOST_PATH), NO_HOST_VERB
    ),
    "files of the node where they are allowed, with the verb": Creation(
        "host", "host", in_template(HOST_PATH), ALLOWED
    ),
    "the operator's variables": Creation(
        "trainer", "plain", in_template({"containers.0.env": [{"name": "DTJ_AGENT_TOKEN"}]}), "begin with DTJ_"
    ),
    "a rank of one's own": Creation(
        "trainer",
        "plain",
        in_template({"containers.0.env": [{"name": "MASTER_ADDR"}]}),
        "the operator sets MASTER_ADDR",
    ),
    "the operator's labels": Creation(
        "trainer",
        "plain",
        {"spec.template.metadata": {"labels": {"dtj.dev/job-uid": "another job's"}}},
        "belong to the operator",
    ),
    "somebody else's host name": Creation("trainer", "plain", in_template({"hostname": "a"}), "set by the operator"),
    "a name too long for its pods": Creation("trainer", "plain", {"metadata.name": "a" * 49}, "45 characters fit"),
    "a name with which another job's pods would collide": Creation(
        "trainer",
        "plain",
        {"metadata.name": "a", "spec.framework": "Custom", "spec.roles": [role("b-worker")]},
        ALLOWED,
    ),
    "a name that is two DNS names": Creation("trainer", "plain", {"metadata.name": "a.b"}, "no dots"),
} | {
    f"{what}, without the verb for it": Creation(
        "trainer", "plain", in_template(asked.changes), f"trainer may not ask for {asked.words}"
    )
    for what, asked in HOST_ACCESS.items()
}

TRAINING = template(containers=[{"name": "trainer", "image": "mine"}])

CHANGES: dict[str, Change] = {
    "another image, by a merge patch": merge("deputy", TRAINING, NO_PODS),
    "another image, by a JSON patch": Change(
        "deputy",
        "plain",
        "PATCH",
        JSON_PATCH,
        [{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "mine"}],
        NO_PODS,
    ),
    "another image, by server-side apply": Change(
        "deputy",
        "plain",
        "PATCH",
        APPLY,
        {"apiVersion": names.API_VERSION, "kind": names.KIND, **TRAINING},
        NO_PODS,
        "?fieldManager=a&force=true",
    ),
    "a new job, by server-side apply": Change(
        "deputy",
        "plain",
        "PATCH",
        APPLY,
        sample("minimal") | {"metadata": {"name": f"{STORED}-new"}},
        NO_PODS,
        "-new?fieldManager=a",
    ),
    "resuming by a queue that is trusted": merge("queue", {"spec": {"suspend": False}}, ALLOWED, where="trusting"),
    "another policy": merge("deputy", {"spec": {"failurePolicy": {"maxRestarts": 9}}}, NO_PODS),
    "resuming without create on pods": merge("deputy", {"spec": {"suspend": False}}, NO_PODS),
    "scaling without create on pods": merge("deputy", {"spec": {"replicas": 9}}, NO_PODS, path="/scale"),
    "scaling by an autoscaler": Change(
        AUTOSCALER,
        "plain",
        "PUT",
        "application/json",
        {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": STORED}, "spec": {"replicas": 9}},
        NO_PODS,
        "/scale",
    ),
    "scaling with create on pods": merge("trainer", {"spec": {"replicas": 9}}, ALLOWED, path="/scale"),
    "a status without create on pods": merge("deputy", {"status": {"attempt": 7}}, NO_PODS, path="/status"),
    "a status with create on pods": merge("trainer", {"status": {"attempt": 7}}, ALLOWED, path="/status"),
    "a status by a user who is called as the operator's account is": merge(
        OPERATOR, {"status": {"attempt": 7}}, NO_PODS, path="/status"
    ),
    "a status by an account of the operator's name in another namespace": merge(
        account("elsewhere", OPERATOR), {"status": {"attempt": 7}}, NO_PODS, path="/status"
    ),
    "a label": merge("deputy", {"metadata": {"labels": {"a": "b"}}}, ALLOWED),
    "a finalizer that keeps the job": merge("deputy", {"metadata": {"finalizers": ["example.dev/stay"]}}, ALLOWED),
    "a finalizer of the garbage collector's": merge(
        GARBAGE_COLLECTOR, {"metadata": {"finalizers": ["foregroundDeletion"]}}, ALLOWED
    ),
    "another image by the garbage collector": merge(GARBAGE_COLLECTOR, TRAINING, "may not"),
    "deletion without create on pods": Change("deputy", "plain", "DELETE", MERGE, None, ALLOWED),
    "files of the node after a clean creation": merge("trainer", template(**HOST_PATH), NO_HOST_VERB),
    "privileged after a clean creation": merge(
        "trainer",
        template(containers=[{"name": "trainer", "securityContext": {"privileged": True}}]),
        NO_HOST_VERB,
    ),
    "the operator's own account after a clean creation": merge(
        "trainer", template(serviceAccountName=OPERATOR), OPERATORS_ACCOUNT
    ),
    "somebody else's account after a clean creation": merge(
        "reader", template(serviceAccountName="other"), NO_USE, where="strict"
    ),
    "somebody else's Secret after a clean creation": merge(
        "reader", template(imagePullSecrets=[{"name": "other"}]), NO_SECRET, where="strict"
    ),
    "another controller after a clean creation": merge(
        "trainer", {"spec": {"managedBy": "other.dev/controller"}}, "create a new job"
    ),
}
