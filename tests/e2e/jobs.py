"""Jobs for the e2e tier: the real image, commands of the tests' own, and what their pods and output say."""

import re
from collections.abc import Callable

from tests.kubectl import Kubectl, Object, eventually

IMAGE = "dtj/pytorch:dev"
TRAINER = "trainer"
RESTRICTED_POD = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
RESTRICTED_CONTAINER = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
FINISHED = ("Succeeded", "Failed")

WAIT_FOR_SIGTERM = "import signal, sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit(143)); signal.pause()"
SLEEP = ["python", "-c", WAIT_FOR_SIGTERM]
CHECKPOINT_DIR = "/checkpoints"
DIGITS = "/examples/digits_ddp.py"


def job(
    name: str,
    command: list[str],
    *,
    replicas: int = 2,
    framework: str = "Custom",
    max_restarts: int | None = None,
    **container: object,
) -> Object:
    """A job whose pods run ``command``; without ``max_restarts`` it restarts as often as jobs do by default."""
    policy = {} if max_restarts is None else {"failurePolicy": {"maxRestarts": max_restarts}}
    return {
        "apiVersion": "dtj.dev/v1alpha1",
        "kind": "DistributedTrainingJob",
        "metadata": {"name": name},
        "spec": {
            "framework": framework,
            "replicas": replicas,
            "template": {"spec": pod_spec(command, **container)},
            **policy,
        },
    }


def pod_spec(command: list[str], **container: object) -> Object:
    """A pod's spec that a `restricted` namespace accepts."""
    trainer = {
        "name": TRAINER,
        "image": IMAGE,
        "command": command,
        "securityContext": RESTRICTED_CONTAINER,
        **container,
    }
    return {"securityContext": RESTRICTED_POD, "containers": [trainer]}


def digits(epochs: int, *options: str) -> list[str]:
    """The shipped example as a command: DDP, a line and a checkpoint after every epoch (0.2 s on the bed)."""
    return ["python", DIGITS, f"--epochs={epochs}", f"--checkpoint-dir={CHECKPOINT_DIR}", *options]


def training(name: str, command: list[str], claim: str | None = None, *, resources: Object | None = None) -> Object:
    """A PyTorch job of two workers on two nodes, its checkpoints kept in ``claim``, or with the pod if None."""
    kept = {"persistentVolumeClaim": {"claimName": claim}} if claim else {"emptyDir": {}}
    mounts = [{"name": "checkpoints", "mountPath": CHECKPOINT_DIR}]
    one_thread = [{"name": "OMP_NUM_THREADS", "value": "1"}]
    manifest = job(name, command, framework="PyTorch", env=one_thread, volumeMounts=mounts, resources=resources or {})
    manifest["spec"]["template"]["spec"] |= {
        "volumes": [{"name": "checkpoints", **kept}],
        "topologySpreadConstraints": [
            {
                "topologyKey": "kubernetes.io/hostname",
                "maxSkew": 1,
                "whenUnsatisfiable": "DoNotSchedule",
                "nodeTaintsPolicy": "Honor",  # with a node gone, all may run on those left
                "labelSelector": {"matchLabels": {"dtj.dev/job-name": name}},
            }
        ],
    }
    return manifest


def status_of(kubectl: Kubectl, name: str) -> Object:
    status: Object = kubectl.get("dtj", name).get("status", {})
    return status


def status_when(
    kubectl: Kubectl, name: str, phase: str, within: float = 60.0, seen: Callable[[Object], None] | None = None
) -> Object:
    """The status once the job is in this phase; fails at once when the job ended in another.

    ``seen`` is called with every status on the way.
    """

    def reached(status: Object) -> bool:
        if seen is not None:
            seen(status)
        now = status.get("phase")
        assert now == phase or now not in FINISHED, f"job {name} is {now}, not {phase}: {status}"
        return bool(now == phase)

    return eventually(lambda: status_of(kubectl, name), reached, within)


def condition(of: Object, kind: str) -> Object:
    """One condition of a status; an empty object when it has not got it yet."""
    return next((each for each in of.get("conditions", []) if each["type"] == kind), {})


def pods(kubectl: Kubectl, job_name: str) -> list[Object]:
    return kubectl.all("pods", f"dtj.dev/job-name={job_name}")


def pod_names(kubectl: Kubectl, job_name: str) -> list[str]:
    return [pod["metadata"]["name"] for pod in pods(kubectl, job_name)]


def steps(log: str) -> list[int]:
    """The steps that rank 0 printed, one for each epoch."""
    return [int(step) for step in re.findall(r"^epoch=\d+/\d+ step=(\d+)/", log, re.MULTILINE)]


def resumed_at(log: str) -> int:
    """The step of the checkpoint that rank 0 started from."""
    found = re.search(r"^resumed from \S+: epoch=\d+ step=(\d+)$", log, re.MULTILINE)
    assert found, f"it did not resume from a checkpoint:\n{log[:1000]}"
    return int(found[1])


def trained(kubectl: Kubectl, pod_name: str, epochs: int, within: float = 60.0) -> list[int]:
    """The steps printed so far, once the pod of rank 0 has printed that many epochs."""
    return eventually(lambda: steps(kubectl.run("logs", pod_name).stdout), lambda seen: len(seen) >= epochs, within)
