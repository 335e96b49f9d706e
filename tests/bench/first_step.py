"""How long a job takes to its first training step: `python3 -m tests.bench.first_step` (root, as every bed).

Trains the digits example by DDP, started by torchrun, one worker on each of two nodes, in turns as

- ours: a DistributedTrainingJob,
- by hand: one headless Service and two plain pods, with the same image, resources and spread over the nodes, and all
  that torchrun needs to know as its options. No operator looks at them, and no agent is in them.

From right before `kubectl apply`, on this machine's clock, it measures until

- all pods are created, by a watch,
- all of them run, by the same watch,
- rank 0 has written its first step, by the container runtime's time.

Each has a new namespace, so the operator has to bring its agent there as well. The first of each is not counted: it
reads the image from the disk. The difference of the medians is what the operator costs: scheduler, kubelet, image and
training are in both. That holds on a machine that does nothing else: what takes CPU in some of the turns only is in the
difference as well.

A bed of its own is started for it, and removed at the end, unless --bed names one that runs; the operator is installed
there by the chart. The images must be loaded (`make images load`). `--json FILE` keeps the numbers, in seconds.
"""

import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields

from tests.bench.real_bed import Moments, first_step, last, parse_options, running_bed, wait_until, watched
from tests.bench.scale.report import Spread, machine, short, spread
from tests.cluster import bed as beds
from tests.cluster.console import say
from tests.cluster.errors import BedError
from tests.e2e.jobs import DIGITS, SLEEP, pod_spec, training
from tests.e2e.operator import Installed, install
from tests.kubectl import Kubectl, Object, eventually

JOB = "first-step"
PODS = (f"{JOB}-worker-0", f"{JOB}-worker-1")
PORT = 29500
COMMAND = ["torchrun", DIGITS, "--epochs=1", "--batch-size=1000"]  # its only epoch is one step
RESOURCES = {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"memory": "2Gi"}}
SENTINEL = "sentinel"
WITHIN = 120.0
TRIES = 3
GONE_WITHIN = "50s"
BUDGET_SECONDS = 0.5


@dataclass(frozen=True)
class Start:
    """Seconds from right before `kubectl apply`."""

    pods_created: float
    pods_running: float
    first_step: float


@dataclass(frozen=True)
class Overhead:
    """What the operator adds to the medians, in seconds; ``until_created`` and ``after_created`` make ``total``."""

    total: float
    until_created: float
    after_created: float


def main() -> None:
    options = parse_options("tests.bench.first_step", __doc__, "of each")
    about = machine()
    try:
        with running_bed(options.bed) as bed:
            install(bed.helm, bed.kubeconfig)
            measured = compare(bed, options.repetitions)
    except (BedError, AssertionError) as error:
        sys.exit(f"error: {error}")
    medians = {name: spreads(starts) for name, starts in measured.items()}
    for name, columns in medians.items():
        say(row(f"{name}: median (min-max)", columns.values()))
    say(sentence(overhead(medians)))
    if options.json is not None:
        options.json.write_text(json.dumps(report(about, measured, medians), indent=2) + "\n")


def ours() -> Object:
    return training(JOB, COMMAND, resources=RESOURCES)


def by_hand() -> Object:
    """The same training without an operator.

    What the operator sets and is quicker than Kubernetes' default is set here as well: pods without a token, and names
    that resolve before pods are ready.
    """
    label = {"app": JOB}
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": JOB},
        "spec": {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": label, "ports": [{"port": PORT}]},
    }
    pods = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": label},
            "spec": plain_pod_spec(rank, label),
        }
        for rank, name in enumerate(PODS)
    ]
    return {"apiVersion": "v1", "kind": "List", "items": [service, *pods]}


def plain_pod_spec(rank: int, label: Mapping[str, str]) -> Object:
    """The spec of a pod of ``ours``, with what the operator would complete in it."""
    spec: Object = ours()["spec"]["template"]["spec"]
    [trainer], [constraint] = spec["containers"], spec["topologySpreadConstraints"]
    return {
        **spec,
        "hostname": PODS[rank],
        "subdomain": JOB,
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "topologySpreadConstraints": [{**constraint, "labelSelector": {"matchLabels": label}}],
        "containers": [{**trainer, "command": told_by_options(rank)}],
    }


def told_by_options(rank: int) -> list[str]:
    """The command of ``ours`` with the options of torchrun that the operator sets as variables."""
    launcher, *script = COMMAND
    return [
        launcher,
        f"--nnodes={len(PODS)}",
        "--nproc-per-node=1",
        f"--node-rank={rank}",
        f"--master-addr={PODS[0]}.{JOB}",
        f"--master-port={PORT}",
        *script,
    ]


CONTESTANTS: Mapping[str, Callable[[], Object]] = {"ours": ours, "by hand": by_hand}


def compare(bed: beds.Bed, repetitions: int) -> dict[str, list[Start]]:
    say(f"{'seconds from kubectl apply':<32}" + "".join(f"{field.name:>22}" for field in fields(Start)))
    operator = Installed(bed.kubectl, bed.helm, bed.kubeconfig, bed.name)
    measured: dict[str, list[Start]] = {name: [] for name in CONTESTANTS}
    for number in range(repetitions + 1):
        for name in in_turn(number):
            start = started(operator, name)
            say(row(f"{name}, repetition {number}", map(short, asdict(start).values())))
            if number > 0:
                measured[name].append(start)
    return measured


def in_turn(number: int) -> Sequence[str]:
    """Both contestants, the other one first each time."""
    names = list(CONTESTANTS)
    return names if number % 2 else names[::-1]


@contextmanager
def empty_namespace(operator: Installed) -> Iterator[Kubectl]:
    """A namespace in which pods can be created, for the block; it is gone afterwards, and disturbs nobody."""
    with operator.own_namespace() as kubectl:
        eventually(lambda: kubectl.run("get", "serviceaccount", "default").returncode, lambda code: code == 0)
        yield kubectl
    kubectl("wait", "--for=delete", f"namespace/{kubectl.namespace}", f"--timeout={GONE_WITHIN}")


def started(operator: Installed, name: str) -> Start:
    """A start without a failure: by hand nobody starts a pod again whose peer had no name yet."""
    for _ in range(TRIES):
        with empty_namespace(operator) as kubectl:
            if (start := measure(kubectl, CONTESTANTS[name]())) is not None:
                return start
        say(f"{name}: a pod failed; once more")
    raise AssertionError(f"{name}: {TRIES} times a pod failed")


def measure(kubectl: Kubectl, manifest: Object) -> Start | None:
    """None where a pod failed."""
    kubectl.apply(sentinel())
    with watched(kubectl) as moments:
        wait_until(moments, [SENTINEL], "Pending", WITHIN)
        began = time.time()
        kubectl.apply(manifest)
        # Seen by the watch: nothing that polls takes processor time from the training.
        if not succeed(moments):
            return None
    log = kubectl("logs", PODS[0])
    assert f"world_size={len(PODS)} " in log, f"they did not train together:\n{log[:1000]}"
    return start_of(moments, first_step(kubectl, PODS[0]), began)


def succeed(moments: Moments) -> bool:
    """Whether all pods come to a good end; False as soon as one does not."""
    ends = eventually(
        lambda: [phase for _, phase in tuple(moments)],
        lambda phases: phases.count("Succeeded") == len(PODS) or "Failed" in phases,
        WITHIN,
    )
    return "Failed" not in ends


def sentinel() -> Object:
    """A pod that never gets a node: whoever sees it watches."""
    spec = {**pod_spec(SLEEP), "schedulingGates": [{"name": "dtj.dev/never"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": SENTINEL}, "spec": spec}


def start_of(moments: Moments, stepped: float, began: float) -> Start:
    created, running = (last(moments, PODS, phase) for phase in ("Pending", "Running"))
    return Start(created - began, running - began, stepped - began)


def spreads(starts: Sequence[Start]) -> dict[str, Spread]:
    return {field.name: spread([getattr(start, field.name) for start in starts]) for field in fields(Start)}


def overhead(medians: Mapping[str, Mapping[str, Spread]]) -> Overhead:
    def difference(measure: str) -> float:
        return medians["ours"][measure].median - medians["by hand"][measure].median

    total, until_created = difference("first_step"), difference("pods_created")
    return Overhead(total, until_created, total - until_created)


def sentence(added: Overhead) -> str:
    return (
        f"the operator adds {short(added.total)} s (budget {short(BUDGET_SECONDS)} s): "
        f"{short(added.until_created)} s until all pods are created, "
        f"{short(added.after_created)} s after that (its agent, and what else it adds to pods)"
    )


def row(name: str, columns: Iterable[object]) -> str:
    return f"{name:<32}" + "".join(f"{column!s:>22}" for column in columns)


def report(
    about: Mapping[str, object],
    measured: Mapping[str, Sequence[Start]],
    medians: Mapping[str, Mapping[str, Spread]],
) -> dict[str, object]:
    return {
        "unit": "seconds from right before kubectl apply",
        "workers": len(PODS),
        "machine": about,
        "repetitions": {name: [asdict(start) for start in starts] for name, starts in measured.items()},
        "median": {name: {key: asdict(value) for key, value in columns.items()} for name, columns in medians.items()},
        "overhead": {**asdict(overhead(medians)), "budget": BUDGET_SECONDS},
    }


if __name__ == "__main__":
    main()
