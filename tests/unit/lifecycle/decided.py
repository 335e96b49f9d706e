"""Decisions in few words: jobs and pods of a test, and what is decided about them, line by line."""

from datetime import datetime

from dtj.api.conditions import ConditionType
from dtj.api.job import DistributedTrainingJob
from dtj.api.reasons import Reason
from dtj.api.spec import ConditionStatus
from dtj.api.status import Condition, JobStatus, Phase
from dtj.lifecycle.decide import decide
from dtj.lifecycle.decision import Decision, render
from dtj.lifecycle.node_loss import LostNodes
from dtj.lifecycle.observe import observe
from dtj.lifecycle.obstacles import Obstacle
from tests.builders import NOW, JobBuilder, PodBuilder, a_job, a_pod, a_service, ago

NEW = a_job().replicas(2).spec(failurePolicy={"maxRestarts": 0})
BEGUN = NEW.begun()


def holding(*kinds: ConditionType, phase: Phase, reason: Reason = Reason.PODS_STARTING) -> JobBuilder:
    conditions = tuple(
        Condition(type=kind, status=ConditionStatus.TRUE, reason=reason, last_transition_time=ago(60)) for kind in kinds
    )
    return NEW.status(
        JobStatus(phase=phase, reason=reason, conditions=conditions, start_time=ago(90), running_time=ago(60))
    )


RUNNING = holding(ConditionType.RUNNING, phase=Phase.RUNNING, reason=Reason.ALL_PODS_RUNNING)
COMPLETE = holding(ConditionType.COMPLETE, phase=Phase.SUCCEEDED)
FAILED = holding(ConditionType.FAILED, phase=Phase.FAILED)


def worker(index: int, *, attempt: int = 0) -> PodBuilder:
    return a_pod(BEGUN.build(), index, attempt=attempt)


def decided(
    job: JobBuilder,
    *pods: PodBuilder,
    service: bool = True,
    obstacle: Obstacle | None = None,
    lost_nodes: LostNodes | None = None,
    now: datetime = NOW,
) -> tuple[DistributedTrainingJob, Decision]:
    built = job.build()
    found = a_service(built) if service else None
    observed = observe(built, [pod.build() for pod in pods], found, obstacle, lost_nodes)
    return built, decide(built, observed, now)


def text(
    job: JobBuilder,
    *pods: PodBuilder,
    service: bool = True,
    obstacle: Obstacle | None = None,
    lost_nodes: LostNodes | None = None,
    now: datetime = NOW,
) -> list[str]:
    """The decision, line by line: status, events, writes."""
    return in_order(decided(job, *pods, service=service, obstacle=obstacle, lost_nodes=lost_nodes, now=now)[1])


def in_order(decision: Decision) -> list[str]:
    """Where events are printed is ``render``'s matter."""
    lines = render(decision).splitlines()
    kinds = ("status:", "event:")
    return sorted(lines, key=lambda line: next((rank for rank, kind in enumerate(kinds) if line.startswith(kind)), 2))


def seen(job: JobBuilder, *pods: PodBuilder, now: datetime = NOW, lost_nodes: LostNodes | None = None) -> JobBuilder:
    """The job after a look at these pods."""
    _, decision = decided(job, *pods, now=now, lost_nodes=lost_nodes)
    return job if decision.status is None else job.status(decision.status)
