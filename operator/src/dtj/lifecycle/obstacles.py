"""What keeps the operator from carrying a decision out, told as a value that the next decision takes in."""

from dataclasses import dataclass

from dtj.api.reasons import Reason


@dataclass(frozen=True)
class Obstacle:
    """The API server's refusal of a write, or a name that somebody else holds.

    ``generation``: the spec it was seen with. ``until_spec_changes``: trying again with the same spec is pointless.
    ``amid_older_pods``: pods of earlier attempts were still there, and may have been the reason.
    """

    reason: Reason
    message: str
    generation: int
    until_spec_changes: bool = False
    amid_older_pods: bool = False

    def blocks(self, generation: int) -> bool:
        """Whether writes for this spec need not even be tried."""
        return self.until_spec_changes and self.generation == generation
