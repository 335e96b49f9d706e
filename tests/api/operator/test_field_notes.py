"""What went wrong for users of other operators of this kind, and which test shows that it does not happen here.

Each row of ``ROWS`` is a mistake with the reports of it. What no other module tests stands here.
"""

import ast
from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from dtj.api import names
from tests.api.operator.polling import eventually, stays
from tests.api.operator.scene import JOB, Counters, Scene, counters, worker, workers
from tests.api.resource import REPOSITORY

pytestmark = pytest.mark.api

API = "tests/api"
OPERATOR = "tests/api/operator"
KUBE = "tests/unit/kube"


class Row(NamedTuple):
    reports: str
    tests: tuple[str, ...]


ROWS: dict[str, Row] = {
    "a finished job ran again after its pods or its Service were deleted": Row(
        "kubeflow/trainer #2981 #2991, training-operator #1186 #1997",
        (f"{OPERATOR}/test_failure.py::test_a_finished_job_stays_finished_when_its_children_are_deleted",),
    ),
    "a finished job ran again because of its TTL": Row(
        "kubeflow/trainer #3737 #3779",
        (
            f"{OPERATOR}/test_field_notes.py::test_a_job_that_its_ttl_deletes_never_runs_again",
            f"{OPERATOR}/test_deadlines.py::test_a_finished_job_is_deleted_in_time",
        ),
    ),
    "the restarts were forgotten when the operator was restarted": Row(
        "kubeflow/training-operator #2342",
        (
            f"{OPERATOR}/test_restart_interrupted.py::test_killed_before_each_of_several_failures",
            f"{OPERATOR}/test_restart_interrupted.py::test_killed_in_a_restart",
        ),
    ),
    "only the failed pod came back, and the others hung in a collective": Row(
        "kubeflow/training-operator #2269, trainer #2000",
        (f"{OPERATOR}/test_restarts.py::test_the_whole_gang_starts_again_under_names_of_its_own",),
    ),
    "a lost node hung the job for ever": Row(
        "kubeflow/trainer #2072 #2185",
        (
            f"{OPERATOR}/test_node_loss.py::test_the_job_leaves_a_lost_node",
            f"{OPERATOR}/test_node_loss.py::test_a_node_lost_while_the_operator_was_away",
        ),
    ),
    "a lost head node left the job Running and its GPUs taken": Row(
        "ray-project/kuberay #3860 #3903 #1489",
        (f"{OPERATOR}/test_node_loss.py::test_the_node_of_rank_0_is_a_node_like_any_other",),
    ),
    "a resumed job was still shown as Suspended": Row(
        "kubeflow/trainer #3666",
        (f"{OPERATOR}/test_suspension.py::test_the_phase_after_resuming_is_that_of_the_pods",),
    ),
    "the wiring was missing where an optional block was left out": Row(
        "kubeflow/trainer #4076, PR #3974",
        (
            f"{OPERATOR}/test_field_notes.py::test_wiring_needs_no_optional_field",
            f"{OPERATOR}/test_success.py::test_children_of_a_job",
        ),
    ),
    "errors stood in events only": Row(
        "kubeflow/trainer #3671",
        (
            f"{OPERATOR}/test_failure.py::test_last_failure",
            f"{OPERATOR}/test_waiting.py::test_status_says_why",
            f"{OPERATOR}/test_restarts.py::test_what_does_not_heal_by_itself_is_told_as_a_failure_and_restarts_nothing",
        ),
    ),
    "a watch of all Secrets and ConfigMaps of the cluster took the memory": Row(
        "kubeflow/trainer #3374",
        (f"{API}/chart/test_rights.py::test_in_all_namespaces",),
    ),
    "finished jobs kept the operator busy at its start": Row(
        "kubeflow/trainer #965, mpi-operator #49",
        (f"{OPERATOR}/test_interruptions.py::test_a_restart_writes_nothing_for_jobs_that_are_fine",),
    ),
    "a webhook that was not there yet refused other objects": Row(
        "kubeflow/trainer #3650 #3655 #2717, jobset #361, Volcano's tuning guide",
        (f"{API}/chart/test_server.py::test_it_takes_every_object",),
    ),
    "the names of pods that were not ready did not resolve": Row(
        "kubeflow/pytorch-operator #125 #333 #348 #352, trainer #2034 #1482",
        (f"{OPERATOR}/test_success.py::test_children_of_a_job",),
    ),
    "a sidecar that never ends kept the job from completing": Row(
        "kubeflow/trainer #1681, mpi-operator #407 #281",
        (f"{OPERATOR}/test_cleanup.py::test_a_sidecar_that_never_ends_does_not_keep_the_job_running",),
    ),
    "an old failed pod and a new one of the same rank waited for each other": Row(
        "kubernetes-sigs/jobset #1276",
        (
            f"{OPERATOR}/test_restarts.py::test_the_whole_gang_starts_again_under_names_of_its_own",
            f"{OPERATOR}/test_node_loss.py::test_a_lost_node_that_is_heard_of_again_disturbs_nobody",
        ),
    ),
    "generated names were too long, and silently there were no pods": Row(
        "kubernetes-sigs/jobset #302",
        (
            f"{API}/test_resource_refused.py::test_mistake_is_refused",
            f"{API}/test_resource_refused.py::test_wrong_roles_are_refused",
        ),
    ),
    "a Service of the same name was taken for the job's own": Row(
        "kubernetes-sigs/jobset, its source",
        (f"{OPERATOR}/test_obstacles.py::test_a_name_that_somebody_else_holds",),
    ),
    "a restart of the operator restarted what it manages": Row(
        "kubernetes-sigs/lws #225",
        (
            f"{OPERATOR}/test_interruptions.py::test_killed_again_and_again",
            f"{OPERATOR}/test_interruptions.py::test_a_restart_writes_nothing_for_jobs_that_are_fine",
        ),
    ),
    "an init container that failed was deleted and created without a pause": Row(
        "ray-project/kuberay #4637",
        (f"{OPERATOR}/test_restarts.py::test_an_init_container_that_fails_again_and_again_is_held_back",),
    ),
    "the pods of a gang were started again one by one": Row(
        "DLRover #1690",
        (
            f"{OPERATOR}/test_field_notes.py::test_the_pods_of_a_restart_are_created_all_at_once",
            f"{KUBE}/test_children.py::test_so_many_writes_are_under_way_at_the_same_time",
        ),
    ),
    "one pending worker held the others' nodes, and then all failed": Row(
        "DLRover #1175",
        (
            f"{OPERATOR}/test_deadlines.py::test_half_a_gang_is_given_back",
            f"{OPERATOR}/test_obstacles.py::test_half_a_gang_that_a_quota_lets_through_is_given_back",
        ),
    ),
    "a job could not be deleted and created again under its name": Row(
        "volcano-sh/volcano #2044",
        (
            f"{OPERATOR}/test_deletion.py::test_a_job_of_the_same_name_gets_pods_of_its_own",
            f"{OPERATOR}/test_interruptions.py::test_a_job_deleted_and_created_again_meanwhile",
        ),
    ),
    "old and new pods together held more quota than the job asks for": Row(
        "kubernetes-sigs/kueue #14811",
        (f"{OPERATOR}/test_restarts.py::test_at_no_moment_are_there_more_pods_than_the_job_asks_for",),
    ),
}


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS.keys())
def test_every_row_has_its_tests(row: Row) -> None:
    for test in row.tests:
        path, _, name = test.partition("::")
        assert name in _tests_in(REPOSITORY / path), test


@cache
def _tests_in(path: Path) -> frozenset[str]:
    return frozenset(_functions(ast.parse(path.read_text(encoding="utf-8"))))


def _functions(module: ast.Module) -> Iterator[str]:
    for statement in module.body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            yield statement.name


def test_a_job_that_its_ttl_deletes_never_runs_again(scene: Scene) -> None:
    kept = {"metadata.finalizers": ["example.com/keep"]}
    scene.start({**kept, "spec.ttlSecondsAfterFinished": 1, "spec.cleanupPolicy": "None"})
    scene.kubelet.succeed(*workers(2))
    eventually(
        "its TTL deletes it",
        lambda: scene.read(names.PLURAL, JOB)["metadata"],
        lambda metadata: "deletionTimestamp" in metadata,
    )

    for pod in workers(2):
        scene.client.request("DELETE", scene.path("pods", pod), {"gracePeriodSeconds": 0})
    stays("pods", scene.pod_uids, seconds=2)
    status = scene.status()
    scene.patch(names.PLURAL, JOB, {"metadata": {"finalizers": None}})

    assert (status["phase"], counters(status)) == ("Succeeded", Counters())
    assert scene.audit.writes(scene.namespace)[f"DELETE {names.PLURAL}"] == 1


def test_wiring_needs_no_optional_field(scene: Scene) -> None:
    trainer: dict[str, Any] = {
        "command": ["torchrun", "train.py"],
        "resources": {"limits": {"nvidia.com/gpu": 4}},
    }
    scene.submit({f"spec.template.spec.containers.0.{field}": value for field, value in trainer.items()})
    scene.pods_are(*workers(2))

    containers = scene.read("pods", worker(1))["spec"]["containers"]

    environment = {each["name"]: each.get("value") for each in containers[0]["env"]}
    assert (environment["PET_NNODES"], environment["PET_NPROC_PER_NODE"]) == ("2", "4")
    assert (environment["PET_NODE_RANK"], environment["WORLD_SIZE"]) == ("1", "8")
    assert environment["PET_MASTER_ADDR"] == f"{worker(0)}.{JOB}-workers"


def test_the_pods_of_a_restart_are_created_all_at_once(scene: Scene) -> None:
    """Thirty pods, of which one failed; the slowest is created within seconds of the first."""
    scene.start(replicas=30)

    scene.kubelet.fail(worker(7), 3)
    scene.pods_are(worker(7), *workers(30, attempt=1))

    committed = datetime.fromisoformat(scene.status()["attemptTime"])
    created = [
        datetime.fromisoformat(scene.read("pods", pod)["metadata"]["creationTimestamp"])
        for pod in workers(30, attempt=1)
    ]
    assert max(created) - committed <= timedelta(seconds=10)
