"""What a test of the operator works with: a namespace, its pods' fake kubelet, and views of what is there."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NamedTuple

from dtj.api import names
from dtj.api.status import JobStatus
from tests.api.client import Client, Object
from tests.api.fake_kubelet import MERGE_PATCH, SCHEDULER, FakeKubelet
from tests.api.fake_node import FakeNode
from tests.api.operator.auditing_proxy import Audit
from tests.api.operator.polling import DEADLINE_SECONDS, eventually
from tests.api.resource import changed, sample

JOB = "digits"
NO_RESTARTS: Mapping[str, Any] = {"spec.failurePolicy.maxRestarts": 0}
"""Changes to a job whose first failure shall be its end."""


GROUPS = {names.PLURAL: f"/apis/{names.API_VERSION}", "networkpolicies": "/apis/networking.k8s.io/v1"}
"""Where resources are that are not Kubernetes' oldest."""


class Counters(NamedTuple):
    """What a status counts."""

    attempt: int = 0
    restarts: int = 0
    since_progress: int = 0
    disruptions: int = 0


def a_job(changes: Mapping[str, Any] | None = None, *, replicas: int = 2) -> Object:
    """The minimal sample, named ``JOB``, with changes at dotted paths; no real scheduler takes its pods."""
    own = {"metadata.name": JOB, "spec.replicas": replicas, "spec.template.spec.schedulerName": SCHEDULER}
    return changed(sample("minimal"), {**own, **(changes or {})})


def worker(index: int, job: str = JOB, *, attempt: int = 0) -> str:
    return names.pod_name(job, names.WORKER_ROLE, index, attempt)


def workers(count: int, *, attempt: int = 0) -> list[str]:
    return [worker(index, attempt=attempt) for index in range(count)]


def counters(status: Object) -> Counters:
    return Counters(*(status[name] for name in ("attempt", "restarts", "restartsSinceProgress", "disruptions")))


def condition(status: Object, kind: str) -> str | None:
    """Status of a condition: True, False or Unknown; None if there is none of that type."""
    return next((str(each["status"]) for each in status.get("conditions", ()) if each["type"] == kind), None)


@dataclass(frozen=True)
class Scene:
    """One namespace of the cluster under test, with a node for its pods."""

    client: Client
    namespace: str
    node: FakeNode
    kubelet: FakeKubelet
    audit: Audit

    def path(self, resource: str, name: str = "") -> str:
        group = GROUPS.get(resource, "/api/v1")
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

    def patch_status(self, resource: str, name: str, status: Object) -> None:
        path = f"{self.path(resource, name)}/status"
        answer = self.client.request("PATCH", path, {"status": status}, MERGE_PATCH)
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
        return self.status_where(
            f"job {job} is {phase}" + (f" ({reason})" if reason else ""),
            lambda status: status.get("phase") == phase and reason in {None, status.get("reason")},
            job=job,
            within=within,
        )

    def status_of_attempt(self, attempt: int) -> Object:
        """Wait until this attempt is committed; return the status then."""
        return self.status_where(f"attempt {attempt} is committed", lambda status: status.get("attempt") == attempt)

    def status_where(
        self, what: str, holds: Callable[[Object], bool], *, job: str = JOB, within: float = DEADLINE_SECONDS
    ) -> Object:
        """Wait until ``holds`` is true of the job's status; return the status then."""
        return eventually(what, lambda: self.status(job), holds, within=within)

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
        uids = self.pods_are(*workers(replicas))
        self.kubelet.run(*uids)
        self.status_in("Running")
        eventually("the event of that", self.event_reasons, lambda reasons: "AllPodsRunning" in reasons)
        return uids

    def attempt_runs(self, attempt: int, *, replicas: int = 2, kept: Iterable[str] = ()) -> Object:
        """Wait for the workers of an attempt, beside those ``kept``, and let them run; return the status then."""
        own = workers(replicas, attempt=attempt)
        self.pods_are(*kept, *own)
        self.kubelet.run(*own)
        return self.status_where(
            f"attempt {attempt} runs", lambda now: (now.get("attempt"), now.get("phase")) == (attempt, "Running")
        )

    def change(self, spec: Object, job: str = JOB) -> None:
        self.patch(names.PLURAL, job, {"spec": spec})

    def let_pass(self, time: timedelta) -> None:
        """Let all that the status remembers be longer ago: for waits that no test has the time for."""
        known = JobStatus.model_validate(self.status())
        moved = {
            name: getattr(known, name) and getattr(known, name) - time
            for name in ("start_time", "running_time", "completion_time", "attempt_time")
        }
        conditions = tuple(
            each.model_copy(update={"last_transition_time": each.last_transition_time - time})
            for each in known.conditions
        )
        older = known.model_copy(update={**moved, "conditions": conditions})
        self.patch_status(names.PLURAL, JOB, older.to_wire())

    def event_reasons(self) -> list[str]:
        return [str(event["reason"]) for event in self.all_of("events").values()]

    def event_messages(self, reason: str) -> list[str]:
        return [str(event["message"]) for event in self.all_of("events").values() if event["reason"] == reason]
