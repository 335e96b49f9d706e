"""Reading the command lines of mpirun and horovodrun: what do they start?"""

import shlex
from dataclasses import dataclass, field
from pathlib import PurePosixPath

_SHELLS = frozenset({"sh", "bash", "dash", "ash"})
_SHELL_SYNTAX = frozenset(";|&<>()$`\n*?[]{}~#!")

HOROVODRUN = "horovodrun"
_LAUNCHERS = frozenset({HOROVODRUN, "mpirun", "mpirun.openmpi", "mpiexec", "mpiexec.hydra", "orterun", "prterun"})

_COUNT = frozenset({"np", "n", "c", "num-proc"})
_ENVIRONMENT = frozenset({"x", "env", "genv"})
_DIRECTORY = frozenset({"wdir", "wd"})
_ELASTIC = frozenset({"min-np", "max-np", "host-discovery-script", "min-num-proc", "max-num-proc", "reset-limit"})

_PLACING: dict[str, int] = {
    # Where the processes run and how they are reached: the operator's matter now.
    **dict.fromkeys(("H", "host", "hosts", "hostfile", "machinefile", "f", "rankfile", "rf", "ppn", "perhost"), 1),
    **dict.fromkeys(("npernode", "N", "npersocket", "bind-to", "map-by", "rank-by", "ppr", "cpus-per-proc"), 1),
    **dict.fromkeys(("p", "ssh-port", "i", "ssh-identity-file", "network-interface", "network-interfaces"), 1),
    **dict.fromkeys(("prefix", "path", "launcher", "iface", "slots", "slots-per-host", "start-timeout"), 1),
    **dict.fromkeys(("mpi-args", "elastic-timeout", "gloo-timeout-seconds", "output-filename", "tag"), 1),
    **dict.fromkeys(("mca", "gmca", "pmixmca", "prtemca"), 2),
    **dict.fromkeys(("allow-run-as-root", "oversubscribe", "nooversubscribe", "bynode", "byslot", "pernode"), 0),
    **dict.fromkeys(("tag-output", "timestamp-output", "display-map", "report-bindings", "q", "quiet"), 0),
    **dict.fromkeys(("v", "verbose", "gloo", "mpi", "disable-cache", "l", "prepend-rank"), 0),
}
_TUNING: dict[str, int] = {
    # What Horovod also reads from its variables.
    **dict.fromkeys(("fusion-threshold-mb", "cycle-time-ms", "cache-capacity", "timeline-filename", "log-level"), 1),
    **dict.fromkeys(("config-file", "num-nccl-streams", "autotune-log-file", "thread-affinity"), 1),
    **dict.fromkeys(("stall-check-warning-time-seconds", "stall-check-shutdown-time-seconds"), 1),
    **dict.fromkeys(("autotune", "hierarchical-allreduce", "hierarchical-allgather", "timeline-mark-cycles"), 0),
    **dict.fromkeys(("no-stall-check", "mpi-threads-disable", "log-with-timestamp", "log-hide-timestamp"), 0),
}


@dataclass
class Launch:
    """What mpirun or horovodrun was told, apart from the program."""

    launcher: str
    program: list[str] = field(default_factory=list)
    processes: int | None = None
    variables: dict[str, str | None] = field(default_factory=dict)
    """With None: as in the launcher's own environment."""
    directory: str | None = None
    stripped: list[str] = field(default_factory=list)
    elastic: list[str] = field(default_factory=list)
    tuning: list[str] = field(default_factory=list)


def read_launch(words: list[str]) -> Launch | None:
    """Understand a launcher's command line; None if it is another command or has an option that nobody knows."""
    words = _inside_shell(words)
    if not words or _program(words[0]) not in _LAUNCHERS:
        return None
    launch = Launch(_program(words[0]))
    rest = words[1:]
    while rest and rest[0].startswith("-") and rest[0] != "--":
        taken = _option(launch, rest)
        if taken is None or taken > len(rest):
            return None
        rest = rest[taken:]
    launch.program = rest[1:] if rest[:1] == ["--"] else rest
    return launch if launch.program else None


def _option(launch: Launch, words: list[str]) -> int | None:
    """Note the option in front; return how many words it takes, or None if it is unknown."""
    name, joined, value = words[0].lstrip("-").partition("=")
    values = [value] if joined else words[1:3]
    if name in _COUNT:
        if not values or not values[0].isdigit():
            return None
        launch.processes = int(values[0])
        return 1 if joined else 2
    if name in _ENVIRONMENT:
        return _variable(launch, name, words)
    if name in _DIRECTORY and values:
        launch.directory = values[0]
        return 1 if joined else 2
    for known, found in ((_PLACING, launch.stripped), (_TUNING, launch.tuning)):
        if name in known:
            return _remember(found, words, 1 if joined else 1 + known[name])
    if name in _ELASTIC:
        return _remember(launch.elastic, words, 1 if joined else 2)
    return None


def _remember(found: list[str], words: list[str], count: int) -> int:
    found.append(" ".join(words[:count]))
    return count


def _variable(launch: Launch, option: str, words: list[str]) -> int | None:
    """``-x NAME`` or ``-x NAME=value`` (Open MPI), ``-genv NAME value`` (MPICH and Intel)."""
    if len(words) < 2:
        return None
    name, given, value = words[1].partition("=")
    if option == "x" or given:
        launch.variables[name] = value if given else None
        return 2
    if len(words) < 3:
        return None
    launch.variables[name] = words[2]
    return 3


def _inside_shell(words: list[str]) -> list[str]:
    """``bash -c 'mpirun …'`` is as good as the command itself, if the shell has nothing else to do."""
    if len(words) != 3 or _program(words[0]) not in _SHELLS or words[1] not in {"-c", "-ec", "-xc", "-exc", "-lc"}:
        return words
    script = words[2].replace("\\\n", " ").strip()
    if any(character in _SHELL_SYNTAX for character in script):
        return words
    try:
        inside = shlex.split(script)
    except ValueError:
        return words
    return inside[1:] if inside[:1] == ["exec"] else inside


def _program(word: str) -> str:
    return PurePosixPath(word).name
