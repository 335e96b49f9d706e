"""Counting steps where training asks for its next batch."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

from dtj_trainer.process import REPORTER

Batch = TypeVar("Batch")


class Track(Generic[Batch]):
    """Gives the batches of ``loader`` as they are, and reports a step when the next one is asked for.

    Each time it is iterated is one epoch further.
    """

    def __init__(self, loader: Iterable[Batch], epoch: int, epochs: int | None, total_steps: int | None) -> None:
        self._loader = loader
        self._epoch = epoch
        self._epochs = epochs
        self._total_steps = total_steps
        self._step: int | None = None

    def __len__(self) -> int:
        """Batches in one epoch; raises TypeError where the loader does not know."""
        return len(self._loader)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[Batch]:
        per_epoch = _length(self._loader)
        step = self._begin(per_epoch)
        batches = iter(self._loader)
        while True:
            began = time.monotonic()
            try:
                batch = next(batches)
            except StopIteration:
                break
            waited = time.monotonic() - began
            yield batch
            step += 1
            self._step = step
            # Only who trains knows when a step begins to wait for the other processes. Where that is not reported by
            # hand, the time that the batch took stands for what this process does alone.
            REPORTER.measure(waited)
            REPORTER.report(step=step)
        self._epoch += 1

    def _begin(self, per_epoch: int | None) -> int:
        """Report what is known before the first step of this epoch; steps before it."""
        if self._step is None:
            self._step = self._epoch * per_epoch if per_epoch is not None else _steps_before(self._epoch)
        total_steps = self._total_steps
        if total_steps is None and per_epoch is not None:
            total_steps = per_epoch * (self._epochs or 1)
        REPORTER.report(step=self._step, total_steps=total_steps, epoch=self._epoch + 1, total_epochs=self._epochs)
        return self._step


def track(
    loader: Iterable[Batch], *, epoch: int = 0, epochs: int | None = None, total_steps: int | None = None
) -> Track[Batch]:
    """Iterate ``loader`` and report each step that was done with a batch, with the epoch and the totals.

    ``epoch`` is the first, counted from 0; where each epoch calls this anew, it is the present one. ``epochs`` is how
    many the whole training has: this changes nothing but what is reported, one iteration is always one epoch.
    ``total_steps`` is only needed where ``len(loader)`` is not known, or not all batches are taken. A step counts when
    the next batch is asked for, so the one that a ``break`` ends does not. What ``loader`` raises passes through.
    """
    return Track(loader, epoch, epochs, total_steps)


def _steps_before(epoch: int) -> int:
    # How long an epoch is, nobody can say; what this process did of the earlier ones, it reported.
    reported = REPORTER.latest if epoch > 0 else None
    return 0 if reported is None or reported.step is None else reported.step


def _length(loader: object) -> int | None:
    try:
        return len(loader)  # type: ignore[arg-type]
    except Exception:  # noqa: BLE001 - loaders without a length say so by errors of several kinds
        return None
