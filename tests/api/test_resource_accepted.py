"""What the API server takes, and what it makes of it."""

from typing import Any

import pytest

from dtj.api.job import DistributedTrainingJob
from dtj.api.spec import CleanupPolicy
from tests.api.resource import SAMPLES, Resource, changed, sample

pytestmark = pytest.mark.api

SAMPLE_NAMES = sorted(path.stem for path in SAMPLES.glob("*.yaml"))

CHANGES: dict[str, dict[str, Any]] = {
    "the largest gang": {"spec.replicas": 10_000},
    "the longest name that fits": {"metadata.name": "a" * 48},
    "the longest name of a large gang": {"metadata.name": "a" * 45, "spec.replicas": 10_000},
    "a name of one letter": {"metadata.name": "a"},
    "a name that the server makes": {"metadata.generateName": "digits-", "metadata.name": ""},
    "a variable that only resembles a reserved one": {"spec.template.spec.containers.0.env": [{"name": "MY_RANK"}]},
    "another framework's variable": {"spec.template.spec.containers.0.env": [{"name": "TF_CONFIG", "value": "{}"}]},
    "Custom sets PyTorch's variables itself": {
        "spec.framework": "Custom",
        "spec.template.spec.containers.0.env": [{"name": "RANK", "value": "0"}],
    },
    "a trainer container that is not the first": {
        "spec.template.spec.containers": [
            {"name": "sidecar", "image": "a", "restartPolicy": "Always", "env": [{"name": "DTJ_X", "value": "1"}]},
            {"name": "trainer", "image": "b"},
        ]
    },
    "one queueing system and one that places": {
        "spec.template.metadata.labels": {"kueue.x-k8s.io/queue-name": "q", "scheduling.x-k8s.io/pod-group": "g"}
    },
    "a numeric GPU count": {"spec.template.spec.containers.0.resources": {"limits": {"nvidia.com/gpu": 1}}},
    "an empty failure policy": {"spec.failurePolicy": {}},
    "an empty agent": {"spec.agent": {}},
}


@pytest.mark.parametrize("name", SAMPLE_NAMES)
def test_sample_is_accepted(resource: Resource, name: str) -> None:
    answer = resource.try_to_create(sample(name))

    assert answer.accepted, answer.message


@pytest.mark.parametrize("changes", CHANGES.values(), ids=CHANGES.keys())
def test_is_accepted(resource: Resource, changes: dict[str, Any]) -> None:
    answer = resource.try_to_create(changed(sample("minimal"), changes))

    assert answer.accepted, answer.message


@pytest.mark.parametrize("name", SAMPLE_NAMES)
def test_nothing_written_is_lost(resource: Resource, name: str) -> None:
    written = sample(name)

    stored = resource.try_to_create(written).body

    assert _contains(stored["spec"], written["spec"])


def test_defaults_are_written_into_the_object(resource: Resource) -> None:
    minimal = sample("minimal")
    del minimal["spec"]["replicas"]

    stored = resource.try_to_create(minimal).body

    added = {key: value for key, value in stored["spec"].items() if key not in minimal["spec"]}
    assert added == {
        "replicas": 1,
        "suspend": False,
        "managedBy": "dtj.dev/operator",
        "cleanupPolicy": "Running",
        "failurePolicy": {"maxRestarts": 3},
        "progress": {"intervalSeconds": 10},
        "agent": {"mode": "Auto"},
        "networkIsolation": "None",
    }


@pytest.mark.parametrize("name", SAMPLE_NAMES)
def test_models_read_what_the_server_stores(resource: Resource, name: str) -> None:
    stored = resource.try_to_create(sample(name)).body

    job = DistributedTrainingJob.model_validate(stored)

    assert job.metadata.uid
    assert job.spec.cleanup_policy in CleanupPolicy
    assert job.spec.to_wire() == stored["spec"] | {"template": job.spec.template}


def test_everything_of_the_design_is_accepted_once_it_works(later_resource: Resource) -> None:
    answer = later_resource.try_to_create(sample("later/tensorflow"))

    assert answer.accepted, answer.message


def _contains(whole: object, part: object) -> bool:
    """Every value of ``part`` is in ``whole``; null and absent are the same."""
    if isinstance(part, dict) and isinstance(whole, dict):
        return all(value is None or (key in whole and _contains(whole[key], value)) for key, value in part.items())
    if isinstance(part, list) and isinstance(whole, list):
        return len(whole) == len(part) and all(map(_contains, whole, part))
    return whole == part
