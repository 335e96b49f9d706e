"""A callback for Keras 3 and Keras 2 (``tf_keras``): ``fit(..., callbacks=[dtj_trainer.keras.ProgressCallback()])``."""

# What frameworks give is of types that only they have, and hooks have parameters that not all of them use.
# ruff: noqa: ANN401, ARG002

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from dtj_trainer.hooks import Hooks, RecentMetrics, loaded, numbers, undisturbed
from dtj_trainer.process import REPORTER


class KerasHooks(Hooks):
    """Reports steps, epochs and logged metrics of ``fit``; steps of earlier runs are known from the optimizer."""

    async_safe = True
    """Keras 3 may call the hooks of steps from a thread of its own, instead of waiting for each step's logs."""

    _supports_tf_logs = True
    """Keras 2 need not wait for each step's logs either; under ParameterServerStrategy it accepts no others."""

    params: Mapping[str, Any]
    model: Any

    def __init__(self) -> None:
        super().__init__()
        self._recent = RecentMetrics()
        self._begin()

    def _begin(self) -> None:
        self._epoch = 0
        self._before_epoch: int | None = None
        self._step = 0
        self._steps_per_epoch: int | None = None

    @undisturbed
    def on_train_begin(self, logs: Mapping[str, Any] | None = None) -> None:
        self._begin()
        REPORTER.report(phase="train")

    @undisturbed
    def on_epoch_begin(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        if self._before_epoch is not None:
            self._before_epoch = self._step
        self._epoch = epoch
        REPORTER.report(epoch=epoch + 1, total_epochs=self.params.get("epochs"), phase="train")

    @undisturbed
    def on_train_batch_begin(self, batch: int, logs: Mapping[str, Any] | None = None) -> None:
        if self._before_epoch is None:
            self._before_epoch = self._steps_before(batch) - batch

    @undisturbed
    def on_train_batch_end(self, batch: int, logs: Mapping[str, Any] | None = None) -> None:
        # A step may be told of later than the next one.
        self._step = max(self._step, (self._before_epoch or 0) + batch + 1)
        REPORTER.report(step=self._step, total_steps=self._total_steps(), metrics=self._recent.of(lambda: logs or {}))

    @undisturbed
    def on_test_begin(self, logs: Mapping[str, Any] | None = None) -> None:
        REPORTER.report(phase="validation")

    @undisturbed
    def on_test_end(self, logs: Mapping[str, Any] | None = None) -> None:
        REPORTER.report(phase="train")

    @undisturbed
    def on_epoch_end(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        if self._before_epoch is not None:
            self._steps_per_epoch = self._step - self._before_epoch
        REPORTER.report(metrics=numbers(logs or {}))

    def _steps_before(self, batch: int) -> int:
        """Steps done before the first one of this ``fit``: by its first epoch, or by an optimizer that did more."""
        by_epoch = self._epoch * (self.params.get("steps") or 0) + batch
        try:
            return max(by_epoch, int(self.model.optimizer.iterations))
        except (AttributeError, TypeError, ValueError, RuntimeError):  # there is none, or it counts otherwise
            return by_epoch

    def _total_steps(self) -> int | None:
        # How long a data set is, its first epoch may have to show.
        steps, epochs = self.params.get("steps") or self._steps_per_epoch, self.params.get("epochs")
        if not steps or not epochs or self._before_epoch is None:
            return None
        return self._before_epoch + int(steps) * (int(epochs) - self._epoch)


class ProgressCallback(KerasHooks):
    """A callback of the Keras that the program uses.

    ``keras``: its module, only needed where both ``keras`` and ``tf_keras`` are imported and TF_USE_LEGACY_KERAS does
    not say which one it is. Raises ImportError where there is none.
    """

    def __new__(cls, keras: ModuleType | None = None) -> Any:
        return cls.joined((keras or _keras()).callbacks.Callback)

    def __init__(self, keras: ModuleType | None = None) -> None:
        super().__init__()


def _keras() -> ModuleType:
    legacy = os.environ.get("TF_USE_LEGACY_KERAS", "").lower() in ("1", "true")
    names = ("tf_keras", "keras") if legacy else ("keras", "tf_keras")
    return loaded(*names) or importlib.import_module(names[0])
