"""When a job ends, restarts and is cleaned up: Kubeflow's ``runPolicy`` and restart policies, as one job's policies."""

from typing import Any

from dtj.api import names
from dtj.api.spec import CleanupPolicy, ExitCodeOperator, RuleAction
from dtj.convert.notes import ConversionError, Notes
from dtj.convert.old import Part
from dtj.convert.replicas import Replica

_OLD_MANAGERS = frozenset({
    "kubeflow.org/training-operator", "kubeflow.org/mpi-operator", "trainer.kubeflow.org/trainjob-controller",
})  # fmt: skip
_PERMANENT_EXIT_CODES = list(range(1, 128))
"""With restartPolicy ExitCode these ended the job; 128 and above restarted the pod."""
_GANG = (
    "not carried over: the operator makes no PodGroup; give the pod templates the labels or annotations by which your "
    "scheduler or queue knows a gang"
)


def run_policy(spec: Part) -> dict[str, Any]:
    """Read ``runPolicy``, and its fields where older versions had them; ``backoffLimit`` stays in the result."""
    policy = spec.part("runPolicy")
    found: dict[str, Any] = {}
    for part in (spec, policy):
        cleanup = part.text("cleanPodPolicy")
        if cleanup:
            if cleanup not in set(CleanupPolicy):
                raise ConversionError(f"{part.notes.job}: {part.at('cleanPodPolicy')} must be All, Running or None")
            found["cleanupPolicy"] = cleanup
        for key in ("ttlSecondsAfterFinished", "activeDeadlineSeconds", "backoffLimit"):
            if (value := part.number(key)) is not None:
                found[key] = value
                deadline_note(part, key)
        _scheduling(part.part("schedulingPolicy"))
    found |= suspension(policy)
    policy.report_rest()
    return found


def deadline_note(part: Part, key: str) -> None:
    if key == "activeDeadlineSeconds":
        part.notes.note(part.at(key), "counts from the moment when all pods run, no longer from the job's start")


def suspension(part: Part) -> dict[str, Any]:
    """Read ``suspend`` and ``managedBy``."""
    found: dict[str, Any] = {}
    if part.truth("suspend"):
        found["suspend"] = True
    if (manager := part.text("managedBy")) and manager not in _OLD_MANAGERS:
        found["managedBy"] = manager
        part.notes.note(part.at("managedBy"), f"kept: the operator leaves jobs alone that are not {names.MANAGER}'s")
    return found


def failure_policy(replicas: list[Replica], backoff_limit: int | None, default: str, notes: Notes) -> dict[str, Any]:
    """One policy for the whole job from the restart policies of its roles."""
    policies = {replica.restart_policy or default for replica in replicas}
    where = replicas[0].path
    if policies == {"Never"}:
        notes.note(f"{where}.restartPolicy", "Never became failurePolicy.maxRestarts 0; a lost node or an eviction "
                   "still starts the job again")  # fmt: skip
        return {"maxRestarts": 0}
    if "Never" in policies:
        mixed = "the roles' restart policies differ; here any failure restarts the whole job: use failurePolicy.rules"
        notes.dropped(f"{where}.restartPolicy", mixed)
    policy: dict[str, Any] = {} if backoff_limit is None else {"maxRestarts": backoff_limit}
    limit = "3 times" if backoff_limit is None else f"{backoff_limit} times"
    notes.note(f"{where}.restartPolicy", f"not a container but the whole job starts again, at most {limit} in a row "
               "without progress (failurePolicy.maxRestarts)")  # fmt: skip
    if "ExitCode" in policies:
        codes = {"operator": str(ExitCodeOperator.IN), "values": _PERMANENT_EXIT_CODES}
        policy["rules"] = [{"action": str(RuleAction.FAIL_JOB), "onExitCodes": codes}]
    return policy


def gang_scheduling(old: Part) -> None:
    """``podGroupPolicy`` of a runtime: who queues and places the gang."""
    for key in old.fields():
        old.notes.dropped(old.at(key), _GANG)
    old.rest()


def _scheduling(old: Part) -> None:
    for key in ("minAvailable", "queue", "minResources"):
        old.drop(key, _GANG)
    old.drop("priorityClass", "not carried over: set priorityClassName in the pod templates")
    old.drop("scheduleTimeoutSeconds", "not carried over: startupDeadlineSeconds gives back pods of half a gang")
    old.report_rest()
