"""The new manifest from its pieces, and what would be refused in it."""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from pydantic import ValidationError

from dtj.api import names
from dtj.api.job import DistributedTrainingJob
from dtj.convert.metadata import convert_metadata
from dtj.convert.notes import Note, Notes
from dtj.convert.old import Part
from dtj.plan.validation import mistakes_in

_ORDER = (
    "framework", "replicas", "processesPerReplica", "suspend", "managedBy", "failurePolicy", "successPolicy",
    "activeDeadlineSeconds", "ttlSecondsAfterFinished", "cleanupPolicy", "template", "roles",
)  # fmt: skip


_OLD_ROLES = "master|worker|chief|ps|evaluator|launcher|node"


class Converted(NamedTuple):
    """A DistributedTrainingJob as plain JSON, and what there is to say about it."""

    manifest: dict[str, Any]
    notes: tuple[Note, ...]


def open_document(document: dict[str, Any]) -> Part:
    """Begin to read an old object: kind and version are known, the status is past."""
    metadata = document.get("metadata")
    given = metadata if isinstance(metadata, dict) else {}
    name = given.get("name") or given.get("generateName") or "without a name"
    part = Part(document, "", Notes(f"{document.get('kind')}/{name}"))
    part.pass_over("apiVersion", "kind", "status")
    return part


def assemble(old: Part, spec: dict[str, Any]) -> Converted:
    """Put the manifest together; reads the old metadata, for which the roles must be known."""
    groups = {names.WORKER_ROLE: spec["replicas"]} | {role["name"]: role["replicas"] for role in spec.get("roles", [])}
    metadata = old.part("metadata")
    _warn_of_addresses(str(metadata.peek("name") or ""), spec, old.notes)
    new_metadata = convert_metadata(metadata, groups)
    old.report_rest()
    manifest = {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "metadata": new_metadata,
        "spec": {key: spec[key] for key in _ORDER if spec.get(key) not in (None, {}, [])},
    }
    return Converted(manifest, tuple(old.notes.found))


def _warn_of_addresses(name: str, spec: dict[str, Any], notes: Notes) -> None:
    """Pods have other addresses than before; a program that spells the old ones does not find its peers."""
    address = re.compile(rf"\b{re.escape(name)}-({_OLD_ROLES})(-\d+)+\b")
    templates = [spec["template"], *(role["template"] for role in spec.get("roles", []))]
    found = {match[0] for template in templates for text in _texts(template) for match in address.finditer(text)}
    for old_name in sorted(found) if name else ():
        notes.dropped(
            "spec",
            f"{old_name} is an old pod's address and no longer found: take addresses from the variables of the "
            "framework, such as MASTER_ADDR",
        )


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)


def refusals(manifest: dict[str, Any]) -> tuple[str, ...]:
    """What this version would refuse in a manifest, a sentence each."""
    try:
        job = DistributedTrainingJob.model_validate(manifest)
    except ValidationError as error:
        return tuple(f"{'.'.join(str(part) for part in each['loc'])}: {each['msg']}" for each in error.errors())
    mistakes = tuple(str(mistake) for mistake in mistakes_in(job))
    nameless = not (job.metadata.name or manifest["metadata"].get("generateName"))
    return (*(("metadata.name: a name is needed; pods are named after it",) if nameless else ()), *mistakes)
