"""The fields that say what shall happen in the life of a job: what the API server takes of them and what it refuses."""

from typing import Any

import pytest

from dtj.api.model import INT32_MAX
from dtj.api.reasons import FAILURES
from dtj.api.spec import MAX_RULES
from tests.api.resource import Refused, Resource, assert_refused_once, changed, role, sample

pytestmark = pytest.mark.api


def rules(*content: dict[str, Any]) -> dict[str, Any]:
    return {"spec.failurePolicy": {"rules": list(content)}}


def on_codes(*codes: int, operator: str = "In") -> dict[str, Any]:
    return {"action": "FailJob", "onExitCodes": {"operator": operator, "values": list(codes)}}


def on_reasons(*reasons: str) -> dict[str, Any]:
    return {"action": "RestartJob", "onReasons": list(reasons)}


def on_conditions(*conditions: dict[str, str]) -> dict[str, Any]:
    return {"action": "RestartJobAndIgnore", "onPodConditions": list(conditions)}


DISRUPTED = {"type": "DisruptionTarget"}

ACCEPTED: dict[str, dict[str, Any]] = {
    "no restart at all": {"spec.failurePolicy": {"maxRestarts": 0}},
    "as many restarts as there are": {"spec.failurePolicy": {"maxRestarts": INT32_MAX}},
    "no rules": rules(),
    "as many rules as fit": rules(*[on_codes(1)] * MAX_RULES),
    "a rule for every exit code": rules(on_codes(*range(1, 256))),
    "a rule for all other exit codes": rules(on_codes(1, operator="NotIn")),
    "a rule for every reason": rules(on_reasons(*FAILURES)),
    "a rule for conditions": rules(on_conditions(DISRUPTED, {"type": "Ready", "status": "False"})),
    "success of the workers alone": {"spec.roles": [role("master")], "spec.successPolicy": {"roles": ["worker"]}},
    "success of a role of one's own": {
        "spec.framework": "Custom",
        "spec.roles": [role("actor", replicas=4), role("learner")],
        "spec.successPolicy": {"roles": ["learner"]},
    },
    "Custom may have two masters": {"spec.framework": "Custom", "spec.roles": [role("master", replicas=2)]},
    "PyTorch with a master": {"spec.roles": [role("master", replicas=1)]},
    "Horovod": {"spec.framework": "Horovod", "spec.processesPerReplica": 2},
    "JAX with several processes in a pod": {"spec.framework": "JAX", "spec.processesPerReplica": 4},
    "a job without the agent": {"spec.agent": {"mode": "Disabled"}},
    "the shortest deadlines": {"spec.startupDeadlineSeconds": 1, "spec.activeDeadlineSeconds": 1},
    "deleted at its end": {"spec.ttlSecondsAfterFinished": 0},
    "suspended from the start": {"spec.suspend": True},
}

MAX_RESTARTS = "spec.failurePolicy.maxRestarts"
RULES = "spec.failurePolicy.rules"

REFUSED: dict[str, Refused] = {
    # How often
    "fewer than no restarts": Refused({MAX_RESTARTS: -1}, MAX_RESTARTS, "greater than or equal to 0"),
    "more restarts than can be counted": Refused({MAX_RESTARTS: INT32_MAX + 1}, MAX_RESTARTS, "2147483647"),
    "restarts as text": Refused({MAX_RESTARTS: "3"}, MAX_RESTARTS, "must be of type integer"),
    # For what
    "a rule for nothing": Refused(rules({"action": "FailJob"}), f"{RULES}[0]", "exactly one of"),
    "a rule for two things": Refused(
        rules(on_codes(1), on_codes(1) | on_reasons("OOMKilled")),
        f"{RULES}[1]",
        "exactly one of onExitCodes, onReasons and onPodConditions",
    ),
    "a rule without an action": Refused(rules({"onReasons": ["OOMKilled"]}), f"{RULES}[0].action", "Required value"),
    "an unknown action": Refused(
        rules(on_codes(1) | {"action": "Restart"}),
        f"{RULES}[0].action",
        '"FailJob", "RestartJob", "RestartJobAndIgnore"',
    ),
    "a rule for success": Refused(
        rules(on_codes(1, 0)), f"{RULES}[0].onExitCodes.values[1]", "greater than or equal to 1"
    ),
    "an exit code that is none": Refused(
        rules(on_codes(256)), f"{RULES}[0].onExitCodes.values[0]", "less than or equal to 255"
    ),
    "an exit code twice": Refused(rules(on_codes(1, 1)), f"{RULES}[0].onExitCodes.values[1]", "Duplicate value"),
    "no exit code": Refused(rules(on_codes()), f"{RULES}[0].onExitCodes.values", "at least 1"),
    "an unknown operator": Refused(
        rules(on_codes(1, operator="Exists")), f"{RULES}[0].onExitCodes.operator", 'supported values: "In", "NotIn"'
    ),
    "a reason that no attempt ends for": Refused(
        rules(on_reasons("OOMKilled", "Unschedulable")), f"{RULES}[0].onReasons[1]", "supported values"
    ),
    "a reason in other letters": Refused(
        rules(on_reasons("OomKilled")), f"{RULES}[0].onReasons[0]", ", ".join(f'"{reason}"' for reason in FAILURES)
    ),
    "no reason": Refused(rules(on_reasons()), f"{RULES}[0].onReasons", "at least 1"),
    "a condition without a type": Refused(
        rules(on_conditions({"status": "True"})), f"{RULES}[0].onPodConditions[0].type", "Required value"
    ),
    "a condition that may be or not": Refused(
        rules(on_conditions(DISRUPTED | {"status": "Maybe"})),
        f"{RULES}[0].onPodConditions[0].status",
        'supported values: "True", "False", "Unknown"',
    ),
    "one rule too many": Refused(rules(*[on_codes(1)] * (MAX_RULES + 1)), RULES, "at most 20 items"),
    # Whose success
    "success of a role that is not there": Refused(
        {"spec.successPolicy": {"roles": ["worker", "master"]}},
        "spec.successPolicy.roles",
        "a role that the job does not have: worker and the names in spec.roles are possible",
    ),
    "success of nobody": Refused({"spec.successPolicy": {"roles": []}}, "spec.successPolicy.roles", "at least 1"),
    "a success policy that says nothing": Refused(
        {"spec.successPolicy": {}}, "spec.successPolicy.roles", "Required value"
    ),
    # How long
    "no time to start": Refused(
        {"spec.startupDeadlineSeconds": 0}, "spec.startupDeadlineSeconds", "greater than or equal to 1"
    ),
    "no time to run": Refused(
        {"spec.activeDeadlineSeconds": 0}, "spec.activeDeadlineSeconds", "greater than or equal to 1"
    ),
    "deleted before its end": Refused(
        {"spec.ttlSecondsAfterFinished": -1}, "spec.ttlSecondsAfterFinished", "greater than or equal to 0"
    ),
    "a deadline with a unit": Refused(
        {"spec.activeDeadlineSeconds": "2h"}, "spec.activeDeadlineSeconds", "must be of type integer"
    ),
    "suspend as text": Refused({"spec.suspend": "yes"}, "spec.suspend", "must be of type boolean"),
    # Further roles
    "a role without a template": Refused(
        {"spec.roles": [{"name": "master"}]}, "spec.roles[0].template", "Required value"
    ),
    "a role without a pod": Refused(
        {"spec.roles": [role("master", replicas=0)]}, "spec.roles[0].replicas", "greater than or equal to 1"
    ),
    "a role whose name is none": Refused(
        {"spec.framework": "Custom", "spec.roles": [role("Actor")]}, "spec.roles[0].name", "should match"
    ),
    "one role too many": Refused(
        {"spec.framework": "Custom", "spec.roles": [role(f"role-{number}") for number in range(7)]},
        "spec.roles",
        "at most 6 items",
    ),
}


@pytest.mark.parametrize("changes", ACCEPTED.values(), ids=ACCEPTED.keys())
def test_policy_is_accepted(resource: Resource, changes: dict[str, Any]) -> None:
    answer = resource.try_to_create(changed(sample("minimal"), changes))

    assert answer.accepted, answer.message


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED.keys())
def test_policy_is_refused(resource: Resource, case: Refused) -> None:
    answer = resource.try_to_create(changed(sample("minimal"), case.changes))

    assert_refused_once(answer, case)


@pytest.mark.parametrize(
    "written",
    [{}, {"spec.failurePolicy": {}}, rules(on_codes(1))],
    ids=["no failure policy", "an empty failure policy", "rules alone"],
)
def test_a_job_may_be_restarted_three_times_unless_it_says_otherwise(
    resource: Resource, written: dict[str, Any]
) -> None:
    stored = resource.try_to_create(changed(sample("minimal"), written)).body

    assert stored["spec"]["failurePolicy"]["maxRestarts"] == 3


def test_a_condition_holds_unless_the_rule_says_otherwise(resource: Resource) -> None:
    stored = resource.try_to_create(changed(sample("minimal"), rules(on_conditions(DISRUPTED)))).body

    assert stored["spec"]["failurePolicy"]["rules"][0]["onPodConditions"] == [DISRUPTED | {"status": "True"}]
