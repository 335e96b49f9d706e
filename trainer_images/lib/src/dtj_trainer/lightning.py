"""A callback for Lightning, which finds it by itself where this package is installed or comes with the agent.

By hand: ``Trainer(callbacks=[dtj_trainer.lightning.ProgressCallback()])``.
"""

# What frameworks give is of types that only they have, and hooks have parameters that not all of them use.
# ruff: noqa: ANN401, ARG002

from __future__ import annotations

import importlib
import math
import os
import time
from types import ModuleType
from typing import Any

from dtj_trainer.environment import JOB_NAME
from dtj_trainer.hooks import Hooks, RecentMetrics, loaded, numbers, undisturbed
from dtj_trainer.process import REPORTER


class LightningHooks(Hooks):
    """Reports steps, epochs and logged metrics; as local time, what passes before the backward pass of a batch.

    Reading Lightning's metrics can be an operation of all processes. So they are read where Lightning has the values
    at hand: in the middle of an epoch, and after a validation.
    """

    def __init__(self) -> None:
        super().__init__()
        self._recent = RecentMetrics()
        self._since: float | None = None
        self._total_steps: int | None = None

    @undisturbed
    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        self._since = time.monotonic()
        REPORTER.report(step=trainer.global_step, total_epochs=_bound(trainer.max_epochs), phase="train")
        self._total_steps = _total_steps(trainer)

    @undisturbed
    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        self._since = time.monotonic()
        REPORTER.report(epoch=trainer.current_epoch + 1, phase="train")

    @undisturbed
    def on_before_backward(self, trainer: Any, pl_module: Any, loss: Any) -> None:
        if self._since is not None:
            REPORTER.measure(time.monotonic() - self._since)
            self._since = None

    @undisturbed
    def on_train_batch_end(self, trainer: Any, pl_module: Any, *_: Any, **__: Any) -> None:
        self._since = time.monotonic()
        metrics = self._recent.of(lambda: trainer.callback_metrics) if trainer.is_global_zero else None
        REPORTER.report(step=trainer.global_step, total_steps=self._total_steps, metrics=metrics)

    @undisturbed
    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        REPORTER.report(phase="sanity check" if trainer.sanity_checking else "validation")

    @undisturbed
    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        self._since = time.monotonic()
        if not trainer.sanity_checking:
            REPORTER.report(metrics=numbers(trainer.callback_metrics), phase="train")

    @undisturbed
    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        REPORTER.report(step=trainer.global_step, phase="end")


def _total_steps(trainer: Any) -> int | None:
    try:
        return _bound(trainer.estimated_stepping_batches)
    except Exception:  # noqa: BLE001 - some schedules of gradient accumulation have no such number, and say so
        return None


def _bound(number: float | None) -> int | None:
    """A limit of Lightning's: None, -1 and infinity are none."""
    return None if number is None or number < 0 or not math.isfinite(number) else int(number)


class ProgressCallback(LightningHooks):
    """A callback of the Lightning that the program uses: ``lightning``, or ``pytorch_lightning``.

    ``lightning``: the module that has the ``Callback``, only needed where both are imported. Raises ImportError where
    there is none.
    """

    def __new__(cls, lightning: ModuleType | None = None) -> Any:
        return cls.joined((lightning or _lightning()).Callback)

    def __init__(self, lightning: ModuleType | None = None) -> None:
        super().__init__()


def _lightning() -> ModuleType:
    return loaded("lightning.pytorch", "pytorch_lightning") or importlib.import_module("lightning.pytorch")


def for_lightning() -> list[ProgressCallback]:
    """Entry point of the group ``lightning.pytorch.callbacks_factory``: no callback outside of a job."""
    return _found("lightning.pytorch")


def for_pytorch_lightning() -> list[ProgressCallback]:
    """Entry point of the group ``pytorch_lightning.callbacks_factory``: no callback outside of a job."""
    return _found("pytorch_lightning")


def _found(name: str) -> list[ProgressCallback]:
    if JOB_NAME not in os.environ:
        return []
    try:
        return [ProgressCallback(importlib.import_module(name))]
    except Exception as error:  # noqa: BLE001 - nobody asked for it, so it must not stop anybody
        REPORTER.complain(error)
        return []
