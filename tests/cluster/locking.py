"""Advisory locks between commands of the test bed."""

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from tests.cluster.errors import BedError

POLL_SECONDS = 0.1


@contextlib.contextmanager
def held(lock_file: Path, *, purpose: str, timeout: float) -> Iterator[None]:
    """Hold `lock_file` for the block; the kernel gives it back when the process dies.

    Raises BedError naming `purpose` when somebody else still holds it after `timeout` seconds.
    """
    lock_file.parent.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + timeout
    while (handle := _try_lock(lock_file)) is None:
        if time.monotonic() > deadline:
            raise BedError(f"{purpose}: another command has held {lock_file} for {timeout:.0f} s; let it finish first")
        time.sleep(POLL_SECONDS)
    with handle:
        yield


def _try_lock(lock_file: Path) -> IO[str] | None:
    handle = lock_file.open("a")
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Whoever held it may have deleted the file with the bed: then this lock excludes nobody.
        if lock_file.exists() and os.path.samestat(os.fstat(handle.fileno()), lock_file.stat()):
            return handle
    except (BlockingIOError, FileNotFoundError):
        pass  # held by another command, or deleted just now: the caller tries again
    handle.close()
    return None
