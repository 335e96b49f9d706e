"""The error tree at the border to the API server, and what an error means for a job."""

import re

from dtj.api.reasons import Reason
from dtj.lifecycle.last_words import printable
from dtj.lifecycle.obstacles import Obstacle

_LACKS_RIGHT = re.compile(r"\bcannot \w+ resource\b")
"""How the authorizer refuses (``k8s.io/apiserver/pkg/endpoints/handlers/responsewriters/errors.go``)."""


class KubeError(Exception):
    """Base of everything that ``dtj.kube`` raises on purpose."""


class UnreachableError(KubeError):
    """No answer: connection refused, reset or too slow, also after the retries."""


class ApiError(KubeError):
    """The API server answered with a Status object that is no success."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(f"{code} {reason}: {message}")
        self.code = code
        self.reason = reason
        self.message = message


class ConfigurationError(KubeError):
    """No usable way to the API server: neither a service account nor a kubeconfig."""


class NotLeadingError(KubeError):
    """A write that was not sent, because another process may lead by now."""


class LeaseLostError(KubeError):
    """This process does not lead any more."""


class NameTakenError(KubeError):
    """An object of a name that a job needs exists and is not the job's.

    ``of_earlier_job``: it belongs to a job of the same name that was deleted, and will go by itself.
    """

    def __init__(self, kind: str, name: str, *, of_earlier_job: bool = False) -> None:
        self.of_earlier_job = of_earlier_job
        if of_earlier_job:
            super().__init__(f"{kind} {name} of an earlier job of this name is still there; waiting until it is gone")
        else:
            super().__init__(f"{kind} {name} exists and does not belong to this job; delete it or rename the job")


def is_conflict(error: KubeError) -> bool:
    """Somebody else wrote at the same time: looking again at once is all it takes."""
    return isinstance(error, ApiError) and error.code == 409


def is_quota(error: ApiError) -> bool:
    """A ResourceQuota refuses one object more."""
    return error.code == 403 and "exceeded quota" in error.message


def obstacle_of(error: KubeError, generation: int) -> Obstacle:
    """What to tell the job's owner; the cases are those an owner or an administrator can mend."""
    message = printable(str(error))
    if isinstance(error, NameTakenError):
        reason = Reason.EARLIER_JOB_TERMINATING if error.of_earlier_job else Reason.NAME_CONFLICT
        return Obstacle(reason, message, generation)
    if not isinstance(error, ApiError):
        return Obstacle(Reason.API_UNAVAILABLE, message, generation)
    message = printable(error.message)
    if error.code in {400, 422}:
        # A policy that denies the pod answers so as well, and policies change without the spec.
        return Obstacle(Reason.INVALID_TEMPLATE, message, generation, until_spec_changes="denied" not in message)
    if is_quota(error):
        return Obstacle(Reason.QUOTA_EXCEEDED, message, generation)
    if error.code == 403 and "being terminated" in message:
        return Obstacle(Reason.NAMESPACE_TERMINATING, message, generation)
    if error.code == 401 or (error.code == 403 and _LACKS_RIGHT.search(message)):
        return Obstacle(Reason.OPERATOR_FORBIDDEN, message, generation)
    if error.code == 403:  # an admission plugin: Pod Security, LimitRange, a missing service account …
        return Obstacle(Reason.INVALID_TEMPLATE, message, generation)
    return Obstacle(Reason.API_UNAVAILABLE, printable(str(error)), generation)
