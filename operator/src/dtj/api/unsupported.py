"""Fields that a later version makes work: until then they are refused with a sentence, never passed over.

Whoever makes one work deletes its row. Every condition is CEL on ``spec`` and true when the field is not used.
"""

from typing import Final, NamedTuple

from dtj.api.rules import Rule
from dtj.api.spec import Framework


class Unsupported(NamedTuple):
    """One field, or one use of it, that does not work yet."""

    path: str
    unused: str
    message: str


LATER_FRAMEWORKS: Final = (Framework.HOROVOD, Framework.MPI)

TABLE: Final = (
    Unsupported(
        "spec.framework",
        f"!(self.framework in [{', '.join(repr(str(framework)) for framework in LATER_FRAMEWORKS)}])",
        "this version runs PyTorch, TensorFlow, JAX and Custom only",
    ),
    Unsupported(
        "spec.template.spec.hostNetwork",
        "!has(self.template.spec.hostNetwork) || !self.template.spec.hostNetwork",
        "this version can't put workers on the node's own network yet; leave it out or set false",
    ),
    Unsupported(
        "spec.progress",
        "!has(self.progress)",
        "this version can't read the progress of a training yet; leave it out",
    ),
    Unsupported(
        "spec.agent.mode",
        "!has(self.agent) || !has(self.agent.mode) || self.agent.mode != 'Auto'",
        "this version has no agent yet; leave it out or set Disabled",
    ),
)

RULES: Final = tuple(Rule(row.unused, row.message, row.path.removeprefix("spec")) for row in TABLE)
