"""What a job may cost the API server, counted and not timed: these numbers hold on a machine of any speed.

The first job of a namespace, which also brings the agent's ConfigMap, is counted in test_success.py, a restart in
test_restarts.py.
"""

import urllib.request
from collections import Counter

import pytest

from dtj.api import names
from tests.api.operator.polling import eventually, stays
from tests.api.operator.process import Operator
from tests.api.operator.scene import JOB, NO_RESTARTS, Scene, a_job, worker

pytestmark = pytest.mark.api

WORKERS = 4
STATUS = f"PATCH {names.PLURAL}/status"
MOST_EVENTS = 4
QUIET_SECONDS = 60.0
"""Longer than any wait of the operator but the resync: that only reads, and what a look at every job writes is counted
in test_interruptions.py. Nobody is asked for progress here; what a pod says has tests of its own."""

LOOKS = 'controller_runtime_reconcile_total{controller="distributedtrainingjob",'
TIMEOUT = 10.0

LAST_EVENTS = {"NonZeroExit", "Succeeded", "JobSuspended", "Unschedulable"}


def run(scene: Scene, job: str, replicas: int = 2) -> list[str]:
    """Submit a job of that name and let its pods run; their names."""
    scene.create(names.PLURAL, a_job({"metadata.name": job}, replicas=replicas))
    pods = [worker(index, job) for index in range(replicas)]
    eventually(f"pods of {job}", scene.pod_uids, lambda now: now.keys() >= set(pods))
    scene.kubelet.run(*pods)
    scene.status_in("Running", job=job)
    return pods


def reads(scene: Scene) -> list[str]:
    return [request.kind for request in scene.audit.requests(scene.namespace) if not request.is_write]


def test_from_creation_to_complete(scene: Scene) -> None:
    scene.start()
    before, read = scene.audit.writes(scene.namespace), reads(scene)

    scene.kubelet.succeed(*run(scene, "next", WORKERS))
    scene.status_in("Succeeded", job="next")
    writes = scene.audit.writes(scene.namespace) - before

    assert writes.pop("POST events", 0) in range(1, MOST_EVENTS + 1)
    assert writes == {"POST services": 1, "POST pods": WORKERS, STATUS: 3}
    assert writes.total() == WORKERS + 4
    assert reads(scene) == read


def looks(operator: Operator) -> float:
    """How often the operator has looked at a job since it started."""
    with urllib.request.urlopen(f"http://127.0.0.1:{operator.health_port}/metrics", timeout=TIMEOUT) as answer:
        page = answer.read().decode()
    return sum(float(line.rpartition(" ")[2]) for line in page.splitlines() if line.startswith(LOOKS))


def test_many_pods_are_not_looked_at_one_by_one(scene: Scene, operator: Operator) -> None:
    """Each of them is created, placed and begins to run: three changes."""
    before = looks(operator)

    run(scene, "large", 40)

    assert 0 < looks(operator) - before < 40


def test_jobs_in_every_state_cost_nothing_while_nothing_happens(scene: Scene) -> None:
    scene.start(NO_RESTARTS)
    scene.kubelet.fail(worker(0), 3)
    succeeded, running = run(scene, "succeeded"), run(scene, "running")
    scene.kubelet.succeed(*succeeded)
    run(scene, "suspended")
    scene.change({"suspend": True}, "suspended")
    scene.create(names.PLURAL, a_job({"metadata.name": "waiting"}))
    waits = [worker(index, "waiting") for index in range(2)]
    scene.pods_are(worker(0), *succeeded, *running, *waits)
    scene.kubelet.refuse_to_place(waits[0], "0/2 nodes are available: 2 Insufficient nvidia.com/gpu.")
    states = {JOB: "Failed", "succeeded": "Succeeded", "suspended": "Suspended", "waiting": "Pending"}
    for job, phase in states.items():
        scene.status_in(phase, job=job)
    for job in (JOB, "suspended"):
        scene.status_where("its pods do not count any more", lambda status: not status.get("replicas"), job=job)
    eventually("all is told", lambda: set(scene.event_reasons()), lambda told: told >= LAST_EVENTS)

    requests = stays("the operator's requests", lambda: count(scene), seconds=QUIET_SECONDS)

    assert requests["POST pods"] == 5 * 2


def count(scene: Scene) -> Counter[str]:
    return Counter(request.kind for request in scene.audit.requests(scene.namespace))
