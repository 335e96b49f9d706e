"""The job's own metadata: a name with room for its pods, labels and annotations; what the server wrote is left."""

import re
from hashlib import sha256
from typing import Any

from dtj.api import names
from dtj.convert.old import Part

_BOOKKEEPING = (
    "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation", "managedFields",
    "resourceVersion", "selfLink", "uid",
)  # fmt: skip
_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_KUEUE = "kueue.x-k8s.io/queue-name"
_GENERATED_CHARACTERS = 5
"""What the API server appends to ``generateName``."""
_DIGEST_CHARACTERS = 5


def convert_metadata(old: Part, groups: dict[str, int]) -> dict[str, Any]:
    """Return the new metadata for a job with these roles and numbers of pods."""
    metadata: dict[str, Any] = {}
    if name := old.text("name"):
        metadata["name"] = _valid(old, "name", name, _room(groups))
    elif name := old.text("generateName"):
        stem = _valid(old, "generateName", name.rstrip("-"), _room(groups) - _GENERATED_CHARACTERS - 1)
        metadata["generateName"] = f"{stem}-"
    old.pass_over("generateName", *_BOOKKEEPING)
    if namespace := old.text("namespace"):
        metadata["namespace"] = namespace
    for kind in ("labels", "annotations"):
        entries = old.part(kind)
        entries.pass_over(_APPLIED)
        if _KUEUE in entries:
            old.notes.dropped(
                entries.at(_KUEUE),
                "kept, but Kueue does not know this kind; it queues pods by labels on their template",
            )
        if carried := entries.rest():
            metadata[kind] = carried
    old.drop("ownerReferences", "not carried over: the owner made the old object; let it make the new one")
    old.drop("finalizers", "not carried over: whoever waits for the end of the old object has to learn of the new one")
    old.report_rest()
    return metadata


def _room(groups: dict[str, int]) -> int:
    """Characters that the longest pod name leaves for the job's."""
    suffix = max(len(names.pod_name("", role, replicas - 1, names.MAX_ATTEMPT)) for role, replicas in groups.items())
    return names.MAX_LABEL_LENGTH - suffix


def _valid(old: Part, key: str, name: str, room: int) -> str:
    valid = re.sub(r"[^a-z0-9-]+", "-", name.lower()).strip("-")
    if not valid or not valid[0].isalpha():
        valid = f"job-{valid}".rstrip("-")
    if len(valid) > room:
        digest = sha256(name.encode()).hexdigest()[:_DIGEST_CHARACTERS]
        valid = f"{valid[: room - _DIGEST_CHARACTERS - 1].rstrip('-')}-{digest}"
    if valid != name:
        old.notes.dropped(
            old.at(key),
            f"{name} became {valid}: pods are named after the job, so it takes letters, digits and - only, a letter "
            f"first, {room} characters at most; rename it where others refer to it",
        )
    return valid
