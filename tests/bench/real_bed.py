"""What benchmarks on a real bed share: options, the bed, and moments of pods.

A moment is in seconds since 1970, on this machine's clock.
"""

import argparse
import os
import subprocess
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from tests.cluster import bed as beds
from tests.kubectl import Kubectl, eventually

Moments = Mapping[tuple[str, str], float]
"""By the pod's name and the phase."""


def parse_options(module: str, about: str | None, repetitions: str) -> argparse.Namespace:
    """``about``: the module's docstring; ``repetitions``: of what there are so many."""
    parser = argparse.ArgumentParser(prog=f"python3 -m {module}", description=(about or "").splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=5, metavar="N", help=f"{repetitions} (default %(default)s)")
    parser.add_argument("--bed", help="use this running bed (default: start one)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers there as well")
    options = parser.parse_args()
    if options.repetitions < 1:
        parser.error("--repetitions must be at least 1")
    return options


@contextmanager
def running_bed(name: str | None) -> Iterator[beds.Bed]:
    """The running bed of that name, or one that lives as long as the block."""
    if name is not None:
        yield beds.find(name)
        return
    with beds.running(f"bench-{os.getpid()}") as own:
        yield own


@contextmanager
def watched(kubectl: Kubectl) -> Iterator[Moments]:
    """When each pod of the namespace was first seen in each phase, as long as the block lasts.

    A pod is Pending from its creation on.
    """
    columns = r'jsonpath={.object.metadata.name} {.object.status.phase}{"\n"}'
    command = [str(kubectl.program), "--kubeconfig", str(kubectl.kubeconfig), "--namespace", kubectl.namespace]
    moments: dict[tuple[str, str], float] = {}

    def read(lines: Iterable[str]) -> None:
        for line in lines:
            pod, _, phase = line.strip().partition(" ")
            moments.setdefault((pod, phase), time.time())

    with subprocess.Popen(
        [*command, "get", "pods", "--watch", "--output-watch-events", "--output", columns],
        stdout=subprocess.PIPE,
        text=True,
    ) as watch:
        assert watch.stdout is not None
        reader = threading.Thread(target=read, args=(watch.stdout,))
        reader.start()
        try:
            yield moments
        finally:
            watch.kill()
            reader.join()


def wait_until(moments: Moments, pods: Sequence[str], phase: str, within: float) -> None:
    """Return once all these pods have been seen in the phase; fail after ``within`` seconds."""
    eventually(
        lambda: [f"{pod} {seen}" for pod, seen in tuple(moments)],
        lambda seen: all(f"{pod} {phase}" in seen for pod in pods),
        within,
    )


def last(moments: Moments, pods: Sequence[str], phase: str) -> float:
    """When the last of these pods was first seen in the phase."""
    return max(moments[pod, phase] for pod in pods)


def first_step(kubectl: Kubectl, pod: str) -> float:
    """When the pod of rank 0 wrote its first step, by the container runtime's time."""
    lines = (line.partition(" ") for line in kubectl("logs", "--timestamps", pod).splitlines())
    moment = next(moment for moment, _, written in lines if written.startswith("epoch="))
    return datetime.fromisoformat(moment).timestamp()
