"""The agent from its start to its exit code."""

# Signals are held before anything else is imported, and only what is used is imported.
# ruff: noqa: PLC0415

from __future__ import annotations

import sys

from dtj_agent import signals

MISUSE = 2
BUG = 70
"""EX_SOFTWARE of sysexits.h: the agent itself failed."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dtj_agent.options import Options
    from dtj_agent.progress import Progress
    from dtj_agent.supervisor import Supervisor


def main() -> int:
    """Run the command of ``sys.argv`` to its end; the exit code of the container."""
    signals.hold()
    _occupy_standard_files()
    from dtj_agent import options
    from dtj_agent.copies import MisuseError
    from dtj_agent.messages import say
    from dtj_agent.supervisor import Supervisor

    supervisor = Supervisor()
    try:
        return _run(options.parse(sys.argv[1:]), supervisor)
    except MisuseError as error:
        say(str(error))
        return MISUSE
    except Exception:  # noqa: BLE001 - a bug of the agent must not leave a training behind that nobody watches
        _report_bug()
        _end(supervisor)
        return BUG


def _run(options: Options, supervisor: Supervisor) -> int:
    from dtj_agent import copies

    environ = copies.base_environment(options.lost_environment)
    if not options.horovod_rendezvous:
        return _run_copies(options, environ, supervisor)
    from dtj_agent import horovod

    return horovod.run_met(
        horovod.Gathering.from_environment(environ),
        horovod.interpreter(options.command),
        environ,
        supervisor,
        lambda: _run_copies(options, environ, supervisor),
    )


def _run_copies(options: Options, environ: dict[str, str], supervisor: Supervisor) -> int:
    from dtj_agent import copies, processes
    from dtj_agent.messages import say

    count = options.processes
    progress = _prepare_progress(environ, count)
    told = {} if progress is None else progress.variables
    extra = [copies.variables(options.framework, i, count, environ) for i in range(count)] if count > 1 else [{}]
    try:
        for local_rank, own in enumerate(extra):
            output = None if progress is None else progress.output()
            variables = {**environ, **told, **own}
            pid = processes.start(options.command, variables, with_stdin=local_rank == 0, output=output)
            supervisor.add(pid, copies.label(local_rank, count, environ))
    except processes.CannotStartError as error:
        say(str(error))
        supervisor.end()
        return error.exit_code
    if progress is None:
        return supervisor.run()
    return _run_told(progress, supervisor)


def _prepare_progress(environ: dict[str, str], processes: int) -> Progress | None:
    """None where nobody asks how far training is: started by hand, or by an operator that does not."""
    from dtj_agent import protocol

    if protocol.PORT not in environ:
        return None
    try:
        from dtj_agent.progress import Progress

        return Progress(environ, processes)
    except Exception as error:  # noqa: BLE001 - the training starts whatever it is
        from dtj_agent.messages import say

        say(f"how far training is cannot be told. Please report this: {error!r}")
        return None


def _run_told(progress: Progress, supervisor: Supervisor) -> int:
    import os

    from dtj_agent.progress import End

    progress.begin()
    code = supervisor.run()
    local_rank, status = supervisor.first_failure or (None, 0)
    signal = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
    progress.end(End(code, signal, local_rank))
    return code


def _occupy_standard_files() -> None:
    """Where a standard file is closed, the next one opened would take its number, and get what is written there.

    What is opened here is closed again in the processes that the agent starts.
    """
    import os

    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free


def _report_bug() -> None:
    import traceback

    from dtj_agent.messages import say

    say("the agent failed, and ends the training with it. Please report this:\n" + traceback.format_exc()[-3000:])


def _end(supervisor: Supervisor) -> None:
    try:
        supervisor.end()
    except Exception:  # noqa: BLE001 - the same bug again
        supervisor.kill()
