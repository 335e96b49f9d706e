"""What the API server checks beyond types: CEL rules with a sentence a person understands.

``crd`` puts each rule at its level of the schema. In CEL, ``self`` is the value at that level and ``oldSelf`` its value
before an update. Rules for fields that do not work yet stand in ``unsupported``.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from dtj.api import environment, labels, names
from dtj.api.spec import MAX_REPLICAS


class RefusalReason(StrEnum):
    """How ``kubectl`` introduces the message: ``spec.x: Forbidden: …`` or ``spec.x: Invalid value: …: …``."""

    INVALID = "FieldValueInvalid"
    FORBIDDEN = "FieldValueForbidden"


@dataclass(frozen=True, slots=True)
class Rule:
    """One entry of ``x-kubernetes-validations``."""

    rule: str
    message: str
    field_path: str = ""
    """The field at fault as seen from the level of the rule, for example ``.template.spec``."""
    reason: RefusalReason = RefusalReason.FORBIDDEN

    def schema(self) -> dict[str, Any]:
        entry = {
            "rule": self.rule,
            "message": self.message,
            "fieldPath": self.field_path,
            "reason": self.reason.value,
        }
        return {key: value for key, value in entry.items() if value}


ONE_POD_ROLES: Final = ("chief", "master", "launcher")
ROLES_BY_FRAMEWORK: Final[dict[str, tuple[str, ...]]] = {
    "PyTorch": ("master",),
    "TensorFlow": ("chief", "ps", "evaluator"),
    "Horovod": (),
    "JAX": (),
    "MPI": ("launcher",),
}
"""``Custom`` may have any roles."""


ONE_PROCESS_FRAMEWORKS: Final = ("TensorFlow",)
"""One process drives all accelerators of a pod."""


def _text_list(values: tuple[str, ...]) -> str:
    return "[" + ", ".join(f"'{value}'" for value in values) + "]"


def _trainer(template: str, required: Callable[[str], str]) -> str:
    """CEL: ``required`` holds of the trainer container: the one of that name, else the first.

    The condition stands there twice because the API server can bound the cost of ``list.all`` and ``list[0]``, but not
    of a list that an expression made.
    """
    containers = f"{template}.spec.containers"
    name = f"c.name == '{names.TRAINER_CONTAINER}'"
    return (
        f"({containers}.exists(c, {name}) ? {containers}.all(c, !({name}) || ({required('c')})) "
        f": ({required(f'{containers}[0]')}))"
    )


def _sets_no_variable(which: str) -> Callable[[str], str]:
    """CEL: no environment variable ``e`` of a container is such."""
    return lambda container: f"!has({container}.env) || !{container}.env.exists(e, {which})"


def _spare_characters(role: str, replicas: str) -> str:
    """CEL: how many characters the longest pod name of a role leaves free; below 0 it is too long."""
    separators = len("---r") + len(str(names.MAX_ATTEMPT))
    free = names.MAX_LABEL_LENGTH - separators
    return f"{free} - size(self.metadata.name) - size({role}) - size(string({replicas} - 1))"


_POD_NAMES: Final = (
    f"pods are named <job>-<role>-<index>-r<attempt>, and host names end at {names.MAX_LABEL_LENGTH} characters"
)
_ALWAYS_FITS: Final = names.MAX_LABEL_LENGTH - len(
    names.pod_name("", names.WORKER_ROLE, MAX_REPLICAS - 1, names.MAX_ATTEMPT)
)

NAME: Final = (
    Rule(
        rule="self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
        message="the job's name becomes part of host names: it must begin with a letter, go on with a-z, 0-9 and - "
        "only (no dots), and not end with -",
        field_path=".metadata.name",
        reason=RefusalReason.INVALID,
    ),
    Rule(
        rule=f"{_spare_characters(repr(names.WORKER_ROLE), 'self.spec.replicas')} >= 0",
        message=f"the job's name is too long: {_POD_NAMES}; {_ALWAYS_FITS} characters fit any number of workers",
        field_path=".metadata.name",
        reason=RefusalReason.INVALID,
    ),
    Rule(
        rule=f"!has(self.spec.roles) || self.spec.roles.all(r, {_spare_characters('r.name', 'r.replicas')} >= 0)",
        message=f"the job's name is too long for the names of its roles: {_POD_NAMES}",
        field_path=".metadata.name",
        reason=RefusalReason.INVALID,
    ),
)
"""At the root. Names leave room for attempts up to ``names.MAX_ATTEMPT``: no restart ever fails for its name."""

_SUSPENDED = "self.suspend || oldSelf.suspend || "
_ONLY_SUSPENDED = "can change only while the job is suspended: set spec.suspend to true first, or create a new job"

IMMUTABLE: Final = (
    Rule("self.framework == oldSelf.framework", "can't be changed; create a new job", ".framework"),
    Rule("self.managedBy == oldSelf.managedBy", "can't be changed; create a new job", ".managedBy"),
    Rule(_SUSPENDED + "self.replicas == oldSelf.replicas", _ONLY_SUSPENDED, ".replicas"),
    Rule(
        _SUSPENDED + "(has(self.processesPerReplica) ? self.processesPerReplica : 0) == "
        "(has(oldSelf.processesPerReplica) ? oldSelf.processesPerReplica : 0)",
        _ONLY_SUSPENDED,
        ".processesPerReplica",
    ),
    Rule(
        _SUSPENDED + "(has(self.agent) && has(self.agent.mode) ? self.agent.mode : 'Auto') == "
        "(has(oldSelf.agent) && has(oldSelf.agent.mode) ? oldSelf.agent.mode : 'Auto')",
        _ONLY_SUSPENDED,
        ".agent.mode",
    ),
    Rule(
        _SUSPENDED + "self.networkIsolation == oldSelf.networkIsolation",
        _ONLY_SUSPENDED,
        ".networkIsolation",
    ),
    Rule(_SUSPENDED + "self.template == oldSelf.template", _ONLY_SUSPENDED, ".template"),
    Rule(
        _SUSPENDED + "(has(self.roles) ? self.roles : []) == (has(oldSelf.roles) ? oldSelf.roles : [])",
        _ONLY_SUSPENDED,
        ".roles",
    ),
)


def _roles_of(framework: str, roles: tuple[str, ...]) -> Rule:
    known = f"has the role{'s' if len(roles) > 1 else ''} {', '.join(roles)} only" if roles else "has no roles"
    allowed = f"self.roles.all(r, r.name in {_text_list(roles)})" if roles else "size(self.roles) == 0"
    return Rule(
        rule=f"self.framework != '{framework}' || !has(self.roles) || {allowed}",
        message=f"{framework} {known}; its workers are spec.replicas and spec.template",
        field_path=".roles",
    )


ROLES: Final = (
    *(_roles_of(framework, roles) for framework, roles in ROLES_BY_FRAMEWORK.items()),
    Rule(
        rule=f"!has(self.roles) || !self.roles.exists(r, r.name == '{names.WORKER_ROLE}')",
        message="worker is no further role: workers are spec.replicas and spec.template",
        field_path=".roles",
    ),
    Rule(
        rule="self.framework == 'Custom' || !has(self.roles) || "
        f"self.roles.all(r, !(r.name in {_text_list(ONE_POD_ROLES)}) || r.replicas == 1)",
        message="there can be only one chief, one master and one launcher: leave replicas out or set 1",
        field_path=".roles",
    ),
    Rule(
        rule="!has(self.successPolicy) || self.successPolicy.roles.all(name, "
        f"name == '{names.WORKER_ROLE}' || (has(self.roles) && self.roles.exists(r, r.name == name)))",
        message="names a role that the job does not have: worker and the names in spec.roles are possible",
        field_path=".successPolicy.roles",
    ),
)


def _reserved(framework: str, variables: tuple[str, ...]) -> tuple[Rule, Rule]:
    unset = _sets_no_variable(f"e.name in {_text_list(variables)}")
    message = f"with {framework} the operator sets {', '.join(variables)} in the trainer container; leave them out"
    return (
        Rule(
            rule=f"self.framework != '{framework}' || {_trainer('self.template', unset)}",
            message=message,
            field_path=".template.spec.containers",
        ),
        Rule(
            rule=f"self.framework != '{framework}' || !has(self.roles) || "
            f"self.roles.all(r, {_trainer('r.template', unset)})",
            message=message,
            field_path=".roles",
        ),
    )


RESERVED_ENVIRONMENT: Final = tuple(
    rule
    for framework, variables in environment.RESERVED_BY_FRAMEWORK.items()
    if variables
    for rule in _reserved(framework, variables)
)

_HOROVOD: Final = "self.framework != 'Horovod' || "

LAUNCH: Final = (
    Rule(
        rule=f"!(self.framework in {_text_list(ONE_PROCESS_FRAMEWORKS)}) || !has(self.processesPerReplica) || "
        "self.processesPerReplica == 1",
        message="TensorFlow uses all accelerators of a pod from one process; leave it out",
        field_path=".processesPerReplica",
    ),
    Rule(
        rule=f"{_HOROVOD}!has(self.agent) || !has(self.agent.mode) || self.agent.mode != 'Disabled'",
        message="Horovod's processes meet at a rendezvous that the agent serves; leave it out",
        field_path=".agent.mode",
    ),
    Rule(
        rule=f"{_HOROVOD}{_trainer('self.template', lambda c: f'has({c}.command) && size({c}.command) > 0')}",
        message="Horovod needs a command in the trainer container: the agent starts it when all processes can meet",
        field_path=".template.spec.containers",
    ),
)
"""How many processes start, and by whom."""

SPEC: Final = (*IMMUTABLE, *ROLES, *LAUNCH, *RESERVED_ENVIRONMENT)


def _reserved_keys(kind: str) -> Rule:
    return Rule(
        rule=f"!has(self.metadata) || !has(self.metadata.{kind}) || "
        f"!self.metadata.{kind}.exists(key, key.startsWith('{labels.RESERVED_PREFIX}'))",
        message=f"{kind} that begin with {labels.RESERVED_PREFIX} belong to the operator; choose another prefix",
        field_path=f".metadata.{kind}",
    )


def _operators_own(field: str) -> Rule:
    return Rule(
        rule=f"!has(self.spec.{field})",
        message="set by the operator, so that the pods find each other; leave it out",
        field_path=f".spec.{field}",
    )


def _has_key(kind: str, key: str) -> str:
    return f"(has(self.metadata) && has(self.metadata.{kind}) && '{key}' in self.metadata.{kind})"


def _scheduler(name: str) -> str:
    return f"(has(self.spec.schedulerName) && self.spec.schedulerName == '{name}')"


KUEUE: Final = _has_key("labels", "kueue.x-k8s.io/queue-name")
VOLCANO: Final = f"({_scheduler('volcano')} || {_has_key('annotations', 'scheduling.k8s.io/group-name')})"
YUNIKORN: Final = f"({_scheduler('yunikorn')} || {_has_key('labels', 'yunikorn.apache.org/app-id')})"
COSCHEDULING: Final = _has_key("labels", "scheduling.x-k8s.io/pod-group")
NATIVE_GROUP: Final = "has(self.spec.schedulingGroup)"


def _at_most_one(what: str, wanted: dict[str, str]) -> Rule:
    return Rule(
        rule=f"[{', '.join(wanted.values())}].filter(wanted, wanted).size() <= 1",
        message=f"only one of {', '.join(wanted)} can {what}; keep the settings of one",
        field_path=".spec",
        reason=RefusalReason.INVALID,
    )


_NOT_ALONE: Final = (
    "a worker that starts again alone leaves the others hanging in a collective; "
    "the operator starts the whole job again"
)

TEMPLATE: Final = (
    Rule(
        rule="!has(self.spec.restartPolicy) || self.spec.restartPolicy == 'Never'",
        message=f"must be Never or left out: {_NOT_ALONE}",
        field_path=".spec.restartPolicy",
    ),
    Rule(
        rule=_trainer(
            "self",
            lambda c: f"(!has({c}.restartPolicy) || {c}.restartPolicy == 'Never') && !has({c}.restartPolicyRules)",
        ),
        message=f"the trainer container's restartPolicy must be Never or left out, without rules: {_NOT_ALONE}",
        field_path=".spec.containers",
    ),
    Rule(
        rule=_trainer("self", _sets_no_variable(f"e.name.startsWith('{environment.RESERVED_PREFIX}')")),
        message=f"variables of the trainer container that begin with {environment.RESERVED_PREFIX} belong to the "
        "operator; choose other names",
        field_path=".spec.containers",
    ),
    *(_operators_own(field) for field in ("hostname", "subdomain", "hostnameOverride")),
    *(_reserved_keys(kind) for kind in ("labels", "annotations")),
    _at_most_one("queue the job", {"Kueue": KUEUE, "Volcano": VOLCANO, "YuniKorn": YUNIKORN}),
    _at_most_one(
        "place the gang",
        {"Volcano": VOLCANO, "YuniKorn": YUNIKORN, "coscheduling": COSCHEDULING, "schedulingGroup": NATIVE_GROUP},
    ),
)
"""At each pod template."""

FAILURE_RULE: Final = (
    Rule(
        rule="[has(self.onExitCodes), has(self.onReasons), has(self.onPodConditions)].exists_one(given, given)",
        message="a rule needs exactly one of onExitCodes, onReasons and onPodConditions",
        reason=RefusalReason.INVALID,
    ),
)
