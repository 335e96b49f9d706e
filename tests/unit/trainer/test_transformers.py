"""Hugging Face's callback, called in the order of ``Trainer.train``.

https://huggingface.co/docs/transformers/main_classes/callback
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from dtj_trainer.transformers import ProgressCallback, TransformersHooks
from tests.unit.trainer.conftest import Reported


@dataclass
class State:
    global_step: int = 0
    max_steps: int = 6
    epoch: float | None = 0


def train(callback: TransformersHooks, state: State, *, per_epoch: int = 3, epochs: float = 2.0) -> Iterator[str]:
    """Trains as Hugging Face's Trainer does, with an evaluation after each epoch; stops after each step."""
    args, control = SimpleNamespace(num_train_epochs=epochs), object()
    callback.on_train_begin(args, state, control, model=None)
    while state.global_step < state.max_steps:
        callback.on_step_begin(args, state, control, model=None)
        state.global_step += 1
        state.epoch = state.global_step / per_epoch
        callback.on_step_end(args, state, control, model=None)
        yield f"step {state.global_step}"
        if state.global_step % per_epoch == 0:
            callback.on_log(args, state, control, logs={"loss": 0.5, "epoch": state.epoch, "total_flos": 1e9})
            callback.on_prediction_step(args, state, control)
            yield "evaluation"
            callback.on_log(args, state, control, logs={"eval_loss": 0.25, "eval_runtime": 2.0, "note": "text"})
    callback.on_train_end(args, state, control, model=None)


def test_steps_epochs_metrics_and_phases(reported: Reported) -> None:
    seen = [(at, *reported.steps, reported.now.epoch, reported.now.phase) for at in train(TransformersHooks(), State())]
    assert seen == [
        ("step 1", 1, 6, 1, "train"),
        ("step 2", 2, 6, 1, "train"),
        ("step 3", 3, 6, 1, "train"),
        ("evaluation", 3, 6, 1, "evaluation"),
        ("step 4", 4, 6, 2, "train"),
        ("step 5", 5, 6, 2, "train"),
        ("step 6", 6, 6, 2, "train"),
        ("evaluation", 6, 6, 2, "evaluation"),
    ]
    assert (reported.epochs, reported.now.phase) == ((2, 2), "end")
    assert reported.now.metrics == {"loss": 0.5, "eval_loss": 0.25}
    assert reported.now.local_seconds is not None


@pytest.mark.parametrize(
    ("state", "epochs", "steps"),
    [
        pytest.param(State(global_step=4, epoch=4 / 3), 2.0, (6, 6), id="from a checkpoint"),
        pytest.param(State(max_steps=2), 0.5, (2, 2), id="half an epoch"),
        pytest.param(State(max_steps=1, epoch=None), 1.0, (1, 1), id="no epoch yet"),
    ],
)
def test_totals(state: State, epochs: float, steps: tuple[int, int], reported: Reported) -> None:
    list(train(TransformersHooks(), state, epochs=epochs))
    assert reported.steps == steps


def test_the_first_epoch_is_the_first_from_the_beginning(reported: Reported) -> None:
    TransformersHooks().on_train_begin(SimpleNamespace(num_train_epochs=1.5), State(), object(), model=None)
    assert (reported.steps, reported.epochs, reported.now.phase) == ((0, 6), (1, 2), "train")


class TransformersCallback:
    """What a callback inherits from transformers."""

    def on_save(self) -> str:
        return "inherited"


def test_it_is_a_callback_of_transformers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", SimpleNamespace(TrainerCallback=TransformersCallback))
    callback = ProgressCallback()
    assert isinstance(callback, TransformersCallback)
    assert callback.on_save() == "inherited"


def test_without_transformers_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ImportError, match="transformers"):
        ProgressCallback()
