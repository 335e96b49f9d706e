"""What a test of the operator works with: a namespace, its pods' fake kubelet, and views of what is there."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dtj.api import names
from tests.api.client import Client, Object
from tests.api.fake_kubelet import MERGE_PATCH, SCHEDULER, FakeKubelet
from tests.api.operator.auditing_proxy import Audit
from tests.api.operator.polling import DEADLINE_SECONDS, eventually
from tests.api.resource import changed, sample

JOB = "digits"


def a_job(changes: Mapping[str, Any] | None = None, *, replicas: int = 2) -> Object:
    """The minimal sample, named ``JOB``, with changes at dotted paths; no real scheduler takes its pods."""
    own = {"metadata.name": JOB, "spec.replicas": replicas, "spec.template.spec.schedulerName": SCHEDULER}
    return changed(sample("minimal"), {**own, **(changes or {})})


def worker(index: int, job: str = JOB) -> str:
    return names.pod_name(job, names.WORKER_ROLE, index, 0)


def condition(status: Object, kind: str) -> str | None:
    """Status of a condition: True, False or Unknown; None if there is none of that type."""
    return next((str(each["status"]) for each in status.get("conditions", ()) if each["type"] == kind), None)


@dataclass(frozen=True)
class Scene:
    """One namespace of the cluster under test."""

    client: Client
    namespace: str
    kubelet: FakeKubelet
    audit: Audit

    def path(self, resource: str, name: str = "") -> str:
        group = f"/apis/{names.API_VERSION}" if resource == names.PLURAL else "/api/v1"
        return f"{group}/namespaces/{self.namespace}/{resource}" + (f"/{name}" if name else "")

    def create(self, resource: str, manifest: Object) -> Object:
        answer = self.client.request("POST", self.path(resource), manifest)
        assert answer.accepted, answer.message
        return answer.body

    def delete(self, resource: str, name: str) -> None:
        answer = self.client.request("DELETE", self.path(resource, name))
        assert answer.accepted, answer.message

    def patch(self, resource: str, name: str, change: Object) -> None:
        answer = self.client.request("PATCH", self.path(resource, name), change, MERGE_PATCH)
        assert answer.accepted, answer.message

    def read(self, resource: str, name: str) -> Object:
        answer = self.client.request("GET", self.path(resource, name))
        assert answer.accepted, answer.message
        return answer.body

    def all_of(self, resource: str) -> dict[str, Object]:
        """All objects of a kind by name."""
        answer = self.client.request("GET", self.path(resource))
        assert answer.accepted, answer.message
        return {item["metadata"]["name"]: item for item in answer.body["items"]}

    def submit(self, changes: Mapping[str, Any] | None = None, *, replicas: int = 2) -> Object:
        return self.create(names.PLURAL, a_job(changes, replicas=replicas))

    def status(self, job: str = JOB) -> Object:
        status: Object = self.read(names.PLURAL, job).get("status", {})
        return status

    def status_in(
        self, phase: str, reason: str | None = None, *, job: str = JOB, within: float = DEADLINE_SECONDS
    ) -> Object:
        """Wait until the job is in this phase (for this reason); return its status then."""
        return eventually(
            f"job {job} is {phase}" + (f" ({reason})" if reason else ""),
            lambda: self.status(job),
            lambda status: status.get("phase") == phase and reason in {None, status.get("reason")},
            within=within,
        )

    def pod_uids(self) -> dict[str, str]:
        return {name: pod["metadata"]["uid"] for name, pod in self.all_of("pods").items()}

    def pods_are(self, *expected: str, within: float = DEADLINE_SECONDS) -> dict[str, str]:
        """Wait until exactly these pods are there, letting go of those being deleted; return their UIDs."""

        def pods() -> dict[str, str]:
            self.kubelet.finish_deletions()
            return self.pod_uids()

        return eventually(f"the pods are {expected}", pods, lambda now: now.keys() == set(expected), within=within)

    def start(self, changes: Mapping[str, Any] | None = None, *, replicas: int = 2) -> dict[str, str]:
        """Submit a job and let all of its pods run; return their UIDs once the operator is done with it."""
        self.submit(changes, replicas=replicas)
        uids = self.pods_are(*map(worker, range(replicas)))
        self.kubelet.run(*uids)
        self.status_in("Running")
        eventually("the event of that", self.event_reasons, lambda reasons: "AllPodsRunning" in reasons)
        return uids

    def event_reasons(self) -> list[str]:
        return [str(event["reason"]) for event in self.all_of("events").values()]
