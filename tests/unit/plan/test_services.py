"""The headless Service."""

from dtj.api import labels
from dtj.plan.pods import pod_builder
from dtj.plan.services import headless_service
from dtj.plan.topology import topology_of
from tests.builders import JOB_UID, NAMESPACE, a_job

JOB = a_job().replicas(2).build()


def test_names_resolve_before_pods_are_ready() -> None:
    service = headless_service(JOB)

    assert service["metadata"]["name"] == "digits-workers"
    assert service["metadata"]["namespace"] == NAMESPACE
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["publishNotReadyAddresses"] is True


def test_it_goes_with_the_job() -> None:
    (owner,) = headless_service(JOB)["metadata"]["ownerReferences"]

    assert owner == {
        "apiVersion": "dtj.dev/v1alpha1",
        "kind": "DistributedTrainingJob",
        "name": "digits",
        "uid": JOB_UID,
        "controller": True,
        "blockOwnerDeletion": False,
    }


def test_it_selects_the_pods_of_this_job_and_of_no_other() -> None:
    selector = headless_service(JOB)["spec"]["selector"]
    ours = pod_builder(JOB, topology_of(JOB.spec), 0)(topology_of(JOB.spec).slots[1])["metadata"]["labels"]

    assert selector.items() <= ours.items()
    assert selector[labels.JOB_UID] == JOB_UID


def test_pods_find_each_other_under_it() -> None:
    pod = pod_builder(JOB, topology_of(JOB.spec), 0)(topology_of(JOB.spec).slots[0])

    assert pod["spec"]["subdomain"] == headless_service(JOB)["metadata"]["name"]
    assert pod["spec"]["hostname"] == pod["metadata"]["name"]
