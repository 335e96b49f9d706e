"""Templates: the training container's new name, and what the operator itself sets is taken out."""

from typing import Any

import pytest

from tests.unit.convert.manifests import a_pod, a_pytorch_job, converted, said, trainer

POD = "spec.pytorchReplicaSpecs.Worker.template.spec"


def of(pod: dict[str, Any] | None = None, metadata: dict[str, Any] | None = None, /, **container: object) -> Any:  # noqa: ANN401
    """Convert a job whose workers' pod has these fields."""
    template = a_pod(**container)
    template["spec"].update(pod or {})
    return converted(a_pytorch_job({**template, "metadata": metadata or {}}))


def pod_of(job: Any) -> dict[str, Any]:  # noqa: ANN401 - a conversion
    pod: dict[str, Any] = job.manifest["spec"]["template"]["spec"]
    return pod


def test_what_the_pod_says_otherwise_is_kept() -> None:
    pod = {
        "nodeSelector": {"pool": "a"},
        "priorityClassName": "high",
        "schedulerName": "volcano",
        "securityContext": {"runAsNonRoot": True},
        "initContainers": [{"name": "fetch", "image": "fetch:1"}],
        "volumes": [{"name": "data", "emptyDir": {}}],
    }
    metadata = {"labels": {"app": "digits"}, "annotations": {"sidecar.istio.io/inject": "false"}}
    job = of(pod, metadata, volumeMounts=[{"name": "data", "mountPath": "/data"}])

    assert pod.items() <= pod_of(job).items()
    assert job.manifest["spec"]["template"]["metadata"] == metadata
    assert said(job, "dropped") == {}


# Fields of the pod, and of those the ones that are dropped with a word.
LEFT_OUT: dict[str, tuple[dict[str, Any], set[str]]] = {
    "its own restart policy": ({"restartPolicy": "OnFailure"}, set()),
    "names": ({"hostname": "a", "subdomain": "b"}, {"hostname", "subdomain"}),
    "the node's network": ({"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"}, {"hostNetwork"}),
    "the node's network with a policy": ({"hostNetwork": True, "dnsPolicy": "Default"}, {"hostNetwork", "dnsPolicy"}),
    "not the node's network": ({"hostNetwork": False}, set()),
    "debugging containers": ({"ephemeralContainers": [{"name": "a"}]}, {"ephemeralContainers"}),
}


@pytest.mark.parametrize(("pod", "dropped"), LEFT_OUT.values(), ids=LEFT_OUT.keys())
def test_what_is_the_operators_matter_is_left_out(pod: dict[str, Any], dropped: set[str]) -> None:
    job = of(pod)

    assert pod_of(job).keys() == {"containers"}
    assert set(said(job, "dropped")) == {f"{POD}.{field}" for field in dropped}


PORTS: dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]], bool]] = {
    "the rendezvous port": ([{"name": "pytorchjob-port", "containerPort": 23456}], [], False),
    "the port without its name": ([{"containerPort": 23456}], [], False),
    "another number": ([{"name": "pytorchjob-port", "containerPort": 29400}], [], True),
    "another port": ([{"name": "metrics", "containerPort": 9090}], [{"name": "metrics", "containerPort": 9090}], False),
    "a port without a name": ([{"containerPort": 8080}], [{"containerPort": 8080}], False),
}


@pytest.mark.parametrize(("ports", "left", "told"), PORTS.values(), ids=PORTS.keys())
def test_ports(ports: list[dict[str, Any]], left: list[dict[str, Any]], told: bool) -> None:
    job = of(ports=ports)

    assert trainer(job.manifest["spec"]["template"]).get("ports", []) == left
    assert (f"{POD}.containers[0].ports[0]" in said(job, "note")) is told


def test_variables_of_the_wiring_are_left_out_of_the_training_container_only() -> None:
    ours = [{"name": "MASTER_ADDR", "value": "a"}, {"name": "DTJ_ROLE", "value": "b"}]
    sidecar = {"name": "proxy", "image": "proxy:1", "env": ours}
    template = a_pod(env=[*ours, {"name": "NCCL_DEBUG", "value": "INFO"}])
    template["spec"]["containers"].insert(0, sidecar)
    job = converted(a_pytorch_job(template))

    assert pod_of(job)["containers"][0] == sidecar
    assert trainer(job.manifest["spec"]["template"])["env"] == [{"name": "NCCL_DEBUG", "value": "INFO"}]
    assert {f"{POD}.containers[1].env[{index}]" for index in (0, 1)} <= said(job, "note").keys()


def test_another_container_that_is_named_trainer_makes_room() -> None:
    template = a_pod()
    template["spec"]["containers"].append({"name": "trainer", "image": "coach:1"})
    job = converted(a_pytorch_job(template))

    assert [each["name"] for each in pod_of(job)["containers"]] == ["trainer", "trainer-sidecar"]
    assert set(said(job, "dropped")) == {f"{POD}.containers[1].name"}


def test_references_follow_the_new_name() -> None:
    reference = {"resourceFieldRef": {"containerName": "pytorch", "resource": "limits.cpu"}}
    volume = {"name": "info", "downwardAPI": {"items": [{"path": "cpu", **reference}]}}
    metadata = {"annotations": {"kubectl.kubernetes.io/default-container": "pytorch"}}
    job = of({"volumes": [volume]}, metadata, env=[{"name": "CPUS", "valueFrom": reference}])

    assert "pytorch" not in str(job.manifest["spec"]["template"]).replace("train.py", "")
    assert job.manifest["spec"]["template"]["metadata"]["annotations"] == {
        "kubectl.kubernetes.io/default-container": "trainer"
    }


def test_quantities_with_a_point_are_written_as_text() -> None:
    job = of(resources={"limits": {"cpu": 0.5, "memory": "1Gi", "nvidia.com/gpu": 1}})

    assert trainer(job.manifest["spec"]["template"])["resources"] == {
        "limits": {"cpu": "0.5", "memory": "1Gi", "nvidia.com/gpu": 1}
    }


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, None),
        ({"serviceAccountName": "a"}, True),
        ({"serviceAccountName": "a", "automountServiceAccountToken": False}, False),
    ],
)
def test_pods_keep_the_token_of_their_service_account(given: dict[str, Any], expected: bool | None) -> None:
    assert pod_of(of(given)).get("automountServiceAccountToken") is expected


def test_the_operators_own_volume_keeps_its_name() -> None:
    job = of(
        {"volumes": [{"name": "dtj-shm", "emptyDir": {}}]}, volumeMounts=[{"name": "dtj-shm", "mountPath": "/cache"}]
    )

    assert pod_of(job)["volumes"] == [{"name": "dtj-shm-own", "emptyDir": {}}]
    assert trainer(job.manifest["spec"]["template"])["volumeMounts"][0]["name"] == "dtj-shm-own"


@pytest.mark.parametrize("field", ["restartPolicy", "restartPolicyRules"])
def test_a_container_does_not_restart_alone(field: str) -> None:
    job = of(**{field: [{"action": "Restart"}] if field.endswith("Rules") else "Always"})

    assert field not in trainer(job.manifest["spec"]["template"])
    assert set(said(job, "dropped")) == {f"{POD}.containers[0].{field}"}


def test_a_pod_group_of_the_old_operator_is_pointed_out() -> None:
    job = of(None, {"annotations": {"scheduling.k8s.io/group-name": "digits"}})

    assert "PodGroup" in "".join(said(job, "dropped").values())
