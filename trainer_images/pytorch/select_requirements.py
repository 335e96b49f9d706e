"""Print the part of requirements.lock that pip installs for one torch variant.

Build step of the PyTorch image. One lock serves all variants: they differ in what they leave out, not in versions.
"""

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path

CUDA_PACKAGE = re.compile(r"(nvidia|cuda)-|triton==")
TORCH = re.compile(r"torch==")

LEFT_OUT: dict[str, tuple[re.Pattern[str], ...]] = {
    "cuda": (),
    "stubs": (CUDA_PACKAGE,),
    "cpu-index": (CUDA_PACKAGE, TORCH),  # that index has its own torch wheel, with other hashes
}


def select(lock: str, variant: str) -> Iterator[str]:
    """Yield the lines of ``lock`` that ``variant`` installs."""
    wanted = True
    for line in lock.splitlines():
        if line[:1].isalnum():  # an entry starts in the first column and goes on indented
            wanted = not any(pattern.match(line) for pattern in LEFT_OUT[variant])
        if wanted:
            yield line


def main() -> int:
    parser = argparse.ArgumentParser(description="Print the requirements of one torch variant.")
    parser.add_argument("variant", choices=LEFT_OUT)
    parser.add_argument("lock", type=Path)
    arguments = parser.parse_args()
    for line in select(arguments.lock.read_text(), arguments.variant):
        print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main())
