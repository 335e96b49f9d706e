"""What the operator itself refuses: each mistake names its field and says what would be right."""

from typing import Any

import pytest

from dtj.plan.validation import mistakes_in
from tests.builders import JobBuilder, a_job

TWO = a_job().spec(processesPerReplica=2, agent={"mode": "Disabled"})
GPUS = {"limits": {"nvidia.com/gpu": 8}}
LAUNCHER_NEEDED = (
    "need a launcher where spec.agent.mode is Disabled: start the command with torchrun, "
    "or set spec.processesPerReplica to 1"
)
DISABLED = {"mode": "Disabled"}
HOROVOD = a_job().framework("Horovod").replicas(2).container(command=["python", "train.py"])

MISTAKES: dict[str, tuple[JobBuilder, str, str]] = {
    "a framework of a later version": (
        a_job().framework("MPI"),
        "spec.framework",
        "this version does not run MPI yet; it runs PyTorch, TensorFlow, Horovod, JAX, Custom",
    ),
    "no containers": (a_job().pod(containers=[]), "spec.template.spec.containers", "at least one container is needed"),
    "limits that are no mapping": (
        a_job().container(resources={"limits": "x"}),
        "spec.template.spec.containers[0].resources.limits",
        "must be a mapping",
    ),
    "volumes that are no list": (a_job().pod(volumes={"name": "v"}), "spec.template.spec.volumes", "must be a list"),
    "a variable whose value is a number": (
        a_job().container(env=[{"name": "A", "value": 1}]),
        "spec.template.spec.containers[0].env[0].value",
        "must be a string",
    ),
    "a label that is a number": (
        a_job().pod_metadata(labels={"team": 7}),
        "spec.template.metadata.labels.team",
        "must be a string",
    ),
    "no pod spec": (a_job().spec(template={}), "spec.template.spec.containers", "at least one container is needed"),
    "a pod spec left empty": (
        a_job().spec(template={"spec": None}),
        "spec.template.spec.containers",
        "at least one container is needed",
    ),
    "containers that are no list": (
        a_job().pod(containers="trainer"),
        "spec.template.spec.containers",
        "must be a list",
    ),
    "a container without a name": (
        a_job().pod(containers=[{"image": "trainer:1"}]),
        "spec.template.spec.containers",
        "every container needs a name",
    ),
    "a command with an empty word": (
        a_job().container(command=["python", None]),
        "spec.template.spec.containers[0].command[1]",
        "is empty",
    ),
    "a container that is a word": (
        a_job().pod(containers=["trainer"]),
        "spec.template.spec.containers[0]",
        "must be a mapping",
    ),
    "a role without containers": (
        a_job().framework("Custom").role("actor", template={"metadata": {}}),
        "spec.roles[0].template.spec.containers",
        "at least one container is needed",
    ),
    "a variable without a name": (
        a_job().container(env=[{"value": "1"}]),
        "spec.template.spec.containers[trainer].env",
        "every variable needs a name",
    ),
    "a name too long for a pod of the last attempt": (
        a_job("n" * 49),
        "metadata.name",
        f"the name has 49 characters; pod names such as {'n' * 49}-worker-0-r9999 leave room for 48",
    ),
    "a name too long for many workers": (
        a_job("n" * 48).replicas(11),
        "metadata.name",
        f"the name has 48 characters; pod names such as {'n' * 48}-worker-10-r9999 leave room for 47",
    ),
    "a label of ours": (
        a_job().pod_metadata(labels={"dtj.dev/index": "7"}),
        "spec.template.metadata.labels",
        "dtj.dev/index belongs to the operator; choose another prefix",
    ),
    "an annotation of ours": (
        a_job().pod_metadata(annotations={"dtj.dev/note": "7"}),
        "spec.template.metadata.annotations",
        "dtj.dev/note belongs to the operator; choose another prefix",
    ),
    "a volume of ours": (
        a_job().pod(volumes=[{"name": "dtj-shm", "emptyDir": {}}]),
        "spec.template.spec.volumes",
        "the name dtj-shm belongs to the operator",
    ),
    "the agent's volume": (
        a_job().pod(volumes=[{"name": "dtj-agent", "emptyDir": {}}]),
        "spec.template.spec.volumes",
        "the name dtj-agent belongs to the operator",
    ),
    "several processes of a framework that needs but one": (
        a_job().framework("TensorFlow").spec(processesPerReplica=2),
        "spec.processesPerReplica",
        "TensorFlow uses all accelerators of a pod from one process; leave it out",
    ),
    "Horovod without the agent": (
        HOROVOD.spec(agent=DISABLED),
        "spec.agent.mode",
        "Horovod's processes meet at a rendezvous that the agent serves; leave it out",
    ),
    "Horovod without a command": (
        HOROVOD.container(command=None),
        "spec.template.spec.containers[trainer].command",
        "Horovod needs a command here: the agent starts it when all processes can meet",
    ),
    "more hosts than a variable holds": (
        a_job("n" * 40).framework("Custom").replicas(2_000),
        "spec.replicas",
        (
            "the hosts of all pods make the variable DTJ_HOSTS 214889 bytes long, and Linux takes less than 131072: "
            "use fewer pods or a shorter name"
        ),
    ),
    "a variable of the wiring": (
        a_job().container(env=[{"name": "MASTER_ADDR", "value": "me"}]),
        "spec.template.spec.containers[trainer].env",
        "MASTER_ADDR is set by the operator; remove it",
    ),
    "a variable of ours": (
        a_job().framework("Custom").container(env=[{"name": "DTJ_ANYTHING", "value": "1"}]),
        "spec.template.spec.containers[trainer].env",
        "DTJ_ANYTHING is set by the operator; remove it",
    ),
    "a variable of the wiring in a further role": (
        a_job().role(
            "master", template={"spec": {"containers": [{"name": "m", "env": [{"name": "RANK", "value": "0"}]}]}}
        ),
        "spec.roles[0].template.spec.containers[m].env",
        "RANK is set by the operator; remove it",
    ),
    "several processes and a plain command": (
        TWO.container(command=["python", "train.py"]),
        "spec.template.spec.containers[trainer].command",
        f"2 processes per replica (from spec.processesPerReplica) {LAUNCHER_NEEDED}",
    ),
    "several accelerators and a plain command": (
        a_job().spec(agent=DISABLED).container(command=["python", "train.py"], resources=GPUS),
        "spec.template.spec.containers[trainer].command",
        f"8 processes per replica (from its accelerators) {LAUNCHER_NEEDED}",
    ),
}


@pytest.mark.parametrize(("job", "field", "message"), MISTAKES.values(), ids=MISTAKES.keys())
def test_a_mistake_names_its_field_and_what_would_be_right(job: JobBuilder, field: str, message: str) -> None:
    assert [str(mistake) for mistake in mistakes_in(job.build())] == [f"{field}: {message}"]


FINE: dict[str, JobBuilder] = {
    "a minimal job": a_job(),
    "the longest name": a_job("n" * 48),
    "a variable of the wiring in a sidecar": a_job().pod(
        containers=[{"name": "trainer"}, {"name": "side", "env": [{"name": "RANK", "value": "0"}]}]
    ),
    "another framework's variable": a_job().framework("Custom").container(env=[{"name": "RANK", "value": "0"}]),
    "a switch of the wiring, set otherwise": a_job().container(
        env=[{"name": "TORCH_NCCL_ASYNC_ERROR_HANDLING", "value": "0"}]
    ),
    "labels and volumes of the user": a_job().pod(volumes=[{"name": "data"}]).pod_metadata(labels={"a.b/c": "d"}),
    "metadata left empty": a_job().spec(template={"metadata": None, "spec": {"containers": [{"name": "a"}]}}),
    "several processes that the agent starts": a_job()
    .spec(processesPerReplica=2)
    .container(command=["python", "train.py"]),
    "Horovod": HOROVOD,
    "a thousand hosts": a_job().framework("Custom").replicas(1_000),
    "several processes of a framework that starts them itself": a_job()
    .framework("Custom")
    .spec(processesPerReplica=2)
    .container(command=["python", "train.py"]),
}


@pytest.mark.parametrize("job", FINE.values(), ids=FINE.keys())
def test_is_accepted(job: JobBuilder) -> None:
    assert mistakes_in(job.build()) == ()


LAUNCHERS: dict[str, dict[str, Any]] = {
    "torchrun": {"command": ["torchrun", "train.py"]},
    "torchrun by its path": {"command": ["/usr/bin/torchrun", "train.py"]},
    "torchrun as a module": {"command": ["python", "-m", "torch.distributed.run", "train.py"]},
    "a module among the arguments": {"command": ["python"], "args": ["-m", "torch.distributed.run", "train.py"]},
    "accelerate": {"command": ["accelerate", "launch", "train.py"]},
    "a shell, which may start anything": {"command": ["sh", "-c", "exec torchrun train.py"]},
    "the image's own entry point": {"args": ["train.py"]},
    "nothing said": {},
}


@pytest.mark.parametrize("container", LAUNCHERS.values(), ids=LAUNCHERS.keys())
def test_starts_several_processes(container: dict[str, Any]) -> None:
    assert mistakes_in(TWO.container(**container).build()) == ()


def test_all_mistakes_are_told_at_once() -> None:
    job = (
        TWO.name("n" * 60)
        .container(command=["python", "train.py"], env=[{"name": "RANK", "value": "0"}, {"name": "DTJ_X", "value": ""}])
        .pod(volumes=[{"name": "dtj-shm"}])
    )

    assert len(mistakes_in(job.build())) == 5


def test_each_template_is_looked_at() -> None:
    bad = {"spec": {"containers": [{"name": "m", "env": [{"name": "RANK", "value": "0"}]}]}}

    assert [
        mistake.field for mistake in mistakes_in(a_job().spec(template=bad).role("master", template=bad).build())
    ] == [
        "spec.template.spec.containers[m].env",
        "spec.roles[0].template.spec.containers[m].env",
    ]
