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


LATER_FRAMEWORKS: Final = (Framework.TENSORFLOW, Framework.HOROVOD, Framework.JAX, Framework.MPI)

TABLE: Final = (
    Unsupported(
        "spec.framework",
        f"!(self.framework in [{', '.join(repr(str(framework)) for framework in LATER_FRAMEWORKS)}])",
        "this version runs PyTorch and Custom only",
    ),
    Unsupported(
        "spec.roles",
        "!has(self.roles) || size(self.roles) == 0",
        "this version runs workers only; leave it out",
    ),
    Unsupported(
        "spec.template.spec.hostNetwork",
        "!has(self.template.spec.hostNetwork) || !self.template.spec.hostNetwork",
        "this version can't put workers on the node's own network yet; leave it out or set false",
    ),
    Unsupported(
        "spec.suspend",
        "!self.suspend",
        "this version can't suspend a job yet; leave it out or set false",
    ),
    Unsupported(
        "spec.failurePolicy.maxRestarts",
        "!has(self.failurePolicy) || !has(self.failurePolicy.maxRestarts) || self.failurePolicy.maxRestarts == 0",
        "this version can't restart a job yet; leave it out or set 0",
    ),
    Unsupported(
        "spec.failurePolicy.rules",
        "!has(self.failurePolicy) || !has(self.failurePolicy.rules) || size(self.failurePolicy.rules) == 0",
        "this version fails the job at the first failure of any kind; leave the rules out",
    ),
    Unsupported(
        "spec.successPolicy",
        "!has(self.successPolicy)",
        "this version completes a job when all its workers succeeded; leave it out",
    ),
    Unsupported(
        "spec.startupDeadlineSeconds",
        "!has(self.startupDeadlineSeconds)",
        "this version can't limit the time to start yet; leave it out",
    ),
    Unsupported(
        "spec.activeDeadlineSeconds",
        "!has(self.activeDeadlineSeconds)",
        "this version can't limit the running time yet; leave it out",
    ),
    Unsupported(
        "spec.ttlSecondsAfterFinished",
        "!has(self.ttlSecondsAfterFinished)",
        "this version can't delete finished jobs yet; leave it out and delete the job yourself",
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
