"""What keeps the operator from carrying a decision out, told as a value that the next decision takes in."""

from dataclasses import dataclass, replace

from dtj.api.reasons import Reason


@dataclass(frozen=True)
class Obstacle:
    """The API server's refusal of a write, or a name that somebody else holds.

    ``generation``: the spec it was seen with. ``until_spec_changes``: trying again with the same spec is pointless.
    ``alone``: nothing of earlier attempts was left that could have been the reason. ``lasts``: it was so before, too.
    """

    reason: Reason
    message: str
    generation: int
    until_spec_changes: bool = False
    alone: bool = False
    lasts: bool = False

    def following(self, before: "Obstacle | None", *, alone: bool) -> "Obstacle":
        """The same refusal, compared with the one that was met last."""
        lasts = alone and before is not None and before.alone and before.reason is self.reason
        return replace(self, alone=alone, lasts=lasts)

    def blocks(self, generation: int) -> bool:
        """Whether writes for this spec need not even be tried."""
        return self.until_spec_changes and self.generation == generation
