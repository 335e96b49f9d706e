"""Patches on pod templates: a TrainJob's wishes laid over its runtime, lists of named things merged by name."""

from typing import Any

_LIST_KEYS = {
    "containers": "name",
    "initContainers": "name",
    "env": "name",
    "volumes": "name",
    "imagePullSecrets": "name",
    "schedulingGates": "name",
    "volumeMounts": "mountPath",
}

_REPLACED = frozenset({"resources"})


def merged(base: Any, patch: Any, field: str = "") -> Any:  # noqa: ANN401 - any JSON value
    """Return ``base`` with ``patch`` laid over it; neither is changed."""
    if patch is None:
        return base
    if isinstance(base, dict) and isinstance(patch, dict) and field not in _REPLACED:
        return {**base, **{key: merged(base.get(key), value, key) for key, value in patch.items()}}
    if isinstance(base, list) and isinstance(patch, list) and field in _LIST_KEYS:
        return _merged_by(_LIST_KEYS[field], base, patch)
    return patch


def _merged_by(key: str, base: list[Any], patch: list[Any]) -> list[Any]:
    result = list(base)
    for item in patch:
        at = next((at for at, each in enumerate(result) if _key(each, key) == _key(item, key)), None)
        if at is None:
            result.append(item)
        else:
            result[at] = merged(result[at], item)
    return result


def _key(item: object, key: str) -> object:
    return item.get(key) if isinstance(item, dict) else item
