"""What is kept of a job beside the caches, and for how long."""

from dtj.controller.memory import Memory
from dtj.lifecycle.children import Pod
from tests.builders import NOW, a_job, a_pod

JOB = a_job().replicas(2).build()


def pod(attempt: int, index: int = 0) -> Pod:
    return a_pod(JOB, index, attempt=attempt).succeeded().build()


def test_pods_of_earlier_attempts_are_not_kept() -> None:
    """Nobody asks for them, and a process that only stands by would keep them for as long as the job exists."""
    memory = Memory()
    for attempt in range(50):
        for index in range(2):
            memory.remember(pod(attempt, index), NOW)
    memory.remember(pod(3), NOW)

    assert sorted(memory._removed) == [pod(3).name, pod(49).name, pod(49, 1).name]
