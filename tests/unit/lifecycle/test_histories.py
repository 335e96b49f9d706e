"""Histories that broke a law once, told again in every run: the random ones of ``test_job_life`` find each but now and
then.
"""

from collections.abc import Callable

import pytest

from dtj.api.status import Phase
from tests.builders import a_job
from tests.unit.lifecycle.test_job_life import JobLife, template

WITH_ACTORS = a_job().framework("Custom").role("actor", 2)


def a_finished_job_is_looked_at_as_it_was(life: JobLife) -> None:
    life.submit(a_job().spec(cleanupPolicy="All", failurePolicy={"maxRestarts": 0}))
    life.the_operator_looks()
    life.a_pod_fails(0, 1, "boom")
    life.the_operator_looks()
    life.deleted_pods_go()
    life.another_operator_takes_over(1, True, set())
    assert not life.cluster.pods


def a_resumed_job_is_looked_at_as_it_was_suspended(life: JobLife) -> None:
    life.submit(a_job().spec(suspend=True))
    life.the_operator_looks()
    life.suspend_or_resume(False)
    life.the_operator_looks()
    life.another_operator_takes_over(2, True, set())
    assert list(life.cluster.active())


def a_mended_job_is_looked_at_as_it_was_refused(life: JobLife) -> None:
    life.submit(a_job().spec(template=template(volumes=[{"name": "dtj-shm", "emptyDir": {}}])))
    life.the_operator_looks()
    life.suspend_change_and_resume_at_once(0, 1)
    life.the_operator_looks()
    life.another_operator_takes_over(3, True, set())
    assert list(life.cluster.active())


def a_pod_ends_at_a_time_that_nobody_knows(life: JobLife) -> None:
    life.submit(WITH_ACTORS)
    life.all_goes_well()
    life.cluster.give_up("digits-actor-0", "Evicted")
    life.all_goes_well()
    assert life.cluster.status.disruptions == 1


def a_pod_that_does_not_decide_goes_without_a_trace(life: JobLife) -> None:
    life.submit(WITH_ACTORS.spec(successPolicy={"roles": ["actor"]}))
    life.all_goes_well()
    life.cluster.vanish("digits-worker-0")
    life.all_goes_well()
    assert life.cluster.status.disruptions == 1


def all_run_before_the_deadline_and_nobody_looks(life: JobLife) -> None:
    life.submit(a_job().replicas(2).spec(startupDeadlineSeconds=5))
    life.the_operator_looks()
    life.all_pods_run("node-1")
    life.time_passes(60)
    life.the_operator_looks()
    assert (life.cluster.status.phase, life.cluster.status.attempt) == (Phase.RUNNING, 0)


def a_gang_starts_under_a_clock_that_is_ahead(life: JobLife) -> None:
    life.submit(a_job().replicas(2).spec(startupDeadlineSeconds=5))
    life.the_operators_clock_is_set(3600)
    life.all_goes_well()
    assert life.cluster.status.attempt == 0


def a_restart_is_finished_by_somebody_who_has_not_heard_of_all_pods(life: JobLife) -> None:
    life.submit(a_job().replicas(2))
    life.all_goes_well()
    life.cluster.end("digits-worker-0", 1, "boom")
    life.the_operator_looks_and_is_killed(calls=1)
    life.another_operator_takes_over(0, True, {1})


def a_restart_is_begun_by_somebody_who_has_not_heard_of_all_pods(life: JobLife) -> None:
    life.submit(a_job().replicas(2))
    life.the_operator_looks()
    life.cluster.end("digits-worker-0", 1, "boom")
    life.another_operator_takes_over(0, True, {1})


def a_mistake_is_taken_back_while_the_pods_go(life: JobLife) -> None:
    life.submit(a_job().replicas(2))
    life.all_goes_well()
    life.suspend_change_and_resume_at_once(index=3, replicas=2)
    life.the_operator_looks()
    life.suspend_change_and_resume_at_once(index=0, replicas=2)
    life.all_goes_well()
    status = life.cluster.status
    assert (status.attempt, status.restarts, status.disruptions) == (1, 0, 0)


def a_restarted_gang_waits_for_its_image(life: JobLife) -> None:
    life.submit(a_job())
    life.all_goes_well()
    life.cluster.end("digits-worker-0", 1, "boom")
    life.the_operator_looks()
    life.cluster.waits("digits-worker-0-r1", "InvalidImageName")
    life.the_operator_looks()
    life.all_goes_well()
    failure = life.cluster.status.last_failure
    assert failure is not None
    assert failure.pod == "digits-worker-0"


HISTORIES = (
    a_finished_job_is_looked_at_as_it_was,
    a_resumed_job_is_looked_at_as_it_was_suspended,
    a_mended_job_is_looked_at_as_it_was_refused,
    a_pod_ends_at_a_time_that_nobody_knows,
    a_pod_that_does_not_decide_goes_without_a_trace,
    all_run_before_the_deadline_and_nobody_looks,
    a_gang_starts_under_a_clock_that_is_ahead,
    a_restart_is_finished_by_somebody_who_has_not_heard_of_all_pods,
    a_restart_is_begun_by_somebody_who_has_not_heard_of_all_pods,
    a_mistake_is_taken_back_while_the_pods_go,
    a_restarted_gang_waits_for_its_image,
)


@pytest.mark.parametrize("history", HISTORIES, ids=[history.__name__ for history in HISTORIES])
def test_history(history: Callable[[JobLife], None]) -> None:
    life = JobLife()
    history(life)
    life.all_goes_well()
    life.a_step_was_taken()
