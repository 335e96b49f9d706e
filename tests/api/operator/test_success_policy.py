"""Whose success completes a job: the workers and whoever leads them, or those that ``successPolicy`` names."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dtj.api import names
from tests.api.client import Object
from tests.api.fake_kubelet import SCHEDULER, TRAINER, terminated
from tests.api.operator.polling import stays
from tests.api.operator.scene import JOB, NO_RESTARTS, Counters, Scene, counters, worker, workers

pytestmark = pytest.mark.api

SERVICE = f"{JOB}-workers"


def pod(role: str, index: int = 0, *, attempt: int = 0) -> str:
    return names.pod_name(JOB, role, index, attempt)


MASTER = pod("master")
LEARNER = pod("learner")
ACTORS = [pod("actor", index) for index in range(2)]


def role(name: str, replicas: int = 1) -> Object:
    containers = [{"name": "trainer", "image": "dtj/pytorch:dev"}]
    return {
        "name": name,
        "replicas": replicas,
        "template": {"spec": {"schedulerName": SCHEDULER, "containers": containers}},
    }


WITH_MASTER: Mapping[str, Any] = {"spec.roles": [role("master")]}
ACTORS_AND_LEARNER: Mapping[str, Any] = {
    "spec.framework": "Custom",
    "spec.roles": [role("actor", 2), role("learner")],
}


def started(scene: Scene, changes: Mapping[str, Any], *pods: str) -> dict[str, str]:
    scene.submit(changes)
    uids = scene.pods_are(*pods)
    scene.kubelet.run(*pods)
    scene.status_in("Running")
    return uids


def test_a_master_leads_the_gang(scene: Scene) -> None:
    started(scene, WITH_MASTER, MASTER, *workers(2))

    environments = {
        name: {each["name"]: each.get("value") for each in found["spec"]["containers"][0]["env"]}
        for name, found in scene.all_of("pods").items()
    }

    assert {name: own["RANK"] for name, own in environments.items()} == {MASTER: "0", worker(0): "1", worker(1): "2"}
    assert {own["MASTER_ADDR"] for own in environments.values()} == {f"{MASTER}.{SERVICE}"}
    assert {own["WORLD_SIZE"] for own in environments.values()} == {"3"}
    status = scene.status()
    assert status["ready"] == "3/3"
    assert [(each["name"], each["running"]) for each in status["roles"]] == [("master", 1), ("worker", 2)]
    assert status["replicas"] == 2, "those of the scale subresource are workers"


@pytest.mark.parametrize("last", [MASTER, worker(1)], ids=["the master is last", "a worker is last"])
def test_master_and_workers_must_succeed(scene: Scene, last: str) -> None:
    pods = started(scene, WITH_MASTER, MASTER, *workers(2))

    scene.kubelet.succeed(*(pods.keys() - {last}))
    stays("phase and pods", lambda: (scene.status()["phase"], scene.pod_uids()), seconds=1)
    scene.kubelet.succeed(last)

    assert counters(scene.status_in("Succeeded")) == Counters()


def test_a_master_that_fails_takes_the_workers_with_it(scene: Scene) -> None:
    started(scene, WITH_MASTER, MASTER, *workers(2))

    scene.kubelet.fail(MASTER, 3)
    told = scene.status_in("Restarting", "NonZeroExit")["lastFailure"]

    assert (told["role"], told["index"], told["rank"], told["pod"]) == ("master", 0, 0, MASTER)
    scene.pods_are(MASTER, pod("master", attempt=1), *workers(2, attempt=1))


@pytest.mark.parametrize(
    ("roles", "deciding"),
    [(["master"], [MASTER]), (["worker"], workers(2)), (["worker", "master"], [MASTER, *workers(2)])],
    ids=["master", "worker", "both"],
)
def test_the_named_roles_of_pytorch_decide(scene: Scene, roles: list[str], deciding: list[str]) -> None:
    started(scene, {**WITH_MASTER, "spec.successPolicy.roles": roles}, MASTER, *workers(2))

    assert_decided_by(scene, deciding, [MASTER, *workers(2)])


@pytest.mark.parametrize(
    ("roles", "deciding"),
    [(["learner"], [LEARNER]), (["actor"], ACTORS), (["actor", "learner"], [*ACTORS, LEARNER])],
    ids=["one pod", "every pod of a role", "two roles"],
)
def test_the_named_roles_of_custom_decide(scene: Scene, roles: list[str], deciding: list[str]) -> None:
    every = [*ACTORS, LEARNER, *workers(2)]
    started(scene, {**ACTORS_AND_LEARNER, "spec.successPolicy.roles": roles}, *every)

    assert_decided_by(scene, deciding, every)


def assert_decided_by(scene: Scene, deciding: list[str], every: list[str]) -> None:
    """The job ends with the last of the deciding pods; what still runs is then stopped."""
    *others, last = deciding
    scene.kubelet.succeed(*others)
    stays("the phase", lambda: scene.status()["phase"], seconds=1)
    scene.kubelet.succeed(last)

    succeeded = scene.status_in("Succeeded")

    scene.pods_are(*deciding)
    assert set(deciding) <= set(every)
    assert "lastFailure" not in succeeded


def test_without_a_policy_the_workers_decide_for_custom(scene: Scene) -> None:
    started(scene, ACTORS_AND_LEARNER, *ACTORS, LEARNER, *workers(2))

    scene.kubelet.succeed(*workers(2))
    scene.status_in("Succeeded")

    scene.pods_are(*workers(2))


def test_a_role_that_does_not_decide_may_still_break_the_gang(scene: Scene) -> None:
    policy = {**NO_RESTARTS, "spec.successPolicy.roles": ["learner"]}
    started(scene, {**ACTORS_AND_LEARNER, **policy}, *ACTORS, LEARNER, *workers(2))

    scene.kubelet.fail(ACTORS[1], 3)
    failed = scene.status_in("Failed", "NonZeroExit")

    assert (failed["lastFailure"]["role"], failed["lastFailure"]["index"]) == ("actor", 1)


def test_pods_that_end_because_the_work_is_done_are_no_failure(scene: Scene) -> None:
    """The actors lose their learner: what they say of it may be seen before its success."""
    policy = {**NO_RESTARTS, "spec.successPolicy.roles": ["learner"]}
    started(scene, {**ACTORS_AND_LEARNER, **policy}, *ACTORS, LEARNER, *workers(2))

    scene.kubelet.fail(ACTORS[0], 1, "ConnectionResetError: [Errno 104] Connection reset by peer")
    scene.kubelet.succeed(LEARNER)
    succeeded = scene.status_in("Succeeded")

    assert "lastFailure" not in succeeded


def test_a_success_that_was_cleaned_away_still_counts(scene: Scene) -> None:
    started(scene, WITH_MASTER, MASTER, *workers(2))
    before_its_deletion = datetime.now(UTC) - timedelta(seconds=5)
    scene.kubelet.report(worker(0), {TRAINER: terminated(0, at=before_its_deletion)})

    scene.delete("pods", worker(0))
    scene.kubelet.succeed(MASTER, worker(1))

    assert counters(scene.status_in("Succeeded")) == Counters()
