"""The whole object, as the API server stores it."""

from typing import Annotated, Literal

from pydantic import Field

from dtj.api.model import ReadValue, Time
from dtj.api.spec import JobSpec
from dtj.api.status import JobStatus


class ObjectMeta(ReadValue):
    """The part of ``metadata`` that the operator reads."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: Time | None = None
    deletion_timestamp: Time | None = None
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)


class DistributedTrainingJob(ReadValue):
    """A training job whose worker pods start, fail and end together."""

    api_version: Literal["dtj.dev/v1alpha1"] = "dtj.dev/v1alpha1"
    kind: Literal["DistributedTrainingJob"] = "DistributedTrainingJob"
    metadata: Annotated[ObjectMeta, Field(default_factory=ObjectMeta)]
    spec: JobSpec = Field(description="What you ask for: framework, number of workers, the pod, policies.")
    status: JobStatus = Field(
        default=JobStatus(), description="What the operator reports: phase, conditions, pods, progress, last failure."
    )
