"""What Hugging Face's callback says of the training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dtj_agent import protocol


def news(message: Mapping[str, Any]) -> dict[str, Any] | None:
    """The callback's message as fields of ``state.News``; None when it is none.

    All its metrics are texts. It tells the step, the epoch and the total among them, except for the last message, which
    says 100 %.
    """
    status = message.get("trainerStatus")
    if not isinstance(status, dict):
        return None
    given = status.get("metrics")
    metrics = dict(_metric(entry) for entry in given) if isinstance(given, list) else {}
    epoch = metrics.pop("epoch", None)
    return {
        "source": protocol.HUGGING_FACE,
        "step": metrics.pop("current_step", None),
        "total_steps": metrics.pop("total_steps", None),
        "epoch": metrics.pop("current_epoch", epoch),
        "percent": status.get("progressPercentage"),
        "eta_seconds": status.get("estimatedRemainingSeconds"),
        "metrics": metrics,
    }


def _metric(entry: object) -> tuple[str, float | None]:
    if not isinstance(entry, dict) or not isinstance(entry.get("value"), str):
        return "", None
    try:
        return str(entry.get("name")), float(entry["value"])
    except ValueError:
        return "", None
