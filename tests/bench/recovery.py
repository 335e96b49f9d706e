"""How long a job takes to recover from the death of a worker: `python3 -m tests.bench.recovery` (root, as every bed).

Trains the digits example by DDP with a checkpoint after every step, one worker on each of two nodes, kills the process
of worker 1 and measures from that moment, on this machine's clock, until

- all pods of the next attempt are created, by a watch,
- all of them run, by the same watch,
- training goes on: rank 0 of that attempt has written its first step, by the container runtime's time.

A bed of its own is started for it, and removed at the end, unless --bed names one that runs; the operator is installed
there by the chart. The images must be loaded (`make images load`). `--json FILE` keeps the numbers, in seconds.
"""

import json
import os
import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, astuple, dataclass, fields

from tests.bench.real_bed import first_step, last, parse_options, running_bed, wait_until, watched
from tests.cluster import bed as beds
from tests.cluster.console import say
from tests.cluster.errors import BedError
from tests.e2e import host
from tests.e2e.jobs import TRAINER, digits, resumed_at, status_of, trained, training
from tests.e2e.operator import Installed, install
from tests.e2e.storage import claimed
from tests.kubectl import Kubectl

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
    options = parse_options("tests.bench.recovery", __doc__, "jobs to run")
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


def repetitions(bed: beds.Bed, count: int) -> Iterator[Recovery]:
    """Measure, each time with a new job: the next failure of the same one would have to wait for its backoff."""
    say(f"{'seconds after the death of a worker':<36}" + "".join(f"{field.name:>18}" for field in fields(Recovery)))
    operator = Installed(bed.kubectl, bed.helm, bed.kubeconfig, bed.name)
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
        wait_until(moments, [pod_of(worker) for worker in WORKERS], "Running", WITHIN)
        death = host.kill(victim, TRAINER)
        trained(kubectl, pod_of(0, attempt=1), 1, WITHIN)
        again = [pod_of(worker, attempt=1) for worker in WORKERS]
        created, running = (last(moments, again, phase) for phase in ("Pending", "Running"))
    resumed_at(kubectl("logs", pod_of(0, attempt=1)))
    status = status_of(kubectl, JOB)
    assert (status["attempt"], status["restarts"]) == (1, 1), f"something else went wrong as well: {status}"
    return Recovery(created - death, running - death, first_step(kubectl, pod_of(0, attempt=1)) - death)


def pod_of(worker: int, attempt: int = 0) -> str:
    return f"{JOB}-worker-{worker}" + (f"-r{attempt}" if attempt else "")


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
