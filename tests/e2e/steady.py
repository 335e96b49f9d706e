"""A job that runs until it is told to end, whatever happens to the operator meanwhile."""

from tests.e2e.jobs import CHECKPOINT_DIR, job, pods, status_when
from tests.kubectl import Kubectl, Object

NAME = "steady"
UNTIL_TOLD = ["sh", "-c", f"until test -e {CHECKPOINT_DIR}/stop; do sleep 0.2; done"]


class Steady:
    """The job, from when it runs, and its pods as they were at first."""

    def __init__(self, kubectl: Kubectl) -> None:
        self._kubectl = kubectl
        manifest = job(NAME, UNTIL_TOLD)
        spec = manifest["spec"]["template"]["spec"]
        spec["containers"][0]["volumeMounts"] = [{"name": "told", "mountPath": CHECKPOINT_DIR}]
        spec["volumes"] = [{"name": "told", "emptyDir": {}}]
        kubectl.apply(manifest)
        status_when(kubectl, NAME, "Running")
        self._before = self._uids()

    def assert_untouched(self) -> None:
        assert self._uids() == self._before

    def end(self) -> Object:
        """Let it end; return its last status."""
        for name in self._before:
            self._kubectl("exec", name, "--", "touch", f"{CHECKPOINT_DIR}/stop")
        return status_when(self._kubectl, NAME, "Succeeded")

    def _uids(self) -> dict[str, str]:
        return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in pods(self._kubectl, NAME)}
