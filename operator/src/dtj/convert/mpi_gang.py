"""A launcher with its workers, of whichever kind: Horovod needs no launcher any more, other MPI keeps it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dtj.api.spec import Framework
from dtj.convert.launch import HOROVODRUN, Launch, read_launch
from dtj.convert.notes import ConversionError
from dtj.convert.old import Part
from dtj.convert.pods import Peer, accelerators_of, command_of, convert_template, trainer_of
from dtj.convert.replicas import Replica
from dtj.plan.commands import is_python
from dtj.plan.pods import is_reserved_variable

_PROBES = ("startupProbe", "readinessProbe", "livenessProbe")
_PORT_NAME = "mpi-port"
_PORT = 9999


@dataclass(frozen=True)
class MpiGang:
    """What an old manifest says about its launcher and workers."""

    launcher: Replica
    workers: Replica | None
    slots: int | None
    launcher_works: bool
    container: str


def convert_gang(gang: MpiGang, spec: Part) -> dict[str, Any]:
    """Return framework, replicas, processesPerReplica, template and roles."""
    if gang.launcher.replicas != 1:
        raise ConversionError(f"{spec.notes.job}: {gang.launcher.path}.replicas must be 1: there is only one launcher")
    launch = _launch(gang)
    if launch is not None and (launch.launcher == HOROVODRUN or is_python(launch.program[0])):
        return _horovod(gang, launch, spec)
    return _mpi(gang, spec)


def launcher_in(replicas: Mapping[str, Replica], spec: Part) -> Replica:
    launcher = replicas.get("Launcher")
    if launcher is None:
        raise ConversionError(f"{spec.notes.job}: {spec.path}: there is no launcher, so nothing says what to run")
    return launcher


def _launch(gang: MpiGang) -> Launch | None:
    """Look at the launcher's command without reading its template."""
    containers = gang.launcher.template.copy().part("spec").parts("containers")
    named = (each for each in containers if each.peek("name") == gang.container)
    chosen = next(named, None) or next(iter(containers), None)
    return None if chosen is None else read_launch([*chosen.words("command"), *chosen.words("args")])


def _horovod(gang: MpiGang, launch: Launch, spec: Part) -> dict[str, Any]:
    peer = Peer(Framework.HOROVOD, (gang.container,), _PORT_NAME, _PORT)
    launcher = convert_template(gang.launcher.template, peer)
    template = convert_template(gang.workers.template, peer) if gang.workers else launcher
    _take_over(template, launcher, launch, gang.launcher, spec)
    workers = gang.workers.replicas if gang.workers else 0
    nodes = workers + (1 if gang.launcher_works or not gang.workers else 0)
    replicas, processes = _counts(nodes, gang, launch, spec, accelerators_of(template))
    return {
        "framework": str(Framework.HOROVOD),
        "replicas": replicas,
        "processesPerReplica": processes,
        "template": template,
    }


def _counts(nodes: int, gang: MpiGang, launch: Launch, spec: Part, accelerators: int) -> tuple[int, int | None]:
    """Pods, and processes in each where that is not what the operator would take anyway."""
    slots = gang.slots or 1
    asked = launch.processes if launch.processes is not None else nodes * slots
    if asked == 0:
        raise ConversionError(f"{spec.notes.job}: the launcher's command asks for no process")
    if asked % nodes == 0:
        replicas, processes = nodes, asked // nodes
    else:
        replicas, processes = (asked, 1) if asked < nodes else (nodes, slots)
        spec.notes.dropped(
            gang.launcher.path,
            f"{asked} processes on {nodes} pods became {replicas} pods with {processes} each: all pods are alike",
        )
    return replicas, None if processes == (accelerators or 1) else processes


def _take_over(
    template: dict[str, Any], launcher: dict[str, Any], launch: Launch, replica: Replica, spec: Part
) -> None:
    """Let the workers run what the launcher started on them, and say what is left of the launcher."""
    worker, starter = trainer_of(template), trainer_of(launcher)
    path = f"{replica.path}.template.spec"
    started = worker is not starter and command_of(worker)
    worker["command"] = launch.program
    worker.pop("args", None)
    if started:
        spec.notes.note(replica.path, f"the workers' own command ({started[0] or 'empty'}) gave way to the training's")
    if probes := [probe for probe in _PROBES if worker.pop(probe, None)]:
        spec.notes.note(replica.path, f"{', '.join(probes)} of the workers left out: they asked for the ssh server")
    if directory := launch.directory or starter.get("workingDir"):
        worker["workingDir"] = directory
    if starter.get("image") != worker.get("image"):
        spec.notes.note(path, f"the workers run the training in their own image, {worker.get('image')}")
    _variables(worker, starter, launch, path, spec)
    if launcher["spec"].get("initContainers") and worker is not starter:
        spec.notes.dropped(f"{path}.initContainers", "not carried over with the launcher; the workers keep their own")
    spec.notes.note(
        path,
        f"there is no launcher any more: the operator starts `{' '.join(launch.program)}` on every worker, without "
        f"{launch.launcher} and ssh" + (f"; left out: {', '.join(launch.stripped)}" if launch.stripped else ""),
    )
    if launch.elastic:
        spec.notes.dropped(path, f"{', '.join(launch.elastic)}: the number of workers is fixed")
    if launch.tuning:
        spec.notes.dropped(path, f"{', '.join(launch.tuning)}: set Horovod's own variables (HOROVOD_…) instead")


def _variables(worker: dict[str, Any], starter: dict[str, Any], launch: Launch, path: str, spec: Part) -> None:
    """``horovodrun`` handed the launcher's whole environment to the workers, ``mpirun`` what ``-x`` named."""
    own = {variable["name"]: variable for variable in starter.get("env") or [] if worker is not starter}
    wanted = dict.fromkeys(own) if launch.launcher == HOROVODRUN else {}
    given = {variable["name"]: variable for variable in worker.get("env") or []}
    for name, value in (wanted | launch.variables).items():
        if is_reserved_variable(Framework.HOROVOD, name):
            spec.notes.note(path, f"{name} is left out: the operator sets it")
        elif value is not None:
            given[name] = {"name": name, "value": value}
        elif name in own:
            given[name] = own[name]
    if given:
        worker["env"] = list(given.values())
    if behind := [name for name in own if name not in given]:
        spec.notes.note(path, f"{', '.join(behind)}: variables of the launcher that never reached the workers")


def _mpi(gang: MpiGang, spec: Part) -> dict[str, Any]:
    peer = Peer(Framework.MPI, (gang.container,), _PORT_NAME, _PORT)
    launcher = convert_template(gang.launcher.template, peer)
    spec.notes.note(
        gang.launcher.path,
        "not seen to be Horovod (mpirun or horovodrun in front of python), so it stays MPI with a launcher; if it is, "
        "set framework: Horovod, give the workers the training's own command, and remove the launcher",
    )
    if gang.workers is None:
        raise ConversionError(f"{spec.notes.job}: {spec.path}: MPI needs workers beside its launcher")
    replicas = gang.workers.replicas + int(gang.launcher_works)
    if gang.launcher_works:
        spec.notes.note(gang.launcher.path, "the launcher no longer computes as well; one more worker does so")
    template = convert_template(gang.workers.template, peer)
    slots = gang.slots or 1
    return {
        "framework": str(Framework.MPI),
        "replicas": replicas,
        "processesPerReplica": None if slots == (accelerators_of(template) or 1) else slots,
        "template": template,
        "roles": [{"name": "launcher", "replicas": 1, "template": launcher}],
    }
