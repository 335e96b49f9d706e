"""What is measured. Each scenario is a function from a contestant to measures of one repetition."""

import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from dtj.api import names
from tests.bench.scale import manifests, requests, watching
from tests.bench.scale.client import Call
from tests.bench.scale.cluster import PATIENCE_SECONDS, Cluster, until
from tests.bench.scale.contestants import OURS, Contestant, Maker, Ours, Restarting, end_of, jobs_path
from tests.bench.scale.manifests import Shape
from tests.bench.scale.report import percentile
from tests.bench.scale.requests import Requests
from tests.bench.scale.usage import Meter, Usage
from tests.bench.scale.watching import Pods


@dataclass
class Measured:
    """One repetition: numbers by name, with the unit at its end, and costs of the whole."""

    measures: dict[str, float] = field(default_factory=dict)
    usage: dict[str, Usage] = field(default_factory=dict)
    requests: Requests = field(default_factory=Requests)


@dataclass(frozen=True)
class Sizes:
    """How big the scenarios are; ``scale`` 1 is what the budgets are about."""

    scale: float = 1.0
    quiet_seconds: float = 300.0

    def of(self, number: int) -> int:
        return max(1, round(number * self.scale))


class Case(NamedTuple):
    """A scenario at one size. Some are about the operator alone."""

    letter: str
    shape: Shape
    measure: Callable[[Cluster, Maker, Shape, Sizes], Measured]
    only_ours: bool = False
    variant: str = ""

    @property
    def name(self) -> str:
        return f"{self.letter}: {self.shape}" + (f" {self.variant}" if self.variant else "")


def cases(letters: str, sizes: Sizes, part: str = "") -> list[Case]:
    """All sizes of these scenarios, in their order, whose name has this ``part``.

    Raises ValueError for a letter that is none, and for a part that no name has.
    """
    if unknown := set(letters) - set(_SCENARIOS):
        raise ValueError(f"scenarios {', '.join(sorted(unknown))}: there are {', '.join(sorted(_SCENARIOS))}")
    found = [case for letter in letters for case in _SCENARIOS[letter](sizes) if part in case.name]
    if not found:
        raise ValueError(f"no case of {letters} has {part!r} in its name")
    return found


def creation(cluster: Cluster, make: Maker, shape: Shape, _: Sizes) -> Measured:
    """From the first request until all pods are created; costs until all of them run and nobody writes any more."""
    with _prepared(cluster, make, shape) as (contestant, pods):
        with _costs(cluster, contestant) as measured:
            began = time.monotonic()
            contestant.submit()
            submitted = time.monotonic()
            created = pods.when_created(shape.pods, PATIENCE_SECONDS)
            running = pods.when_running(shape.pods, PATIENCE_SECONDS)
            cluster.settle()
        measured.measures |= {"created_s": created - began, "running_s": running - began, "sent_s": submitted - began}
        return measured


def life(cluster: Cluster, make: Maker, shape: Shape, _: Sizes) -> Measured:
    """All requests from the creation of a job until it is complete."""
    with _prepared(cluster, make, shape) as (contestant, pods):
        with _costs(cluster, contestant) as measured:
            before = _sent(contestant)
            contestant.submit()
            pods.when_running(shape.pods, PATIENCE_SECONDS)
            cluster.settle()
            cluster.client.send(end_of(pods.namespace, name, exit_code=0) for name in pods.created())
            cluster.settle()
        sent = requests.difference(_sent(contestant), before)
        measured.measures |= {f"operator_{method}": number for method, number in sent.items()}
        return measured


def restart(cluster: Cluster, make: Maker, shape: Shape, _: Sizes) -> Measured:
    """From the failure of a worker of a running job until all pods of the next attempt are created."""
    with _prepared(cluster, make, shape) as (contestant, pods):
        assert isinstance(contestant, Restarting)
        contestant.submit()
        pods.when_running(shape.pods, PATIENCE_SECONDS)
        cluster.settle()
        contestant.prepare_restart()
        with _costs(cluster, contestant) as measured:
            began = time.monotonic()
            contestant.restart()
            created = pods.when_created(2 * shape.pods, PATIENCE_SECONDS)
            cluster.settle()
        measured.measures["restarted_s"] = created - began
        return measured


def rest(cluster: Cluster, make: Maker, shape: Shape, sizes: Sizes) -> Measured:
    """What many running jobs cost when nothing happens; then, how long a new operator takes to be ready."""
    with _prepared(cluster, make, shape) as (contestant, pods):
        assert isinstance(contestant, Ours)
        contestant.submit()
        pods.when_running(shape.pods, PATIENCE_SECONDS)
        cluster.settle()
        with _costs(cluster, contestant) as measured:
            before = _sent(contestant)
            time.sleep(sizes.quiet_seconds)
            sent = requests.difference(_sent(contestant), before)
        measured.measures["core_percent"] = 100 * measured.usage["operator"].cpu_s / sizes.quiet_seconds
        measured.measures["writes"] = sum(number for method, number in sent.items() if method != "GET")
        contestant.operator.terminate()
        began = time.monotonic()
        contestant.operator.start()
        contestant.operator.wait_until_ready()
        measured.measures["ready_s"] = time.monotonic() - began
        return measured


def among_finished(finished: int, cluster: Cluster, make: Maker, shape: Shape, sizes: Sizes) -> Measured:
    """Creation, while so many finished jobs lie around."""
    path = jobs_path(cluster.new_namespace("finished"))
    bodies = [manifests.finished_job(f"job-{number}") for number in range(finished)]
    cluster.client.send(Call("POST", path, body) for body in bodies)
    cluster.client.send(
        Call("PATCH", f"{path}/{body['metadata']['name']}/status", {"status": body["status"]}) for body in bodies
    )
    measured = creation(cluster, make, shape, sizes)
    measured.measures[FINISHED] = finished
    return measured


def without_poison(cluster: Cluster, make: Maker, shape: Shape, _: Sizes) -> Measured:
    """How long the slowest jobs of a burst take to get their pods."""
    with _prepared(cluster, make, shape) as (contestant, pods):
        return _slowest_starts(cluster, contestant, pods, shape)


def beside_poison(cluster: Cluster, make: Maker, shape: Shape, _: Sizes) -> Measured:
    """The same beside a job whose pods are refused and one whose pods crash for ever."""
    own = cluster.new_namespace("poison")
    with _prepared(cluster, make, shape) as (contestant, pods):
        poison = [manifests.refused_job("refused"), manifests.crashing_job("crashing")]
        for job in poison:
            answer = cluster.api.request("POST", jobs_path(own), job)
            assert answer.accepted, answer.message
        until("a crash has led to a restart", lambda: _restarts(cluster, own, "crashing") > 0)
        return _slowest_starts(cluster, contestant, pods, shape)


def node_lost(cluster: Cluster, make: Maker, shape: Shape, _: Sizes) -> Measured:
    """From the moment a node is told to be NotReady until the next attempts of all its jobs are created.

    Jobs have one pod each, so a node is lost to as many jobs as it has pods.
    """
    with _prepared(cluster, make, shape) as (contestant, pods):
        contestant.submit()
        pods.when_running(shape.pods, PATIENCE_SECONDS)
        cluster.settle()
        node, lost = cluster.fullest_node(pods.namespace)
        with cluster.silent_node(node):
            not_ready = time.monotonic()
            with _costs(cluster, contestant) as measured:
                created = pods.when_created(shape.pods + lost, PATIENCE_SECONDS)
        measured.measures |= {"next_attempts_s": created - not_ready, "pods_lost": lost}
        return measured


FINISHED = "finished_jobs"
"""A measure, although it is known before: what the others grow with, or do not."""


def _among_finished(sizes: Sizes) -> list[Case]:
    shape = Shape(sizes.of(200), 4)
    return [
        Case("I", shape, partial(among_finished, finished), only_ours=True, variant=f"among {finished:,} finished")
        for finished in (0, sizes.of(1_000), sizes.of(5_000))
    ]


Scenario = Callable[[Sizes], list[Case]]
_SCENARIOS: Mapping[str, Scenario] = {
    "A": lambda sizes: [Case("A", Shape(1, sizes.of(workers)), creation) for workers in (250, 500, 1_000)],
    "B": lambda sizes: [Case("B", Shape(sizes.of(jobs), 4), creation) for jobs in (50, 200, 1_000)],
    "C": lambda _: [Case("C", Shape(1, 4), life)],
    "D": lambda sizes: [Case("D", Shape(1, workers), restart) for workers in (4, max(4, sizes.of(1_000)))],
    "E": lambda sizes: [Case("E", Shape(sizes.of(1_000), 10), rest, only_ours=True)],
    "G": lambda sizes: [Case("G", Shape(sizes.of(1_000), 1), node_lost, only_ours=True)],
    "H": lambda sizes: [
        Case("H", Shape(sizes.of(100), 4), without_poison, only_ours=True),
        Case("H", Shape(sizes.of(100), 4), beside_poison, only_ours=True, variant="poisoned"),
    ],
    "I": _among_finished,
}


def competes(case: Case, contestant: str, make: Maker) -> bool:
    """Whether a contestant takes part. A class tells by its methods whether it restarts; of ours it is known."""
    if case.only_ours:
        return contestant == OURS
    restarts = contestant == OURS or (isinstance(make, type) and issubclass(make, Restarting))
    return restarts or case.measure is not restart


@contextmanager
def _prepared(cluster: Cluster, make: Maker, shape: Shape) -> Iterator[tuple[Contestant, Pods]]:
    """A contestant at work, and a watch of its pods, for the block."""
    namespace = cluster.new_namespace("bench")
    contestant = make(cluster)
    try:
        contestant.prepare(namespace, shape)
        cluster.settle()
        with watching.watched(cluster.api.port, namespace, cluster.version(namespace)) as pods:
            yield contestant, pods
    finally:
        contestant.end()


@contextmanager
def _costs(cluster: Cluster, contestant: Contestant) -> Iterator[Measured]:
    """What all processes use and the API server is asked for during the block; told at its end."""
    measured = Measured()
    before, meter = cluster.served(), Meter({**cluster.pids(), **contestant.pids()})
    yield measured
    measured.usage = meter.read()
    measured.requests = requests.writes(requests.difference(cluster.served(), before))


def _slowest_starts(cluster: Cluster, contestant: Contestant, pods: Pods, shape: Shape) -> Measured:
    with _costs(cluster, contestant) as measured:
        began = time.monotonic()
        contestant.submit()
        pods.when_created(shape.pods, PATIENCE_SECONDS)
    ends: dict[str, float] = {}
    for pod, moment in pods.created().items():
        job = pod.rpartition(f"-{names.WORKER_ROLE}-")[0]
        ends[job] = max(ends.get(job, 0.0), moment - began)
    measured.measures["p99_start_s"] = percentile(list(ends.values()), 99)
    return measured


def _restarts(cluster: Cluster, namespace: str, job: str) -> int:
    status = cluster.get(f"{jobs_path(namespace)}/{job}").get("status", {})
    return int(status.get("restarts", 0))


def _sent(contestant: Contestant) -> Requests:
    """What the operator has sent since its start, by its own account; nothing of another contestant."""
    if not isinstance(contestant, Ours):
        return Requests()
    address = f"http://127.0.0.1:{contestant.operator.health_port}/metrics"
    with urllib.request.urlopen(address, timeout=10) as answer:
        return requests.sent(answer.read().decode())
