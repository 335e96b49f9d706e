"""How the trainer's command is started: through the agent or as it stands, once or several times in a pod."""

import re
from pathlib import PurePosixPath
from typing import Any, Final

from dtj.api import names
from dtj.api.conditions import ConditionType
from dtj.api.job import DistributedTrainingJob
from dtj.api.spec import AgentMode, Framework, JobSpec
from dtj.plan.agent_archive import agent_archive
from dtj.plan.topology import Group, processes_per_replica, trainer_container

SHELL: Final = "/bin/sh"

SHIM: Final = f"""\
digest=$1 python=$2
shift 2
if echo "$digest  {names.AGENT_PATH}" | sha256sum -c > /dev/null 2>&1 &&
  "$python" -I -S -c 'import sys; sys.exit(sys.version_info < (3, 9))' 2> /dev/null
then
  exec "$python" -I -S {names.AGENT_PATH} "$@"
fi
echo "dtj: no sha256sum, or no Python 3.9 or newer named $python: the command runs without the agent" >&2
while [ "$1" != -- ]; do shift; done
shift
exec "$@"
"""
"""Starts the agent where the image can run it, and the bare command where not.

Whoever may write ConfigMaps in a namespace could lay down another file under the agent's name; its digest gives it
away. No ``$(`` may stand here: Kubernetes would take it for a variable.
"""

_PYTHON: Final = re.compile(r"python[0-9.]*")
_LAUNCHER_MODULES: Final = frozenset(
    {
        "torch.distributed.run",
        "torch.distributed.launch",
        "accelerate.commands.launch",
        "accelerate.commands.accelerate_cli",
        "deepspeed.launcher.runner",
    }
)


def has_agent(job: DistributedTrainingJob) -> bool:
    """Whether commands are to be started through the agent: asked for, and not found impossible before."""
    return job.spec.agent.mode is AgentMode.AUTO and not job.status.has(ConditionType.WITHOUT_AGENT)


def uses_agent(job: DistributedTrainingJob, template: dict[str, Any]) -> bool:
    """The entry point of an image is not known here, so there is no agent for a container without a command."""
    return has_agent(job) and bool(trainer_container(template).get("command"))


def through_agent(spec: JobSpec, group: Group) -> list[str]:
    """The command of a trainer container that has one, started by the agent."""
    command = trainer_container(group.template)["command"]
    options = [f"--framework={spec.framework}"]
    if (count := copies(spec, group)) > 1:
        options.append(f"--processes={count}")
    if spec.framework is Framework.HOROVOD:
        options.append("--rendezvous=horovod")
    python = command[0] if is_python(command[0]) else "python3"
    return [SHELL, "-c", SHIM, "dtj-agent", agent_archive().digest, python, *options, "--", *command]


def copies(spec: JobSpec, group: Group) -> int:
    """How many times the agent starts the command in each pod of a group."""
    count = processes_per_replica(spec)
    if count == 1 or not group.ranked:
        return 1
    match spec.framework:
        case Framework.HOROVOD:  # its own launcher, too, starts whatever it is given
            starts = True
        case Framework.CUSTOM:  # nobody knows what the program makes of several accelerators, unless it is said
            starts = spec.processes_per_replica is not None and is_one_process(trainer_container(group.template))
        case _:
            starts = is_one_process(trainer_container(group.template))
    return count if starts else 1


def is_one_process(trainer: dict[str, Any]) -> bool:
    """Only a plain ``python`` is surely one process; an image's own entry point or a script may well start several."""
    command = [str(word) for word in trainer.get("command") or []]
    if not command or not is_python(command[0]):
        return False
    return not any(word in _LAUNCHER_MODULES for word in [*command, *map(str, trainer.get("args") or [])])


def is_python(word: str) -> bool:
    return _PYTHON.fullmatch(PurePosixPath(word).name) is not None
