"""A job whose workers all do well, from its creation to its end."""

import pytest

from dtj.api import labels, names
from tests.api.operator.scene import JOB, Scene, a_job, condition, worker

pytestmark = pytest.mark.api

COLUMNS = ["NAME", "PHASE", "READY", "PROGRESS", "ETA", "RESTARTS", "REASON", "AGE"]
WIDE_COLUMNS = ["FRAMEWORK", "STEP", "RATE", "ATTEMPT"]


def test_phases_and_conditions_of_a_job_that_succeeds(scene: Scene) -> None:
    scene.submit()
    both = scene.pods_are(worker(0), worker(1))
    starting = scene.status_in("Starting")
    scene.kubelet.run(*both)
    running = scene.status_in("Running")
    scene.kubelet.succeed(*both)
    succeeded = scene.status_in("Succeeded")

    assert (starting["ready"], condition(starting, "Running")) == ("0/2", "False")
    assert (running["ready"], condition(running, "Running"), condition(running, "Complete")) == ("2/2", "True", None)
    assert (condition(succeeded, "Running"), condition(succeeded, "Complete")) == ("False", "True")
    assert running["roles"] == [
        {"name": "worker", "replicas": 2, "pending": 0, "running": 2, "succeeded": 0, "removed": 0, "failed": 0}
    ]
    assert succeeded["roles"][0]["succeeded"] == 2
    assert starting["startTime"] <= running["runningTime"] <= succeeded["completionTime"]
    assert (succeeded["attempt"], succeeded["restarts"], succeeded["observedGeneration"]) == (0, 0, 1)


def test_children_of_a_job(scene: Scene) -> None:
    job = scene.submit()
    scene.pods_are(worker(0), worker(1))

    pod, service = scene.all_of("pods")[worker(1)], scene.all_of("services")[f"{JOB}-workers"]

    owner = pod["metadata"]["ownerReferences"][0]
    assert (owner["uid"], owner["controller"]) == (job["metadata"]["uid"], True)
    assert service["metadata"]["ownerReferences"] == [owner]
    assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    assert (service["spec"]["clusterIP"], service["spec"]["publishNotReadyAddresses"]) == ("None", True)
    assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == (worker(1), service["metadata"]["name"])
    assert (pod["metadata"]["labels"][labels.INDEX], pod["metadata"]["labels"][labels.ATTEMPT]) == ("1", "0")
    environment = {each["name"]: each.get("value") for each in pod["spec"]["containers"][0]["env"]}
    assert environment["MASTER_ADDR"] == f"{worker(0)}.{service['metadata']['name']}"
    assert (environment["RANK"], environment["WORLD_SIZE"]) == ("1", "2")


@pytest.mark.parametrize("workers", [1, 8])
def test_calls_of_a_job_that_succeeds(scene: Scene, workers: int) -> None:
    pods = scene.start(replicas=workers)
    scene.kubelet.succeed(*pods)
    scene.status_in("Succeeded")

    writes = scene.audit.writes(scene.namespace)

    assert writes.pop("POST events", 0) in range(1, 5), scene.audit.requests(scene.namespace)
    agent = {"POST configmaps": 1}  # for all jobs of the namespace
    assert writes == {**agent, "POST services": 1, "POST pods": workers, f"PATCH {names.PLURAL}/status": 3}
    assert [request for request in scene.audit.requests(scene.namespace) if not request.is_write] == []


def test_the_job_itself_is_left_as_it_was_written(scene: Scene) -> None:
    submitted = scene.submit()
    pods = scene.pods_are(worker(0), worker(1))
    scene.kubelet.succeed(*pods)
    scene.status_in("Succeeded")

    after = scene.read(names.PLURAL, JOB)

    assert after["spec"] == submitted["spec"]
    assert after["metadata"].keys() == submitted["metadata"].keys(), "no finalizer, no annotation, no label"
    assert after["metadata"]["generation"] == submitted["metadata"]["generation"]


def test_kubectl_waits_for_the_end_and_shows_the_columns(scene: Scene) -> None:
    kubectl, here = scene.client.kubectl_output, f"--namespace={scene.namespace}"
    pods = scene.start()

    running = kubectl("get", "dtj", here, "--output=wide").splitlines()
    scene.kubelet.succeed(*pods)
    kubectl("wait", "dtj", JOB, here, "--for=condition=Complete", "--timeout=30s")
    finished = kubectl("get", "dtj", JOB, here, "--no-headers").split()

    assert running[0].split() == [*COLUMNS, *WIDE_COLUMNS]
    assert running[1].split()[:3] == [JOB, "Running", "2/2"]
    assert finished[:3] == [JOB, "Succeeded", "0/2"]


def test_scale_subresource_tells_the_pods(scene: Scene) -> None:
    pods = scene.start()

    scale = scene.client.request("GET", scene.path(names.PLURAL, JOB) + "/scale").body

    assert (scale["spec"]["replicas"], scale["status"]["replicas"]) == (2, 2)
    chosen = scene.client.kubectl_output(
        "get", "pods", f"--namespace={scene.namespace}", f"--selector={scale['status']['selector']}", "--output=name"
    )
    assert chosen.split() == [f"pod/{name}" for name in sorted(pods)]


def test_a_job_for_another_controller_is_left_alone(scene: Scene) -> None:
    elsewhere = scene.create(names.PLURAL, a_job({"metadata.name": "elsewhere", "spec.managedBy": "example.com/other"}))
    scene.start()  # the operator has seen the other job by now

    assert scene.read(names.PLURAL, "elsewhere") == elsewhere
    assert sorted(scene.all_of("pods")) == [worker(0), worker(1)]


def test_many_jobs_at_once(scene: Scene) -> None:
    jobs = [f"digits-{number}" for number in range(10)]
    for job in jobs:
        scene.create(names.PLURAL, a_job({"metadata.name": job}))

    pods = scene.pods_are(*(worker(index, job) for job in jobs for index in range(2)))
    scene.kubelet.run(*pods)
    for job in jobs:
        scene.status_in("Running", job=job)

    assert scene.audit.writes(scene.namespace)["POST pods"] == 20
