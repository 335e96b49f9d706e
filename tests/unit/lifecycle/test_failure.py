"""Which failure came first, what kind it is, and what is told of it."""

from datetime import timedelta

import pytest
from hypothesis import given

from dtj.api.reasons import Reason
from dtj.api.spec import RuleAction
from dtj.api.status import MAX_LAST_LINES, MAX_MESSAGE, FailureClass, JobStatus, LastFailure
from dtj.lifecycle.children import ContainerTerminated, Pod
from dtj.lifecycle.failure import SETTLING, candidate_of, describe, root_cause, settling_time, signal_of
from dtj.plan.topology import topology_of
from tests.builders import NOW, PodBuilder, a_job, a_pod, ago
from tests.unit.lifecycle.pods import any_pod

JOB = a_job().replicas(4).begun().build()
POD = a_pod(JOB)
TOPOLOGY = topology_of(JOB.spec)

APPLICATION, DISRUPTION = FailureClass.APPLICATION, FailureClass.DISRUPTION
KINDS: dict[str, tuple[PodBuilder, Reason, FailureClass, str]] = {
    "an exit code": (POD.failed(3), Reason.NON_ZERO_EXIT, APPLICATION, "container trainer ended with exit code 3"),
    "its last words": (
        POD.failed(1, lines="Traceback\nValueError: no such file\n\n"),
        Reason.NON_ZERO_EXIT,
        APPLICATION,
        "container trainer ended with exit code 1: ValueError: no such file",
    ),
    "a signal as the shell reports it": (
        POD.failed(139),
        Reason.KILLED_BY_SIGNAL,
        APPLICATION,
        "container trainer ended with signal 11",
    ),
    "a signal as the runtime reports it": (
        POD.failed(2, signal=9),
        Reason.KILLED_BY_SIGNAL,
        APPLICATION,
        "container trainer ended with signal 9",
    ),
    "137 alone proves nothing": (
        POD.failed(137),
        Reason.KILLED_BY_SIGNAL,
        APPLICATION,
        "container trainer ended with signal 9",
    ),
    "the kernel was out of memory": (
        POD.failed(137, reason="OOMKilled"),
        Reason.OOM_KILLED,
        FailureClass.OUT_OF_MEMORY,
        "container trainer ended with signal 9, out of memory",
    ),
    "an exit code beyond all signals": (
        POD.failed(255),
        Reason.NON_ZERO_EXIT,
        APPLICATION,
        "container trainer ended with exit code 255",
    ),
    "the command does not exist": (
        POD.failed(128, reason="StartError", lines="exec: torchrunn: not found"),
        Reason.CONTAINER_CANNOT_RUN,
        FailureClass.CONFIGURATION,
        "container trainer ended with exit code 128: exec: torchrunn: not found",
    ),
    "the agent finds no command": (
        POD.failed(127, lines="dtj-agent: torchrunn: not found"),
        Reason.CONTAINER_CANNOT_RUN,
        FailureClass.CONFIGURATION,
        "container trainer ended with exit code 127: dtj-agent: torchrunn: not found",
    ),
    "a script finds no command": (
        POD.failed(127, lines="train.sh: 3: torchrunn: not found"),
        Reason.NON_ZERO_EXIT,
        FailureClass.APPLICATION,
        "container trainer ended with exit code 127: train.sh: 3: torchrunn: not found",
    ),
    "the container cannot run": (
        POD.failed(127, reason="ContainerCannotRun"),
        Reason.CONTAINER_CANNOT_RUN,
        FailureClass.CONFIGURATION,
        "container trainer ended with exit code 127",
    ),
    "evicted by the kubelet": (
        POD.pod_failed("Evicted", "The node was low on resource: memory."),
        Reason.EVICTED,
        DISRUPTION,
        "The node was low on resource: memory.",
    ),
    "evicted, and its container was killed": (
        POD.failed(137).pod_failed("Evicted", "low on memory"),
        Reason.EVICTED,
        DISRUPTION,
        "low on memory",
    ),
    "preempted by the kubelet": (POD.pod_failed("Preempting", "x"), Reason.PREEMPTED, DISRUPTION, "x"),
    "its node is lost": (POD.pod_failed("NodeLost", "x"), Reason.NODE_LOST, DISRUPTION, "x"),
    "its node shut down": (POD.pod_failed("Terminated", "x"), Reason.EVICTED, DISRUPTION, "x"),
    "preempted by the scheduler": (
        POD.failed(143).condition("DisruptionTarget", "True", "PreemptionByScheduler", "preempted by another"),
        Reason.PREEMPTED,
        DISRUPTION,
        "preempted by another",
    ),
    "drained": (
        POD.failed(143).being_deleted().condition("DisruptionTarget", "True", "EvictionByEvictionAPI", "drain"),
        Reason.EVICTED,
        DISRUPTION,
        "drain",
    ),
    "its node is gone for good": (
        POD.pod_failed().condition("DisruptionTarget", "True", "DeletionByPodGC", "orphan"),
        Reason.NODE_LOST,
        DISRUPTION,
        "orphan",
    ),
    "a disruption of a kind not known yet": (
        POD.failed(1).condition("DisruptionTarget", "True", "SolarFlare", "hot"),
        Reason.EVICTED,
        DISRUPTION,
        "hot",
    ),
    "a disruption that did not happen": (
        POD.failed(1).condition("DisruptionTarget", "False", "PreemptionByScheduler"),
        Reason.NON_ZERO_EXIT,
        APPLICATION,
        "container trainer ended with exit code 1",
    ),
    "deleted by somebody": (
        POD.running().being_deleted(),
        Reason.POD_DELETED,
        DISRUPTION,
        "pod digits-worker-0 was deleted by somebody else while its job was running",
    ),
    "an init container failed": (
        POD.in_phase("Failed").waiting("PodInitializing").init_ended(4, lines="no data"),
        Reason.NON_ZERO_EXIT,
        APPLICATION,
        "container prepare ended with exit code 4: no data",
    ),
    "the trainer, not the sidecar that was killed after it": (
        POD.failed(3).ended(137, container="a-sidecar"),
        Reason.NON_ZERO_EXIT,
        APPLICATION,
        "container trainer ended with exit code 3",
    ),
    "no container says why, the pod does": (
        POD.pod_failed("UnexpectedAdmissionError", "Allocate failed: no devices"),
        Reason.POD_FAILED,
        FailureClass.INFRASTRUCTURE,
        "Allocate failed: no devices",
    ),
    "the pod has a word for it": (
        POD.pod_failed("DeadlineExceeded"),
        Reason.POD_FAILED,
        FailureClass.INFRASTRUCTURE,
        "DeadlineExceeded",
    ),
    "nobody says why": (
        POD.pod_failed(),
        Reason.POD_FAILED,
        FailureClass.INFRASTRUCTURE,
        "the pod failed and no container says why",
    ),
}


@pytest.mark.parametrize(("pod", "reason", "kind", "message"), KINDS.values(), ids=KINDS.keys())
def test_kind_of_failure(pod: PodBuilder, reason: Reason, kind: FailureClass, message: str) -> None:
    cause = candidate_of(pod.build(), NOW)

    assert (cause.reason, cause.failure_class, cause.message) == (reason, kind, message)


LOST_PEER = "RuntimeError: [gloo/transport/tcp/pair.cc:544] Connection closed by peer [10.0.0.2]:3456"


def worker(index: int) -> PodBuilder:
    return a_pod(JOB, index)


CAUSES: dict[str, tuple[list[PodBuilder], int]] = {
    "the only one": ([worker(2).failed(1)], 2),
    "the first by its own time": ([worker(0).failed(1, at=ago(10)), worker(1).failed(3, at=ago(20))], 1),
    "about the same time: not the one that lost a peer": (
        [worker(0).failed(1, lines=LOST_PEER, at=ago(11)), worker(1).failed(3, lines="ValueError", at=ago(10))],
        1,
    ),
    "a lost peer long before another failure is the cause": (
        [worker(0).failed(1, lines=LOST_PEER, at=ago(30)), worker(1).failed(3, at=ago(10))],
        0,
    ),
    "all lost a peer: the first": (
        [worker(0).failed(1, lines=LOST_PEER, at=ago(10)), worker(1).failed(1, lines=LOST_PEER, at=ago(11))],
        1,
    ),
    "a tie goes to the lowest": ([worker(0).failed(1), worker(1).failed(3)], 0),
    "NCCL's watchdog aborts the others": (
        [
            worker(0).failed(134, lines="[PG 0] Watchdog caught collective operation timeout", at=ago(10)),
            worker(1).failed(137, reason="OOMKilled", at=ago(10)),
        ],
        1,
    ),
    "a segmentation fault that speaks of NCCL is a cause": (
        [worker(0).failed(139, lines="NCCL INFO", at=ago(10)), worker(1).failed(1, lines=LOST_PEER, at=ago(11))],
        0,
    ),
    "an eviction that speaks of a lost peer is a cause": (
        [
            worker(0).failed(1, lines=LOST_PEER, at=ago(10)),
            worker(1).failed(1, lines=LOST_PEER, at=ago(9)).pod_failed("Evicted", "low on memory"),
        ],
        1,
    ),
    "no time: it was now": ([worker(0).failed(1, at=None), worker(1).failed(3, at=ago(5))], 1),
    "a deleted pod and those that missed it": (
        [worker(0).failed(1, lines=LOST_PEER, at=ago(1)), worker(1).running().being_deleted()],
        1,
    ),
}


@pytest.mark.parametrize(("pods", "index"), CAUSES.values(), ids=CAUSES.keys())
def test_root_cause(pods: list[PodBuilder], index: int) -> None:
    assert root_cause([candidate_of(pod.build(), NOW) for pod in pods]).pod.index == index


@pytest.mark.parametrize(
    "line",
    [
        LOST_PEER,
        "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:1970",
        "torch.distributed.DistNetworkError: The client socket has failed to connect",
        "torch.distributed.DistStoreError: wait timeout",
        "ConnectionResetError: [Errno 104] Connection reset by peer",
        "BrokenPipeError: [Errno 32] Broken pipe",
        "horovod.common.exceptions.HorovodInternalError: Horovod has been shut down",
        "tensorflow.python.framework.errors_impl.UnavailableError: failed to connect",
    ],
)
def test_these_words_tell_of_a_lost_peer(line: str) -> None:
    assert candidate_of(POD.failed(1, lines=f"Traceback\n{line}\n").build(), NOW).may_be_consequence


@pytest.mark.parametrize(
    "line", ["ValueError: bad shape", "FileNotFoundError: /data/train", "CUDA out of memory", "KeyboardInterrupt", ""]
)
def test_these_words_tell_of_a_cause(line: str) -> None:
    assert not candidate_of(POD.failed(1, lines=line).build(), NOW).may_be_consequence


SETTLING_TIMES: dict[str, tuple[PodBuilder, float]] = {
    "a lost peer just now: its cause may still show": (POD.failed(1, lines=LOST_PEER), 3),
    "a lost peer a second ago": (POD.failed(1, lines=LOST_PEER, at=ago(1)), 2),
    "a lost peer long ago": (POD.failed(1, lines=LOST_PEER, at=ago(3)), 0),
    "a lost peer on a node whose clock is a little ahead": (POD.failed(1, lines=LOST_PEER, at=ago(-1)), 3),
    "a lost peer on a node whose clock is far ahead": (POD.failed(1, lines=LOST_PEER, at=ago(-5)), 0),
}


@pytest.mark.parametrize(("pod", "seconds"), SETTLING_TIMES.values(), ids=SETTLING_TIMES.keys())
def test_settling_time(pod: PodBuilder, seconds: float) -> None:
    assert settling_time(candidate_of(pod.build(), NOW), NOW) == timedelta(seconds=seconds)


@given(any_pod(JOB))
def test_settling_is_bounded(pod: Pod) -> None:
    assert timedelta(0) <= settling_time(candidate_of(pod, NOW), NOW) <= SETTLING


SIGNALS = {
    (0, 0): 0,
    (1, 0): 0,
    (128, 0): 0,
    (129, 0): 1,
    (137, 0): 9,
    (143, 0): 15,
    (192, 0): 64,
    (193, 0): 0,
    (1, 6): 6,
}


@pytest.mark.parametrize(("ended", "signal"), SIGNALS.items())
def test_signal(ended: tuple[int, int], signal: int) -> None:
    assert signal_of(ContainerTerminated(exit_code=ended[0], signal=ended[1])) == signal


def told(pod: PodBuilder) -> LastFailure:
    return describe(candidate_of(pod.build(), NOW), TOPOLOGY, 0, RuleAction.FAIL_JOB)


def test_the_record_says_who_where_and_why() -> None:
    failure = told(worker(2).on("node-7").failed(139, lines="a\nSegmentation fault", at=ago(7)))

    assert failure.to_wire() == {
        "attempt": 0,
        "time": "2030-01-02T11:59:53Z",
        "class": "Application",
        "reason": "KilledBySignal",
        "message": "container trainer ended with signal 11: Segmentation fault",
        "role": "worker",
        "index": 2,
        "rank": 2,
        "pod": "digits-worker-2",
        "node": "node-7",
        "container": "trainer",
        "exitCode": 139,
        "signal": 11,
        "lastLines": ["a", "Segmentation fault"],
        "action": "FailJob",
    }


def test_a_pod_that_never_ran_has_no_end() -> None:
    failure = told(worker(1).pod_failed("Evicted", "x" * 5_000).unschedulable())

    assert (failure.node, failure.container, failure.exit_code, failure.signal, failure.last_lines) == (None,) * 5
    assert failure.message == "x" * MAX_MESSAGE


def test_a_pod_whose_labels_were_tampered_with_is_told_without_its_place() -> None:
    failure = told(POD.labelled(ROLE="No_Role", INDEX="x").failed(3))

    assert (failure.role, failure.index, failure.rank, failure.pod) == (None, None, None, "digits-worker-0")


@pytest.mark.parametrize(("exit_code", "signal"), [(-1, 0), (-(2**31), 0), (1, 200), (1, -3)])
def test_numbers_that_no_process_ends_with_are_left_out(exit_code: int, signal: int) -> None:
    failure = told(POD.failed(exit_code, signal=signal))

    assert failure.signal is None
    assert failure.exit_code == (exit_code if exit_code > 0 else None)


@given(any_pod(JOB))
def test_the_record_of_any_pod_fits_the_status(pod: Pod) -> None:
    failure = describe(candidate_of(pod, NOW), TOPOLOGY, 0, RuleAction.FAIL_JOB)
    status = JobStatus(last_failure=failure)

    assert JobStatus.model_validate(status.to_wire()) == status
    assert len(failure.last_lines or ()) <= MAX_LAST_LINES
