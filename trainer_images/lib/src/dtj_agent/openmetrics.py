"""A training's progress as OpenMetrics text (https://prometheus.io/docs/specs/om/open_metrics_spec/)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

CONTENT_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"

_GAUGES = {
    "running": ("dtj_training_running", "Whether the command runs: 1, or 0 when it has ended."),
    "step": ("dtj_training_step", "Step that training is at."),
    "totalSteps": ("dtj_training_total_steps", "Steps of the whole training."),
    "firstStep": ("dtj_training_first_step", "First step of this attempt."),
    "epoch": ("dtj_training_epoch", "Epoch that training is at."),
    "totalEpochs": ("dtj_training_total_epochs", "Epochs of the whole training."),
    "percent": ("dtj_training_percent", "Share that is done, where no steps are told."),
    "stepsPerSecond": ("dtj_training_steps_per_second", "Steps per second of this attempt."),
    "samplesPerSecond": ("dtj_training_samples_per_second", "Samples per second of this attempt."),
    "reportAge": ("dtj_training_report_age_seconds", "Time since anything was heard of the training."),
    "stepAge": ("dtj_training_step_age_seconds", "Time since the step last changed."),
}
_METRIC = ("dtj_training_metric", "What the training tells of itself, by name.")
_REPORTING = ("dtj_training_ranks_reporting", "Ranks that report of themselves.")


def text(progress: Mapping[str, Any]) -> str:
    """``progress`` as ``State.progress`` tells it."""
    return "\n".join([*_lines(progress), "# EOF", ""])


def _lines(progress: Mapping[str, Any]) -> Iterator[str]:
    for field, (name, meaning) in _GAUGES.items():
        if field in progress:
            yield from _family(name, meaning)
            yield f"{name} {progress[field] + 0}"
    if "ranks" in progress:
        yield from _family(*_REPORTING)
        yield f"{_REPORTING[0]} {progress['ranks']['reporting']}"
    if "metrics" in progress:
        yield from _family(*_METRIC)
        for metric, value in progress["metrics"].items():
            yield f'{_METRIC[0]}{{name="{_escaped(metric)}"}} {value}'


def _family(name: str, meaning: str) -> Iterator[str]:
    yield f"# TYPE {name} gauge"
    yield f"# HELP {name} {meaning}"


def _escaped(label: str) -> str:
    return label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
