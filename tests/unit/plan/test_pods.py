"""The pods of an attempt: the user's template, completed and never changed."""

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtj.api import labels
from dtj.plan.pods import pod_builder
from dtj.plan.topology import Slot, topology_of, trainer_container
from tests.builders import JOB_UID, NAMESPACE, JobBuilder, a_job

GPU = {"limits": {"nvidia.com/gpu": 1}}


def pod_of(job: JobBuilder, index: int = 0, *, role: str = "worker", attempt: int = 0) -> dict[str, Any]:
    built = job.build()
    return pod_builder(built, topology_of(built.spec), attempt)(Slot(role, index))


def test_identity() -> None:
    metadata = pod_of(a_job().replicas(2), 1, attempt=2)["metadata"]

    assert (metadata["name"], metadata["namespace"]) == ("digits-worker-1-r2", NAMESPACE)
    assert metadata["labels"] == {
        labels.JOB_NAME: "digits",
        labels.JOB_UID: JOB_UID,
        labels.ROLE: "worker",
        labels.INDEX: "1",
        labels.ATTEMPT: "2",
        labels.TRAINER: "trainer",
    }


def test_it_goes_with_the_job_and_does_not_hold_the_job_up() -> None:
    (owner,) = pod_of(a_job())["metadata"]["ownerReferences"]

    assert (owner["uid"], owner["controller"], owner["blockOwnerDeletion"]) == (JOB_UID, True, False)


def test_labels_and_annotations_of_the_template_stay() -> None:
    job = a_job().pod_metadata(labels={"team": "vision"}, annotations={"note": "x"}, creationTimestamp=None)
    metadata = pod_of(job)["metadata"]

    assert metadata["labels"]["team"] == "vision"
    assert metadata["annotations"] == {"note": "x"}
    assert "creationTimestamp" not in metadata


def test_the_trainers_name_is_written_down_for_the_day_its_end_must_be_found() -> None:
    first = a_job().pod(containers=[{"name": "main"}, {"name": "side"}])

    assert pod_of(first)["metadata"]["labels"][labels.TRAINER] == "main"


DEFAULTS = {"restartPolicy": "Never", "automountServiceAccountToken": False}


@pytest.mark.parametrize(("field", "value"), DEFAULTS.items())
def test_default_of_the_pod(field: str, value: object) -> None:
    assert pod_of(a_job())["spec"][field] == value


CHOICES: dict[str, object] = {
    "automountServiceAccountToken": True,
    "serviceAccountName": "reader",
    "priorityClassName": "high",
    "nodeSelector": {"zone": "a"},
    "terminationGracePeriodSeconds": 5,
    "hostNetwork": True,
    "securityContext": {"runAsNonRoot": True},
}


@pytest.mark.parametrize(("field", "value"), CHOICES.items())
def test_what_the_template_says_stays(field: str, value: object) -> None:
    assert pod_of(a_job().pod(**{field: value}))["spec"][field] == value


def test_the_end_of_the_output_becomes_the_termination_message_unless_the_template_says_otherwise() -> None:
    silent, said = a_job(), a_job().container(terminationMessagePolicy="File")

    assert trainer_container(pod_of(silent))["terminationMessagePolicy"] == "FallbackToLogsOnError"
    assert trainer_container(pod_of(said))["terminationMessagePolicy"] == "File"


def test_a_sidecar_is_left_as_it_is() -> None:
    pod = pod_of(a_job().sidecar("proxy"))

    assert pod["spec"]["containers"][1] == {"name": "proxy", "image": "sidecar:1"}


def test_the_trainer_is_wired_even_where_a_sidecar_comes_first() -> None:
    side, trainer = pod_of(a_job().sidecar("proxy", first=True))["spec"]["containers"]

    assert "env" not in side
    assert {variable["name"] for variable in trainer["env"]} >= {"MASTER_ADDR", "DTJ_JOB_NAME"}


def env(job: JobBuilder) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for variable in trainer_container(pod_of(job))["env"]:
        found.setdefault(variable["name"], []).append(variable.get("value"))
    return found


def test_the_users_variable_wins_and_stands_there_once() -> None:
    found = env(a_job().container(env=[{"name": "PYTHONUNBUFFERED", "value": ""}]))

    assert found["PYTHONUNBUFFERED"] == [""]


def test_ours_come_first_so_that_the_users_may_refer_to_them() -> None:
    pod = pod_of(a_job().container(env=[{"name": "LOG", "value": "/logs/$(DTJ_NODE_RANK)"}]))
    named = [variable["name"] for variable in trainer_container(pod)["env"]]

    assert named[-1] == "LOG"
    assert named.index("DTJ_NODE_RANK") < named.index("LOG")


SHARED_MEMORY = ({"name": "dtj-shm", "emptyDir": {"medium": "Memory"}}, {"name": "dtj-shm", "mountPath": "/dev/shm"})


def test_shared_memory_is_larger_than_the_runtimes_default() -> None:
    pod = pod_of(a_job().pod(volumes=[{"name": "data"}]).container(volumeMounts=[{"name": "data", "mountPath": "/d"}]))

    assert pod["spec"]["volumes"] == [{"name": "data"}, SHARED_MEMORY[0]]
    assert trainer_container(pod)["volumeMounts"] == [{"name": "data", "mountPath": "/d"}, SHARED_MEMORY[1]]


@pytest.mark.parametrize("path", ["/dev/shm", "/dev/shm/"])
def test_shared_memory_of_the_template_stays(path: str) -> None:
    mounts = [{"name": "mine", "mountPath": path}]
    pod = pod_of(a_job().pod(volumes=[{"name": "mine", "emptyDir": {}}]).container(volumeMounts=mounts))

    assert pod["spec"]["volumes"] == [{"name": "mine", "emptyDir": {}}]
    assert trainer_container(pod)["volumeMounts"] == mounts


def test_a_sidecars_shared_memory_is_not_the_trainers() -> None:
    side = {"name": "side", "volumeMounts": [{"name": "mine", "mountPath": "/dev/shm"}]}
    pod = pod_of(a_job().pod(containers=[{"name": "trainer"}, side]))

    assert trainer_container(pod)["volumeMounts"] == [SHARED_MEMORY[1]]


UNREACHABLE = "node.kubernetes.io/unreachable"
NODE_LOSS: list[dict[str, Any]] = [
    {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30}
    for key in ("node.kubernetes.io/not-ready", UNREACHABLE)
]


def test_who_asks_for_an_accelerator_may_go_where_it_is() -> None:
    spec = pod_of(a_job().container(resources=GPU).pod(tolerations=[{"key": "spot"}]))["spec"]

    assert spec["tolerations"] == [
        {"key": "spot"},
        {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
        *NODE_LOSS,
    ]


def test_a_toleration_of_the_template_for_the_same_taint_stays_alone() -> None:
    own = [{"key": "nvidia.com/gpu", "operator": "Equal", "value": "present"}]

    assert pod_of(a_job().container(resources=GPU).pod(tolerations=own))["spec"]["tolerations"] == [*own, *NODE_LOSS]


TOLERATIONS: dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]]]] = {
    "none": ([], NODE_LOSS),
    "of something else": ([{"key": "spot", "effect": "NoExecute"}], NODE_LOSS),
    "of one of the two": ([{"key": UNREACHABLE, "tolerationSeconds": 600}], NODE_LOSS[:1]),
    "of the same taint with another effect": ([{"key": UNREACHABLE, "effect": "NoSchedule"}], NODE_LOSS),
    "of everything": ([{"operator": "Exists"}], []),
    "of everything that evicts": ([{"operator": "Exists", "effect": "NoExecute"}], []),
    "of everything that keeps away": ([{"operator": "Exists", "effect": "NoSchedule"}], NODE_LOSS),
}


@pytest.mark.parametrize(("own", "added"), TOLERATIONS.values(), ids=TOLERATIONS.keys())
def test_a_lost_node_is_given_up_early_unless_the_template_says_otherwise(
    own: list[dict[str, Any]], added: list[dict[str, Any]]
) -> None:
    assert pod_of(a_job().pod(tolerations=own))["spec"]["tolerations"] == [*own, *added]


def test_each_role_has_its_own_template() -> None:
    job = a_job().role("master", template={"spec": {"containers": [{"name": "head", "image": "head:1"}]}})

    assert trainer_container(pod_of(job, role="master"))["image"] == "head:1"
    assert trainer_container(pod_of(job))["image"] == "trainer:1"
    assert pod_of(job, role="master")["metadata"]["labels"][labels.TRAINER] == "head"


def some(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Left out, empty, or filled: generators of manifests write all three."""
    return st.one_of(st.none(), st.lists(values, max_size=2))


@st.composite
def templates(draw: st.DrawFn) -> dict[str, Any]:
    name = st.sampled_from(["A", "PYTHONUNBUFFERED", "B"])
    mount = st.sampled_from([{"name": "v", "mountPath": "/dev/shm"}, {"name": "v", "mountPath": "/v"}])
    container = st.fixed_dictionaries(
        {"name": st.just("main")},
        optional={
            "env": some(st.fixed_dictionaries({"name": name, "value": st.text(max_size=3)})),
            "volumeMounts": some(mount),
            "resources": st.sampled_from([None, {}, GPU]),
        },
    )
    spec = {
        "containers": [draw(container), {"name": "side", "env": [{"name": "S", "value": "1"}]}],
        "tolerations": draw(some(st.just({"key": "spot"}))),
        "volumes": draw(some(st.just({"name": "v", "emptyDir": {}}))),
    }
    metadata = st.one_of(
        st.none(), st.fixed_dictionaries({}, optional={"labels": st.none(), "annotations": st.just({"n": "1"})})
    )
    return {"metadata": draw(metadata), "spec": spec}


@given(templates())
def test_building_changes_neither_the_template_nor_a_pod_built_before(template: dict[str, Any]) -> None:
    before = deepcopy(template)
    job = a_job().replicas(3).spec(template=template, processesPerReplica=1).build()
    topology = topology_of(job.spec)
    build = pod_builder(job, topology, 0)

    pods, as_built = [], []
    for slot in topology.slots:
        pods.append(build(slot))
        as_built.append(deepcopy(pods[-1]))

    assert pods == as_built
    assert [build(slot) for slot in topology.slots] == as_built
    assert job.spec.template == before


@given(templates())
def test_pods_differ_only_in_who_they_are(template: dict[str, Any]) -> None:
    first, second = (
        pod_of(a_job().replicas(2).spec(template=template, processesPerReplica=1), index) for index in (0, 1)
    )
    for pod in (first, second):
        del pod["metadata"]["labels"][labels.INDEX]
        del pod["metadata"]["name"], pod["spec"]["hostname"], trainer_container(pod)["env"]

    assert first == second
