"""Lightning's callback, called in the order of ``Trainer.fit``.

https://lightning.ai/docs/pytorch/stable/common/lightning_module.html#hooks
"""

import pickle
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from dtj_trainer.lightning import LightningHooks, ProgressCallback, for_lightning, for_pytorch_lightning
from tests.unit.trainer.conftest import Reported


@dataclass
class Trainer:
    """Fits as Lightning does."""

    max_epochs: int | None = 2
    batches: int = 4
    accumulated: int = 1
    estimated: float | Exception = 8
    is_global_zero: bool = True
    global_step: int = 0
    current_epoch: int = 0
    sanity_checking: bool = False
    metrics_read: int = 0
    callback_metrics_now: dict[str, object] = field(default_factory=dict)

    @property
    def estimated_stepping_batches(self) -> float:
        if isinstance(self.estimated, Exception):
            raise self.estimated
        return self.estimated

    @property
    def callback_metrics(self) -> dict[str, object]:
        self.metrics_read += 1
        return self.callback_metrics_now

    def fit(self, callback: LightningHooks) -> Iterator[str]:
        """Stops after each batch and in each validation."""
        self.sanity_checking = True
        yield from self._validate(callback)
        self.sanity_checking = False
        callback.on_train_start(self, None)
        for _ in range(self.current_epoch, self.max_epochs or 1):
            callback.on_train_epoch_start(self, None)
            for batch in range(self.batches):
                callback.on_before_backward(self, None, 0.5)
                self.global_step += (batch + 1) % self.accumulated == 0
                self.callback_metrics_now["train_loss"] = 1 / self.global_step if self.global_step else 1.0
                callback.on_train_batch_end(self, None, {"loss": 0.5}, None, batch)
                yield f"batch {batch}"
            yield from self._validate(callback)
            self.current_epoch += 1
        callback.on_train_end(self, None)

    def _validate(self, callback: LightningHooks) -> Iterator[str]:
        callback.on_validation_start(self, None)
        yield "validation"
        self.callback_metrics_now["val_loss"] = 99.0 if self.sanity_checking else 0.25
        callback.on_validation_end(self, None)


def test_steps_epochs_metrics_and_phases(reported: Reported) -> None:
    seen = [(at, *reported.steps, reported.now.phase) for at in Trainer(batches=2, estimated=4).fit(LightningHooks())]
    assert seen == [
        ("validation", None, None, "sanity check"),
        ("batch 0", 1, 4, "train"),
        ("batch 1", 2, 4, "train"),
        ("validation", 2, 4, "validation"),
        ("batch 0", 3, 4, "train"),
        ("batch 1", 4, 4, "train"),
        ("validation", 4, 4, "validation"),
    ]
    assert (reported.epochs, reported.now.phase) == ((2, 2), "end")
    assert reported.now.metrics == {"train_loss": 0.25, "val_loss": 0.25}
    assert reported.now.local_seconds is not None


def test_the_check_before_training_gives_no_metrics(reported: Reported) -> None:
    fit = Trainer().fit(LightningHooks())
    assert [next(fit), next(fit)] == ["validation", "batch 0"]
    assert reported.now.metrics.get("val_loss") != 0.25


@pytest.mark.parametrize(
    ("trainer", "steps", "epochs"),
    [
        pytest.param(Trainer(accumulated=2, estimated=4), (4, 4), (2, 2), id="gradients accumulated"),
        pytest.param(Trainer(global_step=4, current_epoch=1), (8, 8), (2, 2), id="from a checkpoint"),
        pytest.param(Trainer(max_epochs=-1, batches=0, estimated=float("inf")), (0, None), (None, None), id="endless"),
        pytest.param(Trainer(max_epochs=None, estimated=-1), (4, None), (1, None), id="no limits"),
        pytest.param(Trainer(estimated=RuntimeError("no such number")), (8, None), (2, 2), id="cannot be estimated"),
    ],
)
def test_totals(
    trainer: Trainer,
    steps: tuple[int, int | None],
    epochs: tuple[float | None, float | None],
    reported: Reported,
    caplog: pytest.LogCaptureFixture,
) -> None:
    list(trainer.fit(LightningHooks()))
    assert (reported.steps, reported.epochs) == (steps, epochs)
    assert caplog.text == ""


@pytest.mark.parametrize(
    ("is_global_zero", "read"),
    [
        pytest.param(True, 1 + 2, id="rank 0: once a second and after each validation"),
        pytest.param(False, 2, id="others: after each validation, where all processes do"),
    ],
)
def test_metrics_are_read_seldom(is_global_zero: bool, read: int, reported: Reported) -> None:
    trainer = Trainer(is_global_zero=is_global_zero, batches=50)
    list(trainer.fit(LightningHooks()))
    assert trainer.metrics_read == read


class LightningCallback:
    """What a callback inherits from Lightning."""


@pytest.fixture
def frameworks(monkeypatch: pytest.MonkeyPatch) -> dict[str, type]:
    """Both packages, each with a class of its own."""
    classes = {name: type(name, (LightningCallback,), {}) for name in ("lightning.pytorch", "pytorch_lightning")}
    monkeypatch.setitem(sys.modules, "lightning", SimpleNamespace())
    for name, base in classes.items():
        monkeypatch.setitem(sys.modules, name, SimpleNamespace(Callback=base))
    return classes


def test_each_package_finds_a_callback_of_its_own_class(frameworks: dict[str, type], reported: Reported) -> None:
    found = [*for_lightning(), *for_pytorch_lightning()]
    assert [isinstance(callback, base) for callback, base in zip(found, frameworks.values(), strict=True)] == [True] * 2


def test_outside_of_a_job_they_find_none(frameworks: dict[str, type], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DTJ_JOB_NAME", raising=False)
    assert [*for_lightning(), *for_pytorch_lightning()] == []


def test_a_package_that_has_changed_goes_on_without(
    monkeypatch: pytest.MonkeyPatch, reported: Reported, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "pytorch_lightning", SimpleNamespace())
    assert for_pytorch_lightning() == []


def test_it_can_be_sent_to_another_process(frameworks: dict[str, type], reported: Reported) -> None:
    callback: Any = ProgressCallback()
    list(Trainer().fit(callback))
    again: Any = pickle.loads(pickle.dumps(callback))  # noqa: S301 - made here
    assert type(again).__mro__[-3] is frameworks["lightning.pytorch"]
    list(Trainer(estimated=12).fit(again))
    assert reported.steps == (8, 12)
