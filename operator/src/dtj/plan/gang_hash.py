"""A digest of all that a gang is made from: with another one, the pods that exist are not those that are wished for."""

from hashlib import sha256
from typing import Any, Final

import orjson

from dtj.api import pod_template
from dtj.api.model import LIST_TYPE
from dtj.api.spec import JobSpec, NetworkIsolation

FORMULA: Final = "1:"
"""Changes with what goes into the digest, so that an upgrade of the operator is no change of a job."""


def gang_hash(spec: JobSpec) -> str:
    """Equal for specs that the API server takes for equal: it compares lists of the types map and set without order."""
    roles = {role.name: [role.replicas, _normal(role.template, pod_template.cached())] for role in spec.roles or ()}
    made_from = [spec.replicas, spec.processes_per_replica, _normal(spec.template, pod_template.cached()), roles]
    if spec.network_isolation is not NetworkIsolation.NONE:  # left out else: an older version's digest has none
        made_from.append(spec.network_isolation)
    return FORMULA + sha256(_as_bytes(made_from)).hexdigest()[:16]


def _normal(value: Any, schema: dict[str, Any]) -> Any:  # noqa: ANN401 - JSON
    if isinstance(value, dict):
        fields = schema.get("properties", {})
        return {name: _normal(part, fields.get(name, {})) for name, part in value.items()}
    if isinstance(value, list):
        items = [_normal(item, schema.get("items", {})) for item in value]
        return sorted(items, key=_as_bytes) if schema.get(LIST_TYPE) in {"map", "set"} else items
    return value


def _as_bytes(value: object) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
