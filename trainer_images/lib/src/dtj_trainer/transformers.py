"""A callback for Hugging Face: ``Trainer(..., callbacks=[dtj_trainer.transformers.ProgressCallback()])``."""

# What frameworks give is of types that only they have, and hooks have parameters that not all of them use.
# ruff: noqa: ANN401, ARG002

from __future__ import annotations

import importlib
import math
import time
from collections.abc import Mapping
from typing import Any

from dtj_trainer.hooks import Hooks, numbers, undisturbed
from dtj_trainer.process import REPORTER

NO_METRICS = ("epoch", "total_flos", "step", "_runtime", "_per_second")
"""Ends of the names of what is logged beside the metrics."""


class TransformersHooks(Hooks):
    """Reports steps, epochs and logged metrics; as local time, what passes between two steps: getting the batches."""

    def __init__(self) -> None:
        super().__init__()
        self._step_ended: float | None = None

    @undisturbed
    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._step_ended = time.monotonic()
        _report(args, state, phase="train")

    @undisturbed
    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if self._step_ended is not None:
            REPORTER.measure(time.monotonic() - self._step_ended)

    @undisturbed
    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._step_ended = time.monotonic()
        _report(args, state, phase="train")

    @undisturbed
    def on_prediction_step(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._step_ended = None  # evaluation is no part of the next step
        REPORTER.report(phase="evaluation")

    @undisturbed
    def on_log(self, args: Any, state: Any, control: Any, logs: Mapping[str, Any] | None = None, **_: Any) -> None:
        known = {name: value for name, value in (logs or {}).items() if not name.endswith(NO_METRICS)}
        REPORTER.report(metrics=numbers(known))

    @undisturbed
    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        _report(args, state, phase="end")


def _report(args: Any, state: Any, phase: str) -> None:
    REPORTER.report(
        step=state.global_step,
        total_steps=state.max_steps or None,
        epoch=max(1, math.ceil(state.epoch or 0)),
        total_epochs=math.ceil(args.num_train_epochs),
        phase=phase,
    )


class ProgressCallback(TransformersHooks):
    """A ``transformers.TrainerCallback``. Raises ImportError where transformers is not installed."""

    def __new__(cls) -> Any:
        return cls.joined(importlib.import_module("transformers").TrainerCallback)
