"""How the trainer's command is started: by whom, and how many times."""

import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from dtj.api.conditions import ConditionType
from dtj.api.reasons import Reason
from dtj.api.spec import ConditionStatus
from dtj.api.status import Condition, JobStatus
from dtj.plan.agent_archive import agent_archive
from dtj.plan.launch import SHIM, copies
from dtj.plan.pods import pod_builder
from dtj.plan.topology import Slot, topology_of, trainer_container
from tests.builders import NOW, JobBuilder, a_job

PYTHON = ["python", "train.py"]
GPUS = {"limits": {"nvidia.com/gpu": 4}}
FOUR = a_job().spec(processesPerReplica=4)


def pod_of(job: JobBuilder, role: str = "worker") -> dict[str, Any]:
    built = job.build()
    return dict(pod_builder(built, topology_of(built.spec), 0)(Slot(role, 0)))


def launched(job: JobBuilder, role: str = "worker") -> list[str]:
    """The command of the trainer container without the shell's program."""
    command = trainer_container(pod_of(job, role))["command"]
    return [word for word in command if word != SHIM]


AGENT = ["/bin/sh", "-c", "/bin/sh", agent_archive().digest]

COMMANDS: dict[str, tuple[JobBuilder, list[str]]] = {
    "python starts the agent too": (
        a_job().container(command=["/opt/venv/bin/python3.12", "train.py"]),
        ["/opt/venv/bin/python3.12", "--framework=PyTorch", "--", "/opt/venv/bin/python3.12", "train.py"],
    ),
    "another program": (
        a_job().container(command=["torchrun", "train.py"]),
        ["python3", "--framework=PyTorch", "--", "torchrun", "train.py"],
    ),
    "several processes": (
        FOUR.container(command=PYTHON),
        ["python", "--framework=PyTorch", "--processes=4", "--", *PYTHON],
    ),
    "several from the accelerators": (
        a_job().container(command=PYTHON, resources=GPUS),
        ["python", "--framework=PyTorch", "--processes=4", "--", *PYTHON],
    ),
    "Horovod": (
        a_job().framework("Horovod").replicas(2).container(command=["bash", "train.sh"]),
        ["python3", "--framework=Horovod", "--rendezvous=horovod", "--", "bash", "train.sh"],
    ),
}


@pytest.mark.parametrize(("job", "command"), COMMANDS.values(), ids=COMMANDS.keys())
def test_a_command_is_started_by_the_agent(job: JobBuilder, command: list[str]) -> None:
    assert launched(job) == [*AGENT, *command]


def test_arguments_stay_where_they_are() -> None:
    trainer = pod_of(a_job().container(command=["python"], args=["train.py", "$(DTJ_NNODES)"]))["spec"]["containers"][0]

    assert trainer["args"] == ["train.py", "$(DTJ_NNODES)"]
    assert trainer["command"][-2:] == ["--", "python"]


def test_the_agent_is_mounted_as_a_file_that_nobody_changes() -> None:
    spec = pod_of(a_job().container(command=PYTHON))["spec"]

    mounts = {mount["name"]: mount for mount in spec["containers"][0]["volumeMounts"]}
    assert mounts["dtj-agent"] == {
        "name": "dtj-agent",
        "mountPath": "/dtj/agent.pyz",
        "subPath": "agent.pyz",
        "readOnly": True,
    }
    assert {"name": "dtj-agent", "configMap": {"name": f"dtj-agent-{agent_archive().digest[:16]}"}} in spec["volumes"]


WITHOUT_AGENT = Condition(
    type=ConditionType.WITHOUT_AGENT, status=ConditionStatus.TRUE, reason=Reason.NO_SHELL, last_transition_time=NOW
)
BARE: dict[str, JobBuilder] = {
    "an image's own entry point": a_job().container(args=["train.py"]),
    "an empty command": a_job().container(command=[]),
    "the agent is not wanted": a_job().container(command=PYTHON).spec(agent={"mode": "Disabled"}),
    "the agent cannot start in the image": a_job()
    .container(command=PYTHON)
    .status(JobStatus(conditions=(WITHOUT_AGENT,))),
}


@pytest.mark.parametrize("job", BARE.values(), ids=BARE.keys())
def test_a_command_is_left_alone(job: JobBuilder) -> None:
    pod = pod_of(job)["spec"]

    assert pod["containers"][0].get("command") == job.raw()["spec"]["template"]["spec"]["containers"][0].get("command")
    assert [volume["name"] for volume in pod["volumes"]] == ["dtj-shm"]


MANY: dict[str, tuple[JobBuilder, int]] = {
    "plain python": (FOUR.container(command=PYTHON), 4),
    "python by its path": (FOUR.container(command=["/usr/bin/python3", "-u", "train.py"]), 4),
    "torchrun": (FOUR.container(command=["torchrun", "train.py"]), 1),
    "torchrun as a module": (FOUR.container(command=["python", "-m", "torch.distributed.run", "train.py"]), 1),
    "a launcher among the arguments": (
        FOUR.container(command=["python"], args=["-m", "accelerate.commands.launch", "train.py"]),
        1,
    ),
    "accelerate": (FOUR.container(command=["accelerate", "launch", "train.py"]), 1),
    "a shell, which may start anything": (FOUR.container(command=["sh", "-c", "torchrun train.py"]), 1),
    "JAX, if asked for": (FOUR.framework("JAX").container(command=PYTHON), 4),
    "JAX uses all accelerators from one process": (
        a_job().framework("JAX").container(command=PYTHON, resources=GPUS),
        1,
    ),
    "TensorFlow uses all accelerators from one process": (
        a_job().framework("TensorFlow").container(command=PYTHON, resources=GPUS),
        1,
    ),
    "Custom, if asked for": (FOUR.framework("Custom").container(command=PYTHON), 4),
    "Custom knows better what it does with its accelerators": (
        a_job().framework("Custom").container(command=PYTHON, resources=GPUS),
        1,
    ),
    "TensorFlow with a number that an older version took": (FOUR.framework("TensorFlow").container(command=PYTHON), 1),
    "Horovod starts whatever it is given": (FOUR.framework("Horovod").container(command=["bash", "train.sh"]), 4),
}


@pytest.mark.parametrize(("job", "count"), MANY.values(), ids=MANY.keys())
def test_how_many_processes_the_agent_starts(job: JobBuilder, count: int) -> None:
    spec = job.build().spec

    assert copies(spec, topology_of(spec).group("worker")) == count


def test_a_role_outside_the_gang_starts_once() -> None:
    template = {"spec": {"containers": [{"name": "judge", "command": PYTHON}]}}
    spec = FOUR.framework("Custom").container(command=PYTHON).role("evaluator", template=template).build().spec

    assert copies(spec, topology_of(spec).group("evaluator")) == 1


TOOLS = ("echo", "env", "sha256sum")


def shim(
    tmp_path: Path,
    *words: str,
    python: str = "python3",
    tools: tuple[str, ...] = TOOLS,
    archive: bytes | None = None,
    shell: Sequence[str] = ("/bin/sh",),
    environ: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """The shell's program with these tools on its PATH and this file in the agent's place."""
    tools_folder = tmp_path / "bin"
    tools_folder.mkdir()
    for tool in tools:
        (tools_folder / tool).symlink_to(str(shutil.which(tool)))
    (tools_folder / "python3").symlink_to(sys.executable)
    file = tmp_path / "agent.pyz"
    file.write_bytes(agent_archive().content if archive is None else archive)
    program = SHIM.replace("/dtj/agent.pyz", str(file))
    return subprocess.run(
        [*shell, "-c", program, "dtj-agent", agent_archive().digest, python, *words],
        env={"PATH": str(tools_folder), **(environ or {})},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


ECHO = ("--framework=Custom", "--", "echo", "a b")
CANNOT: dict[str, dict[str, Any]] = {
    "no Python": {"python": "python9"},
    "no sha256sum": {"tools": ("echo",)},
    "another file under the agent's name": {"archive": b"print('forged')"},
}


def test_the_agent_runs_the_command(tmp_path: Path) -> None:
    done = shim(tmp_path, *ECHO)

    assert (done.returncode, done.stdout, done.stderr) == (0, "a b\n", "")


@pytest.mark.parametrize("image", CANNOT.values(), ids=CANNOT.keys())
def test_an_image_that_cannot_run_the_agent_runs_the_bare_command(tmp_path: Path, image: dict[str, Any]) -> None:
    done = shim(tmp_path, *ECHO, **image)

    assert (done.returncode, done.stdout) == (0, "a b\n")
    assert "the command runs without the agent" in done.stderr


@pytest.mark.parametrize("option", ["--processes=2", "--rendezvous=horovod"])
@pytest.mark.parametrize("image", CANNOT.values(), ids=CANNOT.keys())
def test_what_needs_the_agent_does_not_run_without(tmp_path: Path, image: dict[str, Any], option: str) -> None:
    done = shim(tmp_path, "--framework=Horovod", option, "--", "echo", "alone", **image)

    assert (done.returncode, done.stdout) == (1, "")
    assert f"without the agent the processes cannot be started ({option})" in done.stderr


AWKWARD = {
    "my.key": "dotted",
    "my-key": "with a minus",
    "1st": "a digit first",
    "python": "the user's",
    "digest": "the user's",
    "EMPTY": "",
    "LINES": "two\nlines",
}
SHELLS = (["sh"], ["bash"], ["busybox", "sh"])


@pytest.mark.parametrize("shell", [shell for shell in SHELLS if shutil.which(shell[0])], ids=lambda s: s[0])
@pytest.mark.parametrize("own", [{}, {"PWD": "/elsewhere", "SHLVL": "7", "OLDPWD": "/before"}], ids=["bare", "set"])
def test_the_environment_is_the_containers_own_whatever_shell_it_has(
    tmp_path: Path, shell: list[str], own: dict[str, str]
) -> None:
    words = [str(shutil.which(shell[0])), *shell[1:]]
    given = {**AWKWARD, **own}

    done = shim(tmp_path, "--framework=Custom", "--", "env", "-0", shell=words, environ=given)

    found = dict(entry.partition("=")[::2] for entry in done.stdout.split("\0") if entry)
    del found["PATH"], found["PYTHONPATH"]
    assert found == given


def test_kubernetes_finds_no_variable_in_the_shells_program() -> None:
    assert "$(" not in SHIM
    assert "$$" not in SHIM
