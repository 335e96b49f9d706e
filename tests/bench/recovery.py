"""How long a job takes to recover from the death of a worker: `python3 -m tests.bench.recovery` (root, as every bed).

Trains the digits example by DDP with a checkpoint after every step, one worker on each of two nodes, kills the process
of worker 1 and measures from that moment, on this machine's clock, until

- all pods of the next attempt are created, by a watch,
- all of them run, by the same watch,
- training goes on: rank 0 of that attempt has written its first step, by the container runtime's time.

A bed of its own is started for it, and removed at the end, unless --bed names one that runs; the operator is installed
there by the chart. The images must be loaded (`make images load`). `--json FILE` keeps the numbers, in seconds.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, astuple, dataclass, fields
from datetime import datetime
from pathlib import Path

from tests.cluster import bed as beds
from tests.cluster.console import say
from tests.cluster.errors import BedError
from tests.e2e import host
from tests.e2e.jobs import TRAINER, digits, resumed_at, status_of, trained, training
from tests.e2e.operator import Installed, install
from tests.e2e.storage import claimed
from tests.kubectl import Kubectl, eventually

JOB = "recovery"
WORKERS = (0, 1)
STEPS = 400
ONE_STEP_AN_EPOCH = "--batch-size=1000"
STEPS_BEFORE = 10
WITHIN = 120.0


@dataclass(frozen=True)
class Recovery:
    """Seconds from the death of a worker."""

    pods_created: float
    pods_running: float
    next_step: float


def main() -> None:
    options = parse_options()
    try:
        with running_bed(options.bed) as bed:
            install(bed.helm, bed.kubeconfig)
            measured = list(repetitions(bed, options.repetitions))
    except (BedError, AssertionError) as error:
        sys.exit(f"error: {error}")
    median = median_of(measured)
    say(row("median", median))
    if options.json is not None:
        options.json.write_text(json.dumps(report(measured, median), indent=2) + "\n")


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python3 -m tests.bench.recovery", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--repetitions", type=int, default=5, metavar="N", help="jobs to run (default %(default)s)")
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


def repetitions(bed: beds.Bed, count: int) -> Iterator[Recovery]:
    """Measure, each time with a new job: the next failure of the same one would have to wait for its backoff."""
    say(f"{'seconds after the death of a worker':<36}" + "".join(f"{field.name:>18}" for field in fields(Recovery)))
    operator = Installed(bed.kubectl, bed.kubeconfig, bed.name)
    for number in range(1, count + 1):
        with operator.own_namespace() as kubectl, claimed(bed.name, kubectl) as claim:
            recovery = measure(kubectl, claim)
        say(row(f"repetition {number}", recovery))
        yield recovery


def measure(kubectl: Kubectl, claim: str) -> Recovery:
    kubectl.apply(training(JOB, digits(STEPS, ONE_STEP_AN_EPOCH), claim))
    trained(kubectl, pod_of(0), STEPS_BEFORE, WITHIN)
    victim = kubectl.get("pod", pod_of(1))
    with watched(kubectl) as moments:
        eventually(moments.copy, lambda seen: all((pod_of(worker), "Running") in seen for worker in WORKERS))
        death = host.kill(victim, TRAINER)
        trained(kubectl, pod_of(0, attempt=1), 1, WITHIN)
        again = [pod_of(worker, attempt=1) for worker in WORKERS]
        created, running = (max(moments[pod, phase] for pod in again) for phase in ("Pending", "Running"))
    resumed_at(kubectl("logs", pod_of(0, attempt=1)))
    status = status_of(kubectl, JOB)
    assert (status["attempt"], status["restarts"]) == (1, 1), f"something else went wrong as well: {status}"
    return Recovery(created - death, running - death, first_step(kubectl, pod_of(0, attempt=1)) - death)


def pod_of(worker: int, attempt: int = 0) -> str:
    return f"{JOB}-worker-{worker}" + (f"-r{attempt}" if attempt else "")


@contextmanager
def watched(kubectl: Kubectl) -> Iterator[dict[tuple[str, str], float]]:
    """When each pod of the namespace was first seen in each phase, by this machine's clock, as long as the block lasts.

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


def first_step(kubectl: Kubectl, pod: str) -> float:
    """When the pod wrote its first step, in seconds since 1970."""
    lines = (line.partition(" ") for line in kubectl("logs", "--timestamps", pod).splitlines())
    moment = next(moment for moment, _, written in lines if written.startswith("epoch="))
    return datetime.fromisoformat(moment).timestamp()


def median_of(measured: Sequence[Recovery]) -> Recovery:
    columns = zip(*(astuple(recovery) for recovery in measured), strict=True)
    return Recovery(*(statistics.median(column) for column in columns))


def row(name: str, recovery: Recovery) -> str:
    return f"{name:<36}" + "".join(f"{seconds:>18.2f}" for seconds in astuple(recovery))


def report(measured: Sequence[Recovery], median: Recovery) -> dict[str, object]:
    return {
        "unit": "seconds after the death of a worker",
        "workers": len(WORKERS),
        "cores": os.cpu_count(),
        "repetitions": [asdict(recovery) for recovery in measured],
        "median": asdict(median),
    }


if __name__ == "__main__":
    main()
