"""What a refusal of the API server means for a job."""

import pytest

from dtj.api.reasons import Reason
from dtj.kube.errors import ApiError, KubeError, NameTakenError, UnreachableError, obstacle_of

POLICY = "pods \"a\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no images from there"
LIMIT_RANGE = 'pods "a" is forbidden: maximum memory usage per Container is 1Gi, but limit is 2Gi'
NO_ACCOUNT = 'pods "a" is forbidden: error looking up service account team/trainer: serviceaccount "trainer" not found'
QUOTA = (
    'pods "a-worker-0" is forbidden: exceeded quota: gpus, requested: requests.nvidia.com/gpu=1, used: 8, limited: 8'
)
TERMINATING = "pods is forbidden: unable to create new content in namespace a because it is being terminated"
POD_SECURITY = 'pods "a-worker-0" is forbidden: violates PodSecurity "restricted:latest": runAsNonRoot != true'
WEBHOOK = 'admission webhook "policy.example.com" denied the request: no latest tag'
RBAC = 'pods is forbidden: User "system:serviceaccount:dtj:dtj-operator" cannot create resource "pods"'

OBSTACLES: dict[str, tuple[KubeError, Reason, bool]] = {
    "the name is still taken": (
        NameTakenError("Pod", "a-worker-0", of_earlier_job=True),
        Reason.EARLIER_JOB_TERMINATING,
        False,
    ),
    "the name is taken": (NameTakenError("Pod", "a-worker-0"), Reason.NAME_CONFLICT, False),
    "no answer": (UnreachableError("POST /api/v1/pods: timeout"), Reason.API_UNAVAILABLE, False),
    "the server is broken": (ApiError(500, "InternalError", "etcd"), Reason.API_UNAVAILABLE, False),
    "too many requests": (ApiError(429, "TooManyRequests", "slow down"), Reason.API_UNAVAILABLE, False),
    "the template is invalid": (ApiError(422, "Invalid", "image: Required value"), Reason.INVALID_TEMPLATE, True),
    "the template cannot be read": (ApiError(400, "BadRequest", "unknown field"), Reason.INVALID_TEMPLATE, True),
    "an admission policy says no": (ApiError(422, "Invalid", POLICY), Reason.INVALID_TEMPLATE, False),
    "a limit range says no": (ApiError(403, "Forbidden", LIMIT_RANGE), Reason.INVALID_TEMPLATE, False),
    "the service account is missing": (ApiError(403, "Forbidden", NO_ACCOUNT), Reason.INVALID_TEMPLATE, False),
    "the quota is used up": (ApiError(403, "Forbidden", QUOTA), Reason.QUOTA_EXCEEDED, False),
    "the namespace goes away": (ApiError(403, "Forbidden", TERMINATING), Reason.NAMESPACE_TERMINATING, False),
    "the namespace is restricted": (ApiError(403, "Forbidden", POD_SECURITY), Reason.INVALID_TEMPLATE, False),
    "a policy says no": (ApiError(403, "Forbidden", WEBHOOK), Reason.INVALID_TEMPLATE, False),
    "the operator may not": (ApiError(403, "Forbidden", RBAC), Reason.OPERATOR_FORBIDDEN, False),
    "the operator is not known": (ApiError(401, "Unauthorized", "Unauthorized"), Reason.OPERATOR_FORBIDDEN, False),
}


@pytest.mark.parametrize(("error", "reason", "until_spec_changes"), OBSTACLES.values(), ids=OBSTACLES.keys())
def test_obstacle(error: KubeError, reason: Reason, until_spec_changes: bool) -> None:
    obstacle = obstacle_of(error, 7)

    assert (obstacle.reason, obstacle.until_spec_changes, obstacle.generation) == (reason, until_spec_changes, 7)


def test_the_servers_own_words_are_told() -> None:
    assert obstacle_of(ApiError(422, "Invalid", "image: Required value"), 1).message == "image: Required value"
    assert obstacle_of(ApiError(500, "InternalError", "etcd"), 1).message == "500 InternalError: etcd"


def test_who_finds_a_name_taken_is_told_what_to_do() -> None:
    assert "delete it or rename the job" in obstacle_of(NameTakenError("Service", "a-workers"), 1).message
