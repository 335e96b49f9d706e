"""What the commands print: one line for each step, with its duration."""

import contextlib
import time
from collections.abc import Iterator

ANNOUNCED_STEPS = ("build ", "load ", "install ")


def say(text: str) -> None:
    print(text, flush=True)


@contextlib.contextmanager
def step(name: str) -> Iterator[None]:
    """Print `name` with the seconds that the block took; steps that may take minutes are announced first."""
    if name.startswith(ANNOUNCED_STEPS):
        say(f"  {name} ...")
    began = time.monotonic()
    yield
    say(f"  {name:<44} {time.monotonic() - began:6.1f} s")
