"""What all models of the resource share: camelCase on the wire, immutable values, times in UTC to the second."""

from datetime import UTC, datetime
from typing import Annotated, Any, Final

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, PlainSerializer, WithJsonSchema
from pydantic.alias_generators import to_camel

INT32_MAX: Final = 2**31 - 1
EXACT_MAX: Final = 2**53 - 1
"""JSON numbers are floats to the API server: up to here every integer is exact."""

LIST_TYPE: Final = "x-kubernetes-list-type"
LIST_MAP_KEYS: Final = "x-kubernetes-list-map-keys"
POD_TEMPLATE: Final = "x-dtj-pod-template"
"""Marks a field whose schema is the cluster's own PodTemplateSpec; only the CRD generator sees it."""


def set_of_values() -> dict[str, Any]:
    """Schema of a list whose order means nothing and that holds no value twice."""
    return {LIST_TYPE: "set"}


def in_order() -> dict[str, Any]:
    """Schema of a list that is one value: its order counts, a merge replaces it whole."""
    return {LIST_TYPE: "atomic"}


def map_by(key: str) -> dict[str, Any]:
    """Schema of a list of objects that are told apart by ``key``."""
    return {LIST_TYPE: "map", LIST_MAP_KEYS: [key]}


def _to_second(time: datetime) -> datetime:
    return time.astimezone(UTC).replace(microsecond=0)


def _rfc3339(time: datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")


Time = Annotated[
    AwareDatetime,
    AfterValidator(_to_second),
    PlainSerializer(_rfc3339, return_type=str),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]
"""A moment in UTC, cut to the second (as on the wire, so that what was written compares equal when read back).
A datetime without a time zone is refused."""


class Value(BaseModel):
    """Base of all models: immutable, attributes in snake_case, camelCase on the wire."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        frozen=True,
        extra="forbid",
        hide_input_in_errors=True,  # an error may end in a log, and what is wrong in a spec may be a secret
    )

    def to_wire(self) -> dict[str, Any]:
        """Return plain JSON values, camelCase keys, without what is not set."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


class ReadValue(Value):
    """A value that a newer version may have written: fields unknown to this one are passed over."""

    model_config = ConfigDict(extra="ignore")
