"""The agent's command line: ``[OPTION ...] -- COMMAND [ARGUMENT ...]``.

The operator writes it, so it is read strictly, and by hand: argparse would double the time that the agent takes to
start.
"""

from __future__ import annotations

from collections.abc import Sequence

from dtj_agent.copies import MisuseError

FRAMEWORKS = ("PyTorch", "Horovod", "JAX", "TensorFlow", "Custom")


class Options:
    """What is to be started, and how."""

    def __init__(self) -> None:
        self.processes = 1
        """Copies of the command in this pod."""
        self.framework = "Custom"
        self.horovod_rendezvous = False
        self.lost_environment = ""
        """As ``shell_environment.lost`` has written it."""
        self.command: tuple[str, ...] = ()


def parse(arguments: Sequence[str]) -> Options:
    """Read the arguments after the program's name; raises MisuseError, naming the one that is wrong."""
    if "--" not in arguments:
        raise MisuseError("no -- before the command")
    end = list(arguments).index("--")
    options = Options()
    for argument in arguments[:end]:
        _set(options, argument)
    options.command = tuple(arguments[end + 1 :])
    if not options.command:
        raise MisuseError("no command after --")
    return options


def _set(options: Options, argument: str) -> None:
    name, _, value = argument.partition("=")
    if name == "--processes" and value.isascii() and value.isdigit() and int(value) >= 1:
        options.processes = int(value)
    elif name == "--framework" and value in FRAMEWORKS:
        options.framework = value
    elif argument == "--rendezvous=horovod":
        options.horovod_rendezvous = True
    elif name == "--restore-environment":
        options.lost_environment = value
    else:
        raise MisuseError(f"wrong option {argument!r}")
