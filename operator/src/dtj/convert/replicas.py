"""The groups of pods of an old job: ``…ReplicaSpecs``."""

from dataclasses import dataclass

from dtj.convert.notes import ConversionError
from dtj.convert.old import Part

_RESTART_POLICIES = ("Always", "OnFailure", "Never", "ExitCode")


@dataclass(frozen=True)
class Replica:
    """One group that has pods, with its template still to be converted."""

    path: str
    replicas: int
    template: Part
    restart_policy: str | None


def read_replicas(spec: Part, key: str, kinds: tuple[str, ...]) -> dict[str, Replica]:
    """Return the groups by their kind; the old controllers took any mixture of upper and lower case."""
    specs = spec.part(key)
    found: dict[str, Replica] = {}
    for name in specs.fields():
        kind = next((kind for kind in kinds if kind.lower() == name.lower()), None)
        if kind is None:
            specs.drop(name, f"not carried over: there is no such group; {', '.join(kinds)} are possible")
        elif (replica := _replica(specs.part(name))).replicas:
            found[kind] = replica
    if not found:
        raise ConversionError(f"{spec.notes.job}: {spec.at(key)}: no group with pods; needed is {' or '.join(kinds)}")
    return found


def _replica(old: Part) -> Replica:
    count = old.number("replicas")
    policy = old.text("restartPolicy") or None
    if policy is not None and policy not in _RESTART_POLICIES:
        allowed = ", ".join(_RESTART_POLICIES)
        raise ConversionError(f"{old.notes.job}: {old.at('restartPolicy')} must be one of {allowed}")
    replica = Replica(old.path, 1 if count is None else count, old.part("template"), policy)
    old.report_rest()
    return replica
