"""Starting processes, sending them signals, and finding those that belong together."""

# Paths are strings here: importing pathlib would take a good part of the time that the agent takes to start.
# ruff: noqa: PTH123

from __future__ import annotations

import errno
import os
from collections.abc import Mapping, Sequence

from dtj_agent import signals
from dtj_agent.messages import say

NOT_FOUND = 127
NOT_EXECUTABLE = 126
"""Exit codes as a shell's."""


class CannotStartError(Exception):
    """A command could not be started; ``exit_code`` is what a shell would end with."""

    def __init__(self, command: str, error: OSError) -> None:
        reasons = {
            errno.ENOENT: "not found",
            errno.ENOTDIR: "not found",
            errno.EACCES: "permission denied (is it executable, and a file?)",
            errno.ENOEXEC: "cannot be run (is its first line no #!, or is it built for another kind of machine?)",
        }
        super().__init__(f"{command}: {reasons.get(error.errno or 0, error.strerror)}")
        self.exit_code = NOT_FOUND if error.errno in (errno.ENOENT, errno.ENOTDIR) else NOT_EXECUTABLE


def start(
    command: Sequence[str],
    environ: Mapping[str, str],
    *,
    with_stdin: bool = True,
    output: tuple[int, int] | None = None,
) -> int:
    """Start ``command``, found by PATH, in a session of its own; its process ID.

    Without ``with_stdin`` it reads an empty input. ``output``: what becomes its stdout and stderr; the agent's own are
    the default. Raises CannotStartError.
    """
    files: list[tuple[int, ...] | tuple[int, int, str, int, int]] = []
    if not with_stdin:
        files.append((os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0))
    if output is not None:
        files += [(os.POSIX_SPAWN_DUP2, descriptor, number) for number, descriptor in enumerate(output, start=1)]
    try:
        return os.posix_spawnp(
            command[0],
            list(command),
            dict(environ),
            file_actions=files,
            setsid=True,
            setsigmask=[],
            setsigdef=signals.with_default_action(),
        )
    except OSError as error:
        raise CannotStartError(command[0], error) from error
    except ValueError as error:  # an empty word, as a variable without a value gives it
        raise CannotStartError(command[0] or "an empty command", FileNotFoundError(errno.ENOENT, str(error))) from error


def send(pid: int, number: int) -> None:
    """Send a signal to a process, which may have ended."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return
    except PermissionError:
        say(f"{signals.name(number)} could not be sent to process {pid}: it runs as another user")


def session_members(session: int) -> list[int]:
    """Processes of a session that still live; a session bears the process ID of the one it was started for."""
    return [int(entry.name) for entry in os.scandir("/proc") if entry.name.isdigit() and _is_in(entry.path, session)]


def _is_in(folder: str, session: int) -> bool:
    try:
        with open(f"{folder}/stat", "rb") as file:
            # The name before the last parenthesis may hold anything. Then: state, parent, process group, session, ...
            fields = file.read().rpartition(b")")[2].split()
    except OSError:  # it has ended meanwhile
        return False
    return len(fields) > 3 and fields[0] not in (b"Z", b"X") and int(fields[3]) == session


def exit_code(status: int) -> int:
    """The exit code for a status of ``os.waitpid``: the process's own, or 128 + n when signal n ended it."""
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def describe_end(status: int) -> str:
    if os.WIFSIGNALED(status):
        return f"was ended by {signals.name(os.WTERMSIG(status))}"
    return f"ended with exit code {os.waitstatus_to_exitcode(status)}"
