"""A job whose workers fail: the whole gang starts again, held back when that happens in a row, and not for ever."""

from datetime import UTC, datetime, timedelta

import pytest

from dtj.api import labels, names
from tests.api.client import Object
from tests.api.fake_kubelet import TRAINER, waiting
from tests.api.operator.polling import eventually
from tests.api.operator.scene import JOB, Counters, Scene, condition, counters, worker, workers

pytestmark = pytest.mark.api

SECOND_BACKOFF_SECONDS = 10
MORE_THAN_ANY_BACKOFF = timedelta(minutes=9)
PROGRESS = timedelta(minutes=10)
STATUS_PATCH = f"PATCH {names.PLURAL}/status"


def test_the_whole_gang_starts_again_under_names_of_its_own(scene: Scene) -> None:
    before = scene.start(replicas=4)

    scene.kubelet.fail(worker(2), 3, "boom")
    restarting = scene.status_in("Restarting", "NonZeroExit")
    after = scene.pods_are(worker(2), *workers(4, attempt=1))

    assert after[worker(2)] == before[worker(2)], "the one that failed is kept for its logs"
    assert counters(restarting) == Counters(attempt=1, restarts=1, since_progress=1)
    assert condition(restarting, "Running") == "False"
    assert (restarting["lastFailure"]["attempt"], restarting["lastFailure"]["action"]) == (0, "RestartJob")
    pod = scene.read("pods", worker(3, attempt=1))
    environment = {each["name"]: each.get("value") for each in pod["spec"]["containers"][0]["env"]}
    assert environment["MASTER_ADDR"] == f"{worker(0, attempt=1)}.{JOB}-workers"
    assert (pod["spec"]["hostname"], pod["metadata"]["labels"][labels.ATTEMPT]) == (worker(3, attempt=1), "1")


def test_a_restarted_job_runs_and_succeeds(scene: Scene) -> None:
    scene.start()
    scene.kubelet.fail(worker(0), 3)
    running = scene.attempt_runs(1, kept=[worker(0)])

    scene.kubelet.succeed(*workers(2, attempt=1))
    succeeded = scene.status_in("Succeeded")

    assert (running["reason"], running["ready"], condition(running, "Running")) == ("AllPodsRunning", "2/2", "True")
    assert counters(succeeded) == Counters(attempt=1, restarts=1, since_progress=1)
    assert succeeded["lastFailure"]["pod"] == worker(0), "it is still told"
    assert succeeded["runningTime"] <= running["attemptTime"], "when all ran for the first time"
    scene.pods_are(worker(0), *workers(2, attempt=1))


def test_calls_of_a_restart(scene: Scene) -> None:
    scene.start(replicas=3)
    before = len(scene.audit.requests(scene.namespace))

    scene.kubelet.fail(worker(1), 3)
    scene.attempt_runs(1, replicas=3, kept=[worker(1)])
    eventually("the event of that", lambda: scene.event_messages("AllPodsRunning"), lambda told: len(told) == 2)

    calls = [request.kind for request in scene.audit.requests(scene.namespace)[before:]]
    without_events = [call for call in calls if call != "POST events"]
    assert without_events == [STATUS_PATCH, *["DELETE pods"] * 2, *["POST pods"] * 3, STATUS_PATCH]
    assert len(calls) - len(without_events) == 2, "one event for the failure, one for the start"


def test_at_no_moment_are_there_more_pods_than_the_job_asks_for(scene: Scene) -> None:
    scene.start(replicas=4)
    version = scene.client.request("GET", scene.path("pods")).body["metadata"]["resourceVersion"]
    active = dict.fromkeys(workers(4), True)

    scene.kubelet.fail(worker(0), 3)
    scene.attempt_runs(1, replicas=4, kept=[worker(0)])

    counts = set()
    for kind, pod in scene.client.changes_since(scene.path("pods"), version):
        active[pod["metadata"]["name"]] = kind != "DELETED" and is_active(pod)
        counts.add(sum(active.values()))
    assert max(counts) <= 4


def is_active(pod: Object) -> bool:
    """It takes part, or may yet. The phase of one whose containers have ended comes later, from its kubelet."""
    states = [container["state"] for container in pod["status"].get("containerStatuses", ())]
    has_ended = bool(states) and all("terminated" in state for state in states)
    return "deletionTimestamp" not in pod["metadata"] and not has_ended


def test_failures_in_a_row_are_held_back_and_end_the_job(scene: Scene) -> None:
    """The only test that waits for a backoff: it takes its ten seconds."""
    scene.start({"spec.failurePolicy.maxRestarts": 2})
    scene.kubelet.fail(worker(0), 3)
    first = scene.status_in("Restarting")
    scene.attempt_runs(1, kept=[worker(0)])

    scene.kubelet.fail(worker(1, attempt=1), 4)
    held_back = scene.status_in("Restarting")
    assert scene.pods_are(worker(0), worker(1, attempt=1)).keys(), "nothing of the next attempt yet"
    scene.attempt_runs(2, kept=[worker(0), worker(1, attempt=1)])
    created = {pod["metadata"]["creationTimestamp"] for pod in attempt_of(scene, 2)}
    scene.kubelet.fail(worker(0, attempt=2), 5)
    failed = scene.status_in("Failed", "NonZeroExit")

    assert first.get("backoffSeconds", 0) == 0
    assert held_back["backoffSeconds"] == SECOND_BACKOFF_SECONDS
    earliest = datetime.fromisoformat(held_back["attemptTime"]) + timedelta(seconds=SECOND_BACKOFF_SECONDS)
    assert min(map(datetime.fromisoformat, created)) >= earliest
    assert counters(failed) == Counters(attempt=2, restarts=2, since_progress=2)
    assert (failed["lastFailure"]["action"], failed["lastFailure"]["exitCode"]) == ("FailJob", 5)
    message = next(each["message"] for each in failed["conditions"] if each["type"] == "Failed")
    assert "after 2 restarts without progress between (failurePolicy.maxRestarts)" in message
    events = scene.event_messages("NonZeroExit")
    assert any("restarting as attempt 1" in event and "in 10 s" not in event for event in events), events
    assert any("restarting as attempt 2 in 10 s" in event for event in events), events


def attempt_of(scene: Scene, attempt: int) -> list[Object]:
    return [pod for pod in scene.all_of("pods").values() if pod["metadata"]["labels"][labels.ATTEMPT] == str(attempt)]


def test_three_failed_pods_are_kept_for_their_logs(scene: Scene) -> None:
    scene.start({"spec.failurePolicy.maxRestarts": 10})
    kept = [worker(0)]
    for attempt in range(1, 5):
        scene.kubelet.fail(worker(0, attempt=attempt - 1), 3)
        scene.status_of_attempt(attempt)
        scene.let_pass(MORE_THAN_ANY_BACKOFF)
        scene.attempt_runs(attempt, kept=kept)
        kept = [*kept, worker(0, attempt=attempt)][-3:]

    scene.kubelet.fail(worker(0, attempt=4), 3)
    scene.status_in("Restarting")

    scene.pods_are(*[worker(0, attempt=attempt) for attempt in (2, 3, 4)])


def test_only_restarts_without_progress_between_count(scene: Scene) -> None:
    scene.start({"spec.failurePolicy.maxRestarts": 1})
    for attempt in range(1, 4):
        scene.let_pass(PROGRESS)
        scene.kubelet.fail(worker(0, attempt=attempt - 1), 3)
        restarting = scene.status_in("Restarting")
        assert counters(restarting) == Counters(attempt=attempt, restarts=attempt, since_progress=1)
        assert restarting.get("backoffSeconds", 0) == 0
        scene.attempt_runs(attempt, kept=[worker(0, attempt=number) for number in range(attempt)])

    scene.kubelet.fail(worker(0, attempt=3), 3)
    failed = scene.status_in("Failed")

    assert counters(failed) == Counters(attempt=3, restarts=3, since_progress=1)


def test_more_restarts_may_be_allowed_while_the_job_runs(scene: Scene) -> None:
    scene.start({"spec.failurePolicy.maxRestarts": 0})

    scene.change({"failurePolicy": {"maxRestarts": 1}})
    scene.kubelet.fail(worker(0), 3)

    scene.attempt_runs(1, kept=[worker(0)])


def test_an_init_container_that_fails_again_and_again_is_held_back(scene: Scene) -> None:
    scene.submit({"spec.template.spec.initContainers": [{"name": "fetch", "image": "example.com/fetch:1"}]})
    backoffs = []
    for attempt in range(3):
        if attempt:
            scene.let_pass(MORE_THAN_ANY_BACKOFF)
        kept = [worker(1, attempt=number) for number in range(attempt)]
        scene.pods_are(*kept, *workers(2, attempt=attempt))
        scene.kubelet.fail_at_init(worker(1, attempt=attempt), 6, "no such bucket")
        restarting = scene.status_of_attempt(attempt + 1)
        backoffs.append(restarting.get("backoffSeconds", 0))

    assert backoffs == [0, 10, 20]
    assert restarting["lastFailure"]["container"] == "fetch"
    assert restarting["lastFailure"]["exitCode"] == 6


def test_all_succeeded_counts_more_than_what_happens_to_their_pods(scene: Scene) -> None:
    scene.start()
    scene.kubelet.succeed(*workers(2))

    scene.delete("pods", worker(0))
    succeeded = scene.status_in("Succeeded")

    assert counters(succeeded) == Counters()


def test_a_worker_that_succeeded_starts_again_with_the_others(scene: Scene) -> None:
    scene.start()
    scene.kubelet.succeed(worker(0))

    scene.kubelet.fail(worker(1), 3)
    scene.attempt_runs(1, kept=[worker(1)])

    assert counters(scene.status()) == Counters(attempt=1, restarts=1, since_progress=1)


@pytest.mark.parametrize("reason", ["InvalidImageName", "CreateContainerConfigError", "ErrImageNeverPull"])
def test_what_does_not_heal_by_itself_is_told_as_a_failure_and_restarts_nothing(scene: Scene, reason: str) -> None:
    scene.submit()
    pods = scene.pods_are(*workers(2))
    scene.kubelet.report(worker(0), {TRAINER: waiting(reason, "couldn't find key token in Secret")})
    scene.kubelet.run(worker(1))

    told = scene.status_in("Pending", reason)["lastFailure"]

    assert (told["class"], told["reason"], told["pod"], told["rank"]) == ("Configuration", reason, worker(0), 0)
    assert "action" not in told
    scene.kubelet.run(worker(0))
    scene.status_in("Running")
    assert scene.pod_uids() == pods
    assert counters(scene.status()) == Counters()


def test_time_of_the_next_attempt_is_after_the_failure(scene: Scene) -> None:
    scene.start()
    before = datetime.now(UTC).replace(microsecond=0)

    scene.kubelet.fail(worker(0), 3)
    restarting = scene.status_in("Restarting")

    assert datetime.fromisoformat(restarting["attemptTime"]) >= before
