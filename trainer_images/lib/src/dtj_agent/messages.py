"""The agent's own lines on stderr, between those of the training."""

from __future__ import annotations

import os

PREFIX = "dtj-agent: "
STDERR = 2
LONGEST_BYTES = 4096
"""What a pipe takes without blocking when it says that it is writable (PIPE_BUF on Linux)."""


def say(text: str) -> None:
    """Write ``text`` as a line of the agent's; never raises and never waits.

    A message that cannot be written is lost: whoever would read it is gone or does not read, and forwarding signals
    matters more.
    """
    # surrogateescape: a command's name may hold bytes that are no text, and comes out as it came in.
    line = (PREFIX + text).encode(errors="surrogateescape")[: LONGEST_BYTES - 1] + b"\n"
    try:
        if _is_writable():
            os.write(STDERR, line)
    except OSError:
        return


def _is_writable() -> bool:
    import select  # noqa: PLC0415 - few runs of the agent have anything to say

    poll = select.poll()
    poll.register(STDERR, select.POLLOUT)
    return bool(poll.poll(0))
