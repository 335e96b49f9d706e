"""Fields that a later version makes work: until then they are refused with a sentence, never passed over.

Whoever makes one work deletes its row. Every condition is CEL on ``spec`` and true when the field is not used.
"""

from typing import Final, NamedTuple

from dtj.api.rules import Rule


class Unsupported(NamedTuple):
    """One field, or one use of it, that does not work yet."""

    path: str
    unused: str
    message: str


TABLE: Final = (
    Unsupported(
        "spec.framework",
        "self.framework != 'MPI'",
        "this version runs PyTorch, TensorFlow, Horovod, JAX and Custom only",
    ),
    Unsupported(
        "spec.template.spec.hostNetwork",
        "!has(self.template.spec.hostNetwork) || !self.template.spec.hostNetwork",
        "this version can't put workers on the node's own network yet; leave it out or set false",
    ),
)

RULES: Final = tuple(Rule(row.unused, row.message, row.path.removeprefix("spec")) for row in TABLE)
