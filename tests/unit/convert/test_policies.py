"""runPolicy and restart policies become one job's policies."""

from typing import Any

import pytest

from dtj.convert.notes import ConversionError
from tests.unit.convert.manifests import a_group, a_pod, a_pytorch_job, converted, said

CARRIED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "nothing": ({}, {}),
    "cleaned up": ({"cleanPodPolicy": "All"}, {"cleanupPolicy": "All"}),
    "not cleaned up": ({"cleanPodPolicy": "None"}, {"cleanupPolicy": "None"}),
    "an empty word": ({"cleanPodPolicy": ""}, {}),
    "a time to live of nothing": ({"ttlSecondsAfterFinished": 0}, {"ttlSecondsAfterFinished": 0}),
    "a deadline": ({"activeDeadlineSeconds": 60}, {"activeDeadlineSeconds": 60}),
    "retries": ({"backoffLimit": 7}, {"failurePolicy": {"maxRestarts": 7}}),
    "no retries": ({"backoffLimit": 0}, {"failurePolicy": {"maxRestarts": 0}}),
    "suspended": ({"suspend": True}, {"suspend": True}),
    "not suspended": ({"suspend": False}, {}),
    "another manager": ({"managedBy": "kueue.x-k8s.io/multikueue"}, {"managedBy": "kueue.x-k8s.io/multikueue"}),
    "its own manager": ({"managedBy": "kubeflow.org/training-operator"}, {}),
}


@pytest.mark.parametrize(("policy", "expected"), CARRIED.values(), ids=CARRIED.keys())
def test_carried_over(policy: dict[str, Any], expected: dict[str, Any]) -> None:
    job = converted(a_pytorch_job(runPolicy=policy))
    spec = job.manifest["spec"]

    assert {key: spec[key] for key in spec.keys() - {"framework", "replicas", "template"}} == expected
    assert said(job, "dropped") == {}


def test_the_places_of_older_versions() -> None:
    spec = converted(a_pytorch_job(cleanPodPolicy="All", ttlSecondsAfterFinished=5, backoffLimit=1)).manifest["spec"]

    assert (spec["cleanupPolicy"], spec["ttlSecondsAfterFinished"]) == ("All", 5)
    assert spec["failurePolicy"] == {"maxRestarts": 1}


PERMANENT = [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": list(range(1, 128))}}]

# Restart policies of master and workers, the policy of the job, whether it behaves differently.
RESTARTS: dict[str, tuple[str | None, str | None, dict[str, Any] | None, bool]] = {
    "the default": (None, None, None, False),
    "always": ("Always", "OnFailure", None, False),
    "never": ("Never", "Never", {"maxRestarts": 0}, False),
    "by the exit code": ("ExitCode", "ExitCode", {"rules": PERMANENT}, False),
    "one never": ("OnFailure", "Never", None, True),
}


@pytest.mark.parametrize(("master", "worker", "expected", "dropped"), RESTARTS.values(), ids=RESTARTS.keys())
def test_restart_policies(
    master: str | None, worker: str | None, expected: dict[str, Any] | None, dropped: bool
) -> None:
    groups = {"Master": a_group(a_pod(), restartPolicy=master), "Worker": a_group(a_pod(), restartPolicy=worker)}
    job = converted(a_pytorch_job(pytorchReplicaSpecs=groups))

    assert job.manifest["spec"].get("failurePolicy") == expected
    assert bool(said(job, "dropped")) is dropped


def test_an_unknown_way_of_cleaning_up() -> None:
    with pytest.raises(ConversionError, match=r"spec\.runPolicy\.cleanPodPolicy must be All, Running or None"):
        converted(a_pytorch_job(runPolicy={"cleanPodPolicy": "Some"}))


def test_an_unknown_policy_is_told() -> None:
    assert set(said(converted(a_pytorch_job(runPolicy={"hurry": True})), "dropped")) == {"spec.runPolicy.hurry"}
