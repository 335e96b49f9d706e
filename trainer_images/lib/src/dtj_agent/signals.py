"""Signals: held from the agent's first moment, taken one by one, and left at their defaults for what it starts.

Held signals wait in the kernel until they are taken, also those sent to the first process of a container, which would
lose them without a handler. So nothing is lost between the start of the agent and that of the training; only what
comes while the Python interpreter itself starts is (some 10 ms).
"""

from __future__ import annotations

import signal

FORWARDED = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGCONT,
    signal.SIGWINCH,
    signal.SIGTSTP,
)
ENDING = FORWARDED[:6]
"""Those that end a process that does not handle them."""

HELD = (*FORWARDED, signal.SIGCHLD)


def hold() -> None:
    """Keep signals for ``take``, also the end of a child; to be called before any child is started."""
    signal.pthread_sigmask(signal.SIG_BLOCK, HELD)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # where it was ignored, children could not be waited for


def take(timeout_s: float | None) -> int | None:
    """The next signal; None when none comes within ``timeout_s`` seconds (None: wait for ever)."""
    taken = signal.sigwaitinfo(HELD) if timeout_s is None else signal.sigtimedwait(HELD, max(0.0, timeout_s))
    return None if taken is None else taken.si_signo


def with_default_action() -> list[int]:
    """All signals that a started process gets back at their defaults: Python itself ignores SIGPIPE and SIGXFSZ."""
    return [number for number in signal.valid_signals() if number not in (signal.SIGKILL, signal.SIGSTOP)]


def name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # most real-time signals have none
        return f"signal {number}"
