"""MPIJob: Horovod loses its launcher, any other program keeps it."""

from typing import Any

import pytest

from dtj.convert.notes import ConversionError
from tests.unit.convert.manifests import a_group, a_pod, an_mpi_job, converted, said, trainer

TRAIN = ("python", "train.py")
LAUNCHER = "spec.mpiReplicaSpecs.Launcher"


def with_pods(
    job: dict[str, Any], launcher: dict[str, Any] | None = None, worker: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Give the launcher's and the workers' containers further fields."""
    for kind, fields in (("Launcher", launcher or {}), ("Worker", worker or {})):
        job["spec"]["mpiReplicaSpecs"][kind]["template"]["spec"]["containers"][0].update(fields)
    return job


def test_the_workers_run_what_the_launcher_started() -> None:
    job = converted(an_mpi_job("horovodrun", "-np", "2", "-H", "a,b", *TRAIN))
    spec = job.manifest["spec"]

    assert (spec["framework"], spec["replicas"], spec.get("roles")) == ("Horovod", 2, None)
    assert trainer(spec["template"])["command"] == list(TRAIN)
    assert "-H a,b" in said(job, "note")[f"{LAUNCHER}.template.spec"]
    assert said(job, "dropped") == {}


# -np, slots, workers; pods and processes in each, and whether that is another number of processes.
COUNTS = {
    "as many as slots": ("4", 2, 2, (2, 2), False),
    "one each": ("2", None, 2, (2, None), False),
    "fewer slots than written": ("4", 1, 2, (2, 2), False),
    "no number": (None, 3, 2, (2, 3), False),
    "fewer processes than workers": ("2", 1, 3, (2, None), True),
    "a number that does not divide": ("5", 2, 2, (2, 2), True),
}


@pytest.mark.parametrize(("asked", "slots", "workers", "expected", "dropped"), COUNTS.values(), ids=COUNTS.keys())
def test_pods_and_processes(
    asked: str | None, slots: int | None, workers: int, expected: tuple[int, int | None], dropped: bool
) -> None:
    number = ["-np", asked] if asked else []
    job = converted(an_mpi_job("mpirun", *number, *TRAIN, workers=workers, slotsPerWorker=slots))
    spec = job.manifest["spec"]

    assert (spec["replicas"], spec.get("processesPerReplica")) == expected
    assert (LAUNCHER in said(job, "dropped")) is dropped


def test_a_launcher_that_works_too_is_one_more_worker() -> None:
    job = converted(an_mpi_job("mpirun", *TRAIN, workers=2, version="v2beta1", runLauncherAsWorker=True))

    assert job.manifest["spec"]["replicas"] == 3


def test_variables_reach_the_workers_as_before() -> None:
    own = {"env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]}
    theirs = {"env": [{"name": "C", "value": "3"}]}
    by_mpirun = converted(with_pods(an_mpi_job("mpirun", "-x", "A", "-x", "D=4", "-x", "PATH", *TRAIN), own, theirs))
    by_horovodrun = converted(with_pods(an_mpi_job("horovodrun", "-np", "2", *TRAIN), own, theirs))

    def names(job: Any) -> list[str]:  # noqa: ANN401 - a conversion
        return [each["name"] for each in trainer(job.manifest["spec"]["template"])["env"]]

    assert names(by_mpirun) == ["C", "A", "D"]
    assert "B: variables of the launcher" in said(by_mpirun, "note")[f"{LAUNCHER}.template.spec"]
    assert names(by_horovodrun) == ["C", "A", "B"]


def test_a_variable_of_ours_is_not_handed_on() -> None:
    job = converted(an_mpi_job("mpirun", "-x", "HOROVOD_RANK=0", *TRAIN))

    assert "env" not in trainer(job.manifest["spec"]["template"])
    assert "HOROVOD_RANK is left out" in said(job, "note")[f"{LAUNCHER}.template.spec"]


def test_the_ssh_server_goes_with_its_probes() -> None:
    server = {"command": ["/usr/sbin/sshd"], "args": ["-De"], "readinessProbe": {"tcpSocket": {"port": 2222}}}
    job = converted(with_pods(an_mpi_job("mpirun", *TRAIN), {"workingDir": "/src"}, server))

    assert trainer(job.manifest["spec"]["template"]) == {
        "name": "trainer",
        "image": "trainer:1",
        "command": list(TRAIN),
        "workingDir": "/src",
    }
    assert "readinessProbe" in said(job, "note")[LAUNCHER]


def test_what_prepared_the_launcher_is_told() -> None:
    document = an_mpi_job("mpirun", *TRAIN)
    pod = document["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]
    pod["initContainers"] = [{"name": "fetch", "image": "fetch:1"}]

    assert set(said(converted(document), "dropped")) == {f"{LAUNCHER}.template.spec.initContainers"}


def test_the_container_by_the_name_that_the_job_gives() -> None:
    document = an_mpi_job("mpirun", *TRAIN, mainContainer="main")
    for kind, words in (("Launcher", ["mpirun", "-np", "2", "python", "main.py"]), ("Worker", [])):
        containers = document["spec"]["mpiReplicaSpecs"][kind]["template"]["spec"]["containers"]
        containers.append({"name": "main", "image": "main:1", "command": words})
    found = trainer(converted(document).manifest["spec"]["template"])

    assert (found["image"], found["command"]) == ("main:1", ["python", "main.py"])


@pytest.mark.parametrize("command", [["mpirun", "-np", "2", "/opt/solve"], ["deepspeed", "train.py"], ["/run.sh"]])
def test_any_other_program_stays_mpi(command: list[str]) -> None:
    spec = converted(an_mpi_job(*command, slotsPerWorker=2)).manifest["spec"]

    assert (spec["framework"], spec["replicas"], spec["processesPerReplica"]) == ("MPI", 2, 2)
    [launcher] = spec["roles"]
    assert (launcher["name"], trainer(launcher["template"])["command"]) == ("launcher", command)


# Version of the API, restart policy, backoff limit, and maxRestarts (None: the default).
RESTARTS = {
    "v1 does not restart": ("v1", None, None, 0),
    "v1 restarts": ("v1", "OnFailure", 4, 4),
    "v2's launcher is a Job, which counts by itself": ("v2beta1", "Never", 4, 4),
    "v2 without a limit": ("v2beta1", None, None, None),
}


@pytest.mark.parametrize(("version", "policy", "limit", "expected"), RESTARTS.values(), ids=RESTARTS.keys())
def test_restarts(version: str, policy: str | None, limit: int | None, expected: int | None) -> None:
    document = an_mpi_job("mpirun", *TRAIN, version=version, runPolicy={"backoffLimit": limit})
    for group in document["spec"]["mpiReplicaSpecs"].values():
        group["restartPolicy"] = policy

    assert converted(document).manifest["spec"].get("failurePolicy", {}).get("maxRestarts") == expected


WRONG = {
    "no launcher": ({"Worker": a_group(a_pod("mpi"))}, "there is no launcher"),
    "two launchers": ({"Launcher": a_group(a_pod("mpi"), 2)}, "there is only one launcher"),
    "a program without workers": ({"Launcher": a_group(a_pod("mpi", "/run.sh"))}, "MPI needs workers"),
    "no processes": ({"Launcher": a_group(a_pod("mpi", "mpirun", "-np", "0", "python"))}, "asks for no process"),
}


@pytest.mark.parametrize(("specs", "sentence"), WRONG.values(), ids=WRONG.keys())
def test_what_cannot_be_read(specs: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConversionError, match=sentence):
        converted(an_mpi_job(mpiReplicaSpecs=specs))


def test_a_launcher_alone_trains_by_itself() -> None:
    specs = {"Launcher": a_group(a_pod("mpi", "mpirun", "-np", "2", *TRAIN))}
    spec = converted(an_mpi_job(mpiReplicaSpecs=specs)).manifest["spec"]

    assert (spec["replicas"], spec["processesPerReplica"]) == (1, 2)
    assert trainer(spec["template"])["command"] == list(TRAIN)
