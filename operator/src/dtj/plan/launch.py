"""How the trainer's command is started: through the agent or as it stands, once or several times in a pod."""

from typing import Any, Final

from dtj.api import names
from dtj.api.conditions import ConditionType
from dtj.api.job import DistributedTrainingJob
from dtj.api.rules import ONE_PROCESS_FRAMEWORKS
from dtj.api.spec import AgentMode, Framework, JobSpec
from dtj.plan.agent_archive import agent_archive
from dtj.plan.commands import is_one_process, is_python
from dtj.plan.topology import Group, processes_per_replica, trainer_container

SHELL: Final = "/bin/sh"

SHIM: Final = f"""\
dtj_digest=$1 dtj_python=$2
shift 2
if ! echo "$dtj_digest  {names.AGENT_PATH}" | sha256sum -c > /dev/null 2>&1; then
  dtj_why="{names.AGENT_PATH} is not the agent, or there is no sha256sum"
elif dtj_lost=`"$dtj_python" -I -S {names.AGENT_PATH} --lost-environment 2> /dev/null`; then
  exec "$dtj_python" -I -S {names.AGENT_PATH} "--restore-environment=$dtj_lost" "$@"
else
  dtj_why="no Python 3.9 or newer named $dtj_python"
fi
while [ "$1" != -- ]; do
  case $1 in --processes=* | --rendezvous=*)
    echo "dtj: $dtj_why: without the agent the processes cannot be started ($1)" >&2
    exit 1 ;;
  esac
  shift
done
echo "dtj: $dtj_why: the command runs without the agent" >&2
shift
exec "$@"
"""
"""Starts the agent where the image can run it, and the bare command where not, if that will do.

Some shells drop variables whose names they cannot use themselves, and set others: the agent finds out which and puts
them right.

Whoever may write ConfigMaps in a namespace could lay down another file under the agent's name; its digest gives it
away. Neither ``$(`` nor ``$$`` may stand here: Kubernetes would take them for its own.
"""


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
    return [SHELL, "-c", SHIM, SHELL, agent_archive().digest, python, *options, "--", *command]


def copies(spec: JobSpec, group: Group) -> int:
    """How many times the agent starts the command in each pod of a group."""
    count = processes_per_replica(spec)
    if count == 1 or not group.ranked or spec.framework in ONE_PROCESS_FRAMEWORKS:
        return 1
    if spec.framework is Framework.HOROVOD:  # its own launcher, too, starts whatever it is given
        return count
    if spec.framework is Framework.CUSTOM and spec.processes_per_replica is None:
        return 1  # nobody knows what the program makes of several accelerators, unless it is said
    return count if is_one_process(words_of(trainer_container(group.template))) else 1


def words_of(trainer: dict[str, Any]) -> list[str]:
    """The command of a container with its arguments; empty where the image's own entry point runs."""
    command = trainer.get("command") or []
    return [*command, *(trainer.get("args") or [])] if command else []


def needs_agent(spec: JobSpec, group: Group) -> bool:
    """Whether the bare command would not do: its processes would each train alone, or not meet."""
    return spec.framework is Framework.HOROVOD or copies(spec, group) > 1
