"""Jobs for the e2e tier: the real image, commands of the tests' own."""

from tests.kubectl import Kubectl, Object, eventually

IMAGE = "dtj/pytorch:dev"
RESTRICTED_POD = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
RESTRICTED_CONTAINER = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
FINISHED = ("Succeeded", "Failed")


def job(name: str, command: list[str], *, replicas: int = 2, framework: str = "Custom", **container: object) -> Object:
    trainer = {
        "name": "trainer",
        "image": IMAGE,
        "command": command,
        "securityContext": RESTRICTED_CONTAINER,
        **container,
    }
    return {
        "apiVersion": "dtj.dev/v1alpha1",
        "kind": "DistributedTrainingJob",
        "metadata": {"name": name},
        "spec": {
            "framework": framework,
            "replicas": replicas,
            "template": {"spec": {"securityContext": RESTRICTED_POD, "containers": [trainer]}},
        },
    }


def status_when(kubectl: Kubectl, name: str, phase: str, within: float = 60.0) -> Object:
    """The status once the job is in this phase; fails at once when the job ended in another."""

    def reached(status: Object) -> bool:
        now = status.get("phase")
        assert now == phase or now not in FINISHED, f"job {name} is {now}, not {phase}: {status}"
        return bool(now == phase)

    return eventually(lambda: kubectl.get("dtj", name).get("status", {}), reached, within)


def condition(status: Object, kind: str) -> Object:
    return next(each for each in status["conditions"] if each["type"] == kind)
