"""What the API server refuses, at which field and with which words."""

from typing import Any

import pytest

from dtj.api import unsupported
from tests.api.resource import ABSENT, TEMPLATE, Refused, Resource, assert_refused_once, changed, role, sample

pytestmark = pytest.mark.api

TRAINER = "spec.template.spec.containers.0"


def env(*names: str) -> list[dict[str, str]]:
    return [{"name": name, "value": "x"} for name in names]


MISTAKES: dict[str, Refused] = {
    # The job itself
    "no framework": Refused({"spec.framework": ABSENT}, "spec.framework", "Required value"),
    "unknown framework": Refused({"spec.framework": "Torch"}, "spec.framework", 'supported values: "PyTorch"'),
    "no template": Refused({"spec.template": ABSENT}, "spec.template", "Required value"),
    "no spec": Refused({"spec": ABSENT}, "spec", "Required value"),
    "no worker": Refused({"spec.replicas": 0}, "spec.replicas", "greater than or equal to 1"),
    "too many workers": Refused({"spec.replicas": 10_001}, "spec.replicas", "less than or equal to 10000"),
    "replicas as text": Refused({"spec.replicas": "2"}, "spec.replicas", "must be of type integer"),
    "no process": Refused({"spec.processesPerReplica": 0}, "spec.processesPerReplica", "greater than or equal to 1"),
    "unknown cleanup": Refused({"spec.cleanupPolicy": "Some"}, "spec.cleanupPolicy", 'supported values: "Running"'),
    "unknown isolation": Refused({"spec.networkIsolation": True}, "spec.networkIsolation", "must be of type string"),
    "misspelt isolation": Refused(
        {"spec.networkIsolation": "Namespace"}, "spec.networkIsolation", 'supported values: "None", "Job"'
    ),
    "managedBy is no path": Refused({"spec.managedBy": "me"}, "spec.managedBy", "should match"),
    # Its start
    "several processes of TensorFlow": Refused(
        {"spec.framework": "TensorFlow", "spec.processesPerReplica": 2},
        "spec.processesPerReplica",
        "TensorFlow uses all accelerators of a pod from one process",
    ),
    "Horovod without the agent": Refused(
        {"spec.framework": "Horovod", "spec.agent": {"mode": "Disabled"}}, "spec.agent.mode", "that the agent serves"
    ),
    "Horovod without a command": Refused(
        {"spec.framework": "Horovod", f"{TRAINER}.command": ABSENT},
        "spec.template.spec.containers",
        "Horovod needs a command",
    ),
    "Horovod with an empty command": Refused(
        {"spec.framework": "Horovod", f"{TRAINER}.command": []},
        "spec.template.spec.containers",
        "Horovod needs a command",
    ),
    "unknown mode of the agent": Refused(
        {"spec.agent": {"mode": "On"}}, "spec.agent.mode", 'supported values: "Auto", "Disabled"'
    ),
    # Its name
    "name with a dot": Refused({"metadata.name": "my.job"}, "metadata.name", "no dots"),
    "name that begins with a digit": Refused({"metadata.name": "1job"}, "metadata.name", "begin with a letter"),
    "name one too long": Refused({"metadata.name": "a" * 49}, "metadata.name", "45 characters fit"),
    "name that is no host name at all": Refused({"metadata.name": "a" * 200}, "metadata.name", "45 characters fit"),
    "name one too long for its workers": Refused(
        {"metadata.name": "a" * 46, "spec.replicas": 10_000}, "metadata.name", "45 characters fit"
    ),
    # Its environment
    "rank set by hand": Refused({f"{TRAINER}.env": env("RANK")}, "spec.template.spec.containers", "operator sets"),
    "torchrun option set by hand": Refused(
        {f"{TRAINER}.env": env("NCCL_DEBUG", "PET_NNODES")}, "spec.template.spec.containers", "PET_NNODES"
    ),
    "rank set in a trainer that is not the first": Refused(
        {"spec.template.spec.containers": [{"name": "a"}, {"name": "trainer", "env": env("WORLD_SIZE")}]},
        "spec.template.spec.containers",
        "WORLD_SIZE",
    ),
    "rank set in the first container, none named trainer": Refused(
        {"spec.template.spec.containers": [{"name": "a", "env": env("WORLD_SIZE")}, {"name": "b"}]},
        "spec.template.spec.containers",
        "WORLD_SIZE",
    ),
    "the operator's own prefix": Refused(
        {f"{TRAINER}.env": env("DTJ_ATTEMPT")}, "spec.template.spec.containers", "begin with DTJ_"
    ),
    "the operator's own prefix, Custom": Refused(
        {f"{TRAINER}.env": env("DTJ_ATTEMPT"), "spec.framework": "Custom"},
        "spec.template.spec.containers",
        "begin with DTJ_",
    ),
    # Its pods
    "no containers": Refused({"spec.template.spec.containers": ABSENT}, "spec.template.spec.containers", "Required"),
    "empty containers": Refused({"spec.template.spec.containers": []}, "spec.template.spec.containers", "at least 1"),
    "no pod spec": Refused({"spec.template": {}}, "spec.template.spec", "Required value"),
    "container without a name": Refused(
        {f"{TRAINER}.name": ABSENT}, "spec.template.spec.containers[0].name", "Required value"
    ),
    "two containers of one name": Refused(
        {"spec.template.spec.containers": [{"name": "a"}, {"name": "a"}]},
        "spec.template.spec.containers[1]",
        "Duplicate value",
    ),
    "one variable twice": Refused(
        {f"{TRAINER}.env": env("A", "A")}, "spec.template.spec.containers[0].env[1]", "Duplicate value"
    ),
    "wrong unit": Refused(
        {f"{TRAINER}.resources": {"limits": {"memory": "16GB"}}},
        "spec.template.spec.containers[0].resources.limits.memory",
        "should match",
    ),
    "restart in place": Refused(
        {"spec.template.spec.restartPolicy": "OnFailure"}, "spec.template.spec.restartPolicy", "must be Never"
    ),
    "restart in place of the container": Refused(
        {f"{TRAINER}.restartPolicy": "Always"}, "spec.template.spec.containers", "must be Never"
    ),
    "own host name": Refused({"spec.template.spec.hostname": "me"}, "spec.template.spec.hostname", "by the operator"),
    "own subdomain": Refused({"spec.template.spec.subdomain": "me"}, "spec.template.spec.subdomain", "leave it out"),
    "the operator's label": Refused(
        {"spec.template.metadata": {"labels": {"dtj.dev/job-name": "x"}}},
        "spec.template.metadata.labels",
        "belong to the operator",
    ),
    "the operator's annotation": Refused(
        {"spec.template.metadata": {"annotations": {"dtj.dev/x": "x"}}},
        "spec.template.metadata.annotations",
        "belong to the operator",
    ),
    "Kueue and Volcano": Refused(
        {
            "spec.template.metadata": {"labels": {"kueue.x-k8s.io/queue-name": "q"}},
            "spec.template.spec.schedulerName": "volcano",
        },
        "spec.template.spec",
        "only one of Kueue, Volcano, YuniKorn",
    ),
    "coscheduling and YuniKorn": Refused(
        {
            "spec.template.metadata": {"labels": {"scheduling.x-k8s.io/pod-group": "g"}},
            "spec.template.spec.schedulerName": "yunikorn",
        },
        "spec.template.spec",
        "can place the gang",
    ),
}

NOT_YET: dict[str, dict[str, Any]] = {
    "spec.framework": {"spec.framework": "MPI"},
    "spec.template.spec.hostNetwork": {"spec.template.spec.hostNetwork": True},
}

UNKNOWN_FIELDS: dict[str, tuple[dict[str, Any], str]] = {
    "in the spec": ({"spec.worker": 2}, "spec.worker"),
    "in a container": ({f"{TRAINER}.imgae": "a"}, "spec.template.spec.containers[0].imgae"),
    "in a deep corner": (
        {"spec.template.spec.affinity": {"podAntiAffinity": {"required": []}}},
        "spec.template.spec.affinity.podAntiAffinity.required",
    ),
    "a name for the pods": ({"spec.template.metadata": {"name": "a"}}, "spec.template.metadata.name"),
    "containers that only join running pods": (
        {"spec.template.spec.ephemeralContainers": []},
        "spec.template.spec.ephemeralContainers",
    ),
}

WRONG_ROLES: dict[str, Refused] = {
    "PyTorch has no chief": Refused({"spec.roles": [role("chief")]}, "spec.roles", "PyTorch has the role master only"),
    "TensorFlow has no launcher": Refused(
        {"spec.framework": "TensorFlow", "spec.roles": [role("launcher")]},
        "spec.roles",
        "TensorFlow has the roles chief, ps, evaluator only",
    ),
    "MPI has no ps": Refused(
        {"spec.framework": "MPI", "spec.roles": [role("ps")]}, "spec.roles", "MPI has the role launcher only"
    ),
    "Horovod has no roles": Refused(
        {"spec.framework": "Horovod", "spec.roles": [role("master")]}, "spec.roles", "Horovod has no roles"
    ),
    "JAX has no roles": Refused(
        {"spec.framework": "JAX", "spec.roles": [role("master")]}, "spec.roles", "JAX has no roles"
    ),
    "two masters": Refused({"spec.roles": [role("master", replicas=2)]}, "spec.roles", "only one chief, one master"),
    "workers as a role": Refused(
        {"spec.framework": "Custom", "spec.roles": [role("worker")]}, "spec.roles", "workers are spec.replicas"
    ),
    "a role twice": Refused(
        {"spec.framework": "Custom", "spec.roles": [role("a"), role("a")]}, "spec.roles[1]", "Duplicate value"
    ),
    "a role's name that makes pod names too long": Refused(
        {"spec.framework": "Custom", "spec.roles": [role("a" * 20)], "metadata.name": "a" * 40},
        "metadata.name",
        "too long for the names of its roles",
    ),
    "rank set in a role": Refused(
        {"spec.roles": [role("master", template=changed(TEMPLATE, {"spec.containers.0.env": env("RANK")}))]},
        "spec.roles",
        "operator sets",
    ),
    "restart in place in a role": Refused(
        {"spec.roles": [role("master", template=changed(TEMPLATE, {"spec.restartPolicy": "Always"}))]},
        "spec.roles[0].template.spec.restartPolicy",
        "must be Never",
    ),
}


@pytest.mark.parametrize("case", MISTAKES.values(), ids=MISTAKES.keys())
def test_mistake_is_refused(resource: Resource, case: Refused) -> None:
    answer = resource.try_to_create(changed(sample("minimal"), case.changes))

    assert_refused_once(answer, case)


def test_every_field_that_does_not_work_yet_has_a_sample() -> None:
    assert sorted(NOT_YET) == sorted(row.path for row in unsupported.TABLE)


@pytest.mark.parametrize("row", unsupported.TABLE, ids=[row.path for row in unsupported.TABLE])
def test_field_that_does_not_work_yet_is_refused(resource: Resource, row: unsupported.Unsupported) -> None:
    answer = resource.try_to_create(changed(sample("minimal"), NOT_YET[row.path]))

    assert answer.refusals == [(row.path, f"Forbidden: {row.message}")]


@pytest.mark.parametrize(("changes", "field"), UNKNOWN_FIELDS.values(), ids=UNKNOWN_FIELDS.keys())
def test_unknown_field_is_refused(resource: Resource, changes: dict[str, Any], field: str) -> None:
    answer = resource.try_to_create(changed(sample("minimal"), changes))

    assert f'unknown field "{field}"' in answer.message


@pytest.mark.parametrize("case", WRONG_ROLES.values(), ids=WRONG_ROLES.keys())
def test_wrong_roles_are_refused(resource: Resource, case: Refused) -> None:
    answer = resource.try_to_create(changed(sample("minimal"), case.changes))

    assert_refused_once(answer, case)


FIVE_MISTAKES = {
    "metadata.name": "my.digits",
    "spec.replicas": 0,
    "spec.template.spec.hostNetwork": True,
    "spec.template.spec.restartPolicy": "Always",
    f"{TRAINER}.env": env("DTJ_RANK"),
}


def test_five_mistakes_get_five_refusals(resource: Resource) -> None:
    answer = resource.try_to_create(changed(sample("minimal"), FIVE_MISTAKES))

    assert sorted(field for field, _ in answer.refusals) == [
        "metadata.name",
        "spec.replicas",
        "spec.template.spec.containers",
        "spec.template.spec.hostNetwork",
        "spec.template.spec.restartPolicy",
    ]


def test_a_mistake_that_hides_others_says_so(resource: Resource) -> None:
    answer = resource.try_to_create(changed(sample("minimal"), FIVE_MISTAKES | {"spec.framework": "Torch"}))

    assert_refused_once(answer, Refused({}, "spec.framework", "Unsupported value"))
    assert "some validation rules were not checked" in answer.message
