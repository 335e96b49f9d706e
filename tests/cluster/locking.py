"""Advisory locks between commands of the test bed."""

import contextlib
import fcntl
import time
from collections.abc import Iterator
from pathlib import Path

from tests.cluster.errors import BedError

POLL_SECONDS = 0.1


@contextlib.contextmanager
def held(lock_file: Path, *, purpose: str, timeout: float) -> Iterator[None]:
    """Hold `lock_file` for the block; the kernel gives it back when the process dies.

    Raises BedError naming `purpose` when somebody else still holds it after `timeout` seconds.
    """
    lock_file.parent.mkdir(parents=True, exist_ok=True)
    with lock_file.open("a") as handle:
        deadline = time.monotonic() + timeout
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise BedError(
                        f"{purpose}: another command has held {lock_file} for {timeout:.0f} s; let it finish first"
                    ) from None
                time.sleep(POLL_SECONDS)
        yield
