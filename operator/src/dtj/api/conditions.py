"""Types of ``status.conditions``: those of ``batch/v1`` Job where Job has them."""

from enum import StrEnum


class ConditionType(StrEnum):
    """Each has status True, False or Unknown; ``COMPLETE`` and ``FAILED`` are final once True."""

    SUSPENDED = "Suspended"
    RUNNING = "Running"
    STALLED = "Stalled"
    WITHOUT_AGENT = "WithoutAgent"
    COMPLETE = "Complete"
    FAILED = "Failed"


FINAL = (ConditionType.COMPLETE, ConditionType.FAILED)
