"""``spec.suspend``: no pods while it is set, a new attempt after it, and room to change what the pods are made from."""

from datetime import timedelta

import pytest

from dtj.api import names
from dtj.api.conditions import ConditionType
from tests.api.client import Object
from tests.api.fake_kubelet import SCHEDULER
from tests.api.operator.polling import eventually, stays
from tests.api.operator.process import Operator
from tests.api.operator.scene import JOB, Counters, Scene, condition, counters, worker, workers

pytestmark = pytest.mark.api

SUSPEND: Object = {"suspend": True}
RESUME: Object = {"suspend": False}
RESUMED_ONCE = Counters(attempt=1)

Change = tuple[Object, int]


def template(**container: object) -> Object:
    trainer = {"name": "trainer", "image": "dtj/pytorch:dev", **container}
    return {"template": {"spec": {"schedulerName": SCHEDULER, "containers": [trainer]}}}


def suspended(scene: Scene) -> Object:
    scene.change(SUSPEND)
    status = scene.status_in("Suspended", "JobSuspended")
    scene.pods_are()
    return status


def test_a_running_job_is_suspended_and_resumed(scene: Scene) -> None:
    scene.start()
    away = suspended(scene)

    scene.change(RESUME)
    back = scene.attempt_runs(1)

    assert (condition(away, "Suspended"), condition(away, "Running")) == ("True", "False")
    assert (condition(back, "Suspended"), condition(back, "Running")) == ("False", "True")
    assert counters(back) == RESUMED_ONCE, "neither a failure nor a disruption"
    assert "lastFailure" not in back
    assert (away["ready"], back["ready"]) == ("0/2", "2/2")
    assert list(scene.all_of("services")) == [f"{JOB}-workers"]
    assert {"JobSuspended", "JobResumed"} <= set(scene.event_reasons())


def test_the_phase_after_resuming_is_that_of_the_pods(scene: Scene) -> None:
    scene.start()
    suspended(scene)

    scene.change(RESUME)
    starting = scene.status_in("Starting", "JobResumed")
    scene.attempt_runs(1)
    phase = scene.client.kubectl_output("get", "dtj", JOB, f"--namespace={scene.namespace}", "--no-headers").split()[1]

    assert condition(starting, "Suspended") == "False"
    assert phase == "Running"


def test_pods_of_a_suspended_job_get_the_time_to_end_that_their_template_gives(scene: Scene) -> None:
    scene.start({"spec.template.spec.terminationGracePeriodSeconds": 77})

    scene.change(SUSPEND)
    scene.status_in("Suspended")
    pods = eventually(
        "both pods are being deleted",
        lambda: scene.all_of("pods").values(),
        lambda found: all("deletionTimestamp" in pod["metadata"] for pod in found),
    )

    assert [pod["metadata"]["deletionGracePeriodSeconds"] for pod in pods] == [77, 77]


def test_a_suspended_job_is_quiet(scene: Scene) -> None:
    scene.start()
    suspended(scene)

    writes = stays("the operator's writes", lambda: scene.audit.writes(scene.namespace), seconds=3)

    assert writes["DELETE pods"] == 2


def test_suspended_from_the_start(scene: Scene) -> None:
    scene.submit({"spec.suspend": True})
    away = scene.status_in("Suspended", "JobSuspended")
    stays("the pods", scene.pod_uids, seconds=1)

    scene.change(RESUME)
    back = scene.attempt_runs(0)

    assert "startTime" not in away
    assert scene.pod_uids().keys() == set(workers(2))
    assert counters(back) == Counters()


CHANGES: dict[str, Change] = {
    "another image": (template(image="dtj/pytorch:next"), 2),
    "more workers": ({"replicas": 3}, 3),
    "fewer workers": ({"replicas": 1}, 1),
    "more processes": ({"processesPerReplica": 4, **template(command=["torchrun", "train.py"])}, 2),
    "another role": ({"roles": [{"name": "master", **template()}]}, 2),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_what_is_changed_while_suspended_takes_effect(scene: Scene, change: Change) -> None:
    spec, replicas = change
    scene.start()
    suspended(scene)

    scene.change(spec)
    scene.change(RESUME)

    assert_made_from(scene, spec, replicas)
    assert counters(scene.status()) == RESUMED_ONCE


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_suspended_changed_and_resumed_while_nobody_looked(scene: Scene, operator: Operator, change: Change) -> None:
    spec, replicas = change
    scene.start()
    operator.kill()

    for step in (SUSPEND, spec, RESUME):
        scene.change(step)
    operator.start()
    operator.wait_until_ready()

    assert_made_from(scene, spec, replicas)
    assert counters(scene.status()) == RESUMED_ONCE
    assert "SpecChanged" in scene.event_reasons()


def assert_made_from(scene: Scene, spec: Object, replicas: int) -> None:
    masters = [names.pod_name(JOB, role["name"], 0, 1) for role in spec.get("roles", ())]
    expected = [*masters, *workers(replicas, attempt=1)]
    scene.pods_are(*expected)
    scene.kubelet.run(*expected)
    scene.status_in("Running")
    container = scene.read("pods", worker(0, attempt=1))["spec"]["containers"][0]
    environment = {each["name"]: each.get("value") for each in container["env"]}
    assert environment["WORLD_SIZE"] == str(len(expected) * spec.get("processesPerReplica", 1))
    if "template" in spec:
        written = spec["template"]["spec"]["containers"][0]
        made = container
        if "command" in written:  # it stands behind the agent's
            made = {**container, "command": container["command"][-len(written["command"]) :]}
        assert {key: made[key] for key in written} == written


def test_suspended_and_resumed_while_nobody_looked(scene: Scene, operator: Operator) -> None:
    pods = scene.start()
    operator.kill()

    scene.change(SUSPEND)
    scene.change(RESUME)
    operator.start()
    operator.wait_until_ready()

    stays("pods and counters", lambda: (scene.pod_uids(), counters(scene.status())), seconds=2)
    assert scene.pod_uids() == pods, "nothing that the pods are made from is different"


def test_killed_while_it_suspends(scene: Scene, operator: Operator) -> None:
    scene.start()
    operator.kill()
    scene.change(SUSPEND)
    scene.delete("pods", worker(0))  # as if it had been killed between the two deletions
    scene.kubelet.finish_deletions()

    operator.start()
    operator.wait_until_ready()
    away = scene.status_in("Suspended")
    scene.pods_are()

    assert counters(away) == Counters(), "suspending is no disruption"


def test_a_job_suspended_during_a_restart(scene: Scene) -> None:
    scene.start()
    scene.kubelet.fail(worker(0), 3)
    scene.pods_are(worker(0), *workers(2, attempt=1))

    scene.change(SUSPEND)
    away = scene.status_in("Suspended")
    scene.pods_are(worker(0))
    scene.change(RESUME)
    back = scene.attempt_runs(2, kept=[worker(0)])

    assert away["lastFailure"]["pod"] == worker(0)
    assert counters(back) == Counters(attempt=2, restarts=1, since_progress=1)


def test_all_succeeded_before_the_job_could_be_suspended(scene: Scene, operator: Operator) -> None:
    scene.start()
    operator.kill()
    scene.kubelet.succeed(*workers(2))
    scene.change(SUSPEND)

    operator.start()
    operator.wait_until_ready()

    scene.status_in("Succeeded")


def test_a_finished_job_is_not_suspended_any_more(scene: Scene) -> None:
    scene.start()
    scene.kubelet.succeed(*workers(2))
    finished = scene.status_in("Succeeded")

    scene.change(SUSPEND)
    scene.change({**RESUME, "replicas": 3})

    stays("status and pods", lambda: (scene.status(), scene.pod_uids()), seconds=2)
    assert scene.status() == finished


def test_time_suspended_counts_against_no_deadline(scene: Scene) -> None:
    scene.start({"spec.activeDeadlineSeconds": 600})
    suspended(scene)

    scene.let_pass(timedelta(hours=1))
    scene.change(RESUME)
    back = scene.attempt_runs(1)

    assert back["suspendedSeconds"] in range(3600, 3660)
    assert ConditionType.FAILED not in {each["type"] for each in back["conditions"]}
