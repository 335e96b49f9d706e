"""Where the operator spends its processor time: py-spy beside it, and a table of what that saw."""

import shutil
import subprocess
from collections import Counter
from itertools import count
from pathlib import Path
from typing import NamedTuple

from tests.bench.scale.cluster import Cluster
from tests.bench.scale.contestants import Ours
from tests.bench.scale.manifests import Shape

RATE = 200
"""Samples a second."""
LONGEST = 25
"""Rows of a table."""
END_SECONDS = 60.0
_numbers = count(1)


class Share(NamedTuple):
    """Of all samples, in percent: in which the function itself ran, and in which it was called."""

    function: str
    own: float
    total: float


class Profiled(Ours):
    """The operator, watched from its start to its end: ``directory`` gets the stacks and a table of each run."""

    def __init__(self, cluster: Cluster, directory: Path, *options: str) -> None:
        super().__init__(cluster, *options)
        self._program = _program()
        self._directory = directory

    def prepare(self, namespace: str, shape: Shape) -> None:
        super().prepare(namespace, shape)
        self._directory.mkdir(parents=True, exist_ok=True)
        self._stacks = self._directory / f"{next(_numbers)}-{shape.jobs}x{shape.workers}.folded"
        self._spy = subprocess.Popen(
            [
                *(self._program, "record", "--pid", str(self.operator.pid), "--rate", str(RATE), "--format", "raw"),
                *("--output", str(self._stacks), "--function", "--gil"),  # who waits holds no lock
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )

    def end(self) -> None:
        """It writes what it saw when the operator has ended."""
        super().end()
        _, problem = self._spy.communicate(timeout=END_SECONDS)
        if not self._stacks.exists():
            raise ValueError(f"--profile: py-spy: {problem.decode().strip()}")
        table = markdown(shares(self._stacks.read_text(encoding="utf-8")))
        self._stacks.with_suffix(".md").write_text(table + "\n", encoding="utf-8")


def shares(folded: str) -> list[Share]:
    """From lines such as ``outer (a.py);inner (b.py) 12``; those that took most of it first."""
    own: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for line in filter(None, folded.splitlines()):
        stack, _, samples = line.rpartition(" ")
        if not stack:  # a thread of no Python code
            continue
        frames = stack.split(";")
        own[frames[-1]] += int(samples)
        for frame in set(frames):  # a function that calls itself was there once
            total[frame] += int(samples)
    everything = own.total()
    found = [Share(name, 100 * own[name] / everything, 100 * total[name] / everything) for name in total]
    return sorted(found, key=lambda share: (-share.own, -share.total, share.function))


def markdown(found: list[Share]) -> str:
    lines = ["| function | itself | with what it calls |", "|---|---|---|"]
    lines += [f"| `{share.function}` | {share.own:.1f} % | {share.total:.1f} % |" for share in found[:LONGEST]]
    return "\n".join(lines)


def _program() -> str:
    found = shutil.which("py-spy")
    if found is None:
        raise ValueError("--profile: there is no py-spy on the PATH: uv run --group bench")
    return found
