"""Keras's callback, called in the order of ``Model.fit`` (https://keras.io/api/callbacks/base_callback/)."""

import pickle
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from dtj_trainer.keras import KerasHooks, ProgressCallback
from tests.unit.trainer.conftest import Reported


class KerasCallback:
    """What a callback inherits from Keras."""

    def __init__(self) -> None:
        self.inherited = True

    def set_params(self, params: Mapping[str, Any]) -> None:
        self.params = params


@dataclass
class Model:
    """Fits as Keras does; its optimizer counts steps unless there is none."""

    iterations: int | None = 0
    optimizer: SimpleNamespace | None = field(init=False)

    def __post_init__(self) -> None:
        self.optimizer = None if self.iterations is None else SimpleNamespace(iterations=self.iterations)

    def fit(
        self, callback: KerasHooks, *, epochs: int, batches: int, known: bool = True, begin: tuple[int, int] = (0, 0)
    ) -> Iterator[str]:
        """``known``: whether Keras knows the number of batches; ``begin``: epoch and batch. Stops after each step."""
        callback.params = {"verbose": 0, "epochs": epochs, "steps": batches if known else None}
        callback.model = self
        callback.on_train_begin(None)
        for epoch in range(begin[0], epochs):
            callback.on_epoch_begin(epoch, None)
            for batch in range(begin[1] if epoch == begin[0] else 0, batches):
                callback.on_train_batch_begin(batch, None)
                if self.optimizer is not None:
                    self.optimizer.iterations += 1
                callback.on_train_batch_end(batch, {"loss": 1 / (batch + 1)})
                yield f"{epoch}.{batch}"
            callback.on_test_begin(None)
            yield f"{epoch} test"
            callback.on_test_end({"loss": 0.5})
            callback.on_epoch_end(epoch, {"loss": 0.25, "val_loss": 0.5, "kind": "text"})


def test_steps_epochs_metrics_and_phases(reported: Reported) -> None:
    seen = [(at, *reported.steps, reported.now.phase) for at in Model().fit(KerasHooks(), epochs=2, batches=2)]
    assert seen == [
        ("0.0", 1, 4, "train"),
        ("0.1", 2, 4, "train"),
        ("0 test", 2, 4, "validation"),
        ("1.0", 3, 4, "train"),
        ("1.1", 4, 4, "train"),
        ("1 test", 4, 4, "validation"),
    ]
    assert reported.epochs == (2, 2)
    assert reported.now.metrics == {"loss": 0.25, "val_loss": 0.5}


@pytest.mark.parametrize(
    ("iterations", "begin", "known", "steps"),
    [
        pytest.param(0, (2, 0), True, (12, 12), id="weights restored, at an epoch"),
        pytest.param(8, (2, 0), True, (12, 12), id="optimizer restored too"),
        pytest.param(9, (2, 1), True, (12, 12), id="in the middle of an epoch"),
        pytest.param(100, (0, 0), True, (112, 112), id="trained before"),
        pytest.param(None, (0, 0), True, (12, 12), id="no optimizer"),
        pytest.param(0, (0, 0), False, (12, 12), id="length not known before the first epoch has ended"),
        pytest.param(8, (2, 0), False, (12, None), id="length not known, restored"),
    ],
)
def test_steps_go_on_where_they_were(
    iterations: int | None, begin: tuple[int, int], known: bool, steps: tuple[int, int | None], reported: Reported
) -> None:
    list(Model(iterations).fit(KerasHooks(), epochs=3, batches=4, known=known, begin=begin))
    assert reported.steps == steps


def test_fit_called_once_for_each_epoch_goes_on(reported: Reported) -> None:
    model, callback = Model(), KerasHooks()
    for _ in range(3):
        list(model.fit(callback, epochs=1, batches=4))
    assert reported.steps == (12, 12)


def test_steps_told_in_another_order_do_not_go_back(reported: Reported) -> None:
    callback = KerasHooks()
    fit = Model().fit(callback, epochs=1, batches=5)
    assert [next(fit) for _ in range(3)] == ["0.0", "0.1", "0.2"]
    callback.on_train_batch_end(0, {})
    assert reported.steps == (3, 5)


def test_what_keras_does_unexpectedly_is_left_out(reported: Reported, caplog: pytest.LogCaptureFixture) -> None:
    callback = KerasHooks()
    list(Model().fit(callback, epochs=1, batches=1))
    callback.on_train_batch_end("first", None)
    assert reported.steps == (1, 1)
    assert "left out" in caplog.text


def test_it_is_of_the_class_of_the_keras_in_use(reported: Reported) -> None:
    keras = ModuleType("keras")
    keras.callbacks = SimpleNamespace(Callback=KerasCallback)  # type: ignore[attr-defined]
    callback = ProgressCallback(keras)
    assert isinstance(callback, KerasCallback)
    assert isinstance(callback, ProgressCallback)
    assert callback.inherited


@pytest.mark.parametrize(
    ("legacy", "loaded", "expected"),
    [
        pytest.param(None, ["keras", "tf_keras"], "keras", id="both"),
        pytest.param("1", ["keras", "tf_keras"], "tf_keras", id="both, the old one wanted"),
        pytest.param(None, ["tf_keras"], "tf_keras", id="only the old one"),
        pytest.param("1", ["keras"], "keras", id="only the new one"),
    ],
)
def test_it_takes_the_keras_that_the_program_uses(
    legacy: str | None, loaded: list[str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TF_USE_LEGACY_KERAS", raising=False)
    if legacy is not None:
        monkeypatch.setenv("TF_USE_LEGACY_KERAS", legacy)
    for name in loaded:
        base = type(f"CallbackOf_{name}", (KerasCallback,), {})
        module = SimpleNamespace(callbacks=SimpleNamespace(Callback=base))
        monkeypatch.setitem(sys.modules, name, module)
    assert type(ProgressCallback()).__mro__[-3].__name__ == f"CallbackOf_{expected}"


def test_it_can_be_sent_to_another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    module = SimpleNamespace(callbacks=SimpleNamespace(Callback=KerasCallback))
    monkeypatch.setitem(sys.modules, "keras", module)
    callback: Any = ProgressCallback(module)  # type: ignore[arg-type]
    callback.inherited = "still"
    assert pickle.loads(pickle.dumps(callback)).inherited == "still"  # noqa: S301 - made here
