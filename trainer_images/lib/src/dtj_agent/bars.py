"""Progress bars, which are understood only together with those before: which one is the training's, and where in it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple


class Place(NamedTuple):
    """Where a bar says that the training is; the first fields of a Reading."""

    step: int | None = None
    total_steps: int | None = None
    epoch: float | None = None
    total_epochs: float | None = None
    percent: float | None = None


_COUNT = re.compile(
    r"[^|]*\| *(?P<done>[\d.]+[kMGTP]?)/(?P<total>[\d.]+[kMGTP]?) "
    r"\[(?P<elapsed>[\d:]+)<[\d:?]+, *(?P<rate>[^,\]]*)"
)
_BESIDE_TRAINING = re.compile(
    r"^(?!.*train).*\b(?:valid|val\b|eval|test|predict|infer|sanity|download|fetch|upload|load|sav|writ|read|tokeniz|map"
    r"|filter|generat|extract|cach|pack|shard|preprocess|prepar|comput|compress|convert|warm)",
    re.IGNORECASE,
)
"""Names of bars that are not the training's."""

LATE_S = 2.0
"""A bar that says it runs for that much longer than its pass does is of a rank that has not ended the one before ..."""

BEHIND_S = 60.0
"""... for at most that long: tqdm tells time by the wall clock, which may be set."""

_NUMBERED_EPOCH = re.compile(r"epoch *[:#=\[(]? *(\d+)(?: *(?:/|of) *(\d+))?", re.IGNORECASE)
_EPOCHS = re.compile(r"\bepochs?\b", re.IGNORECASE)


class Bars:
    """The bars of tqdm that one process draws.

    - A bar whose name tells an epoch's number ("Epoch 3", "Epoch 3/10") counts the steps of that epoch.
    - A bar named after epochs, or counting them ("epoch/s"), counts epochs; the first bar below it, their steps.
    - Else the training's is the first bar that is not below another. A later one takes its place when it is longer or
      took longer; not when it is drawn beside one that is drawn again and again (a training loop with one bar an
      epoch): then the steps of the former passes are added, and the total is unknown.
    - Several ranks may draw the same bar to the same output (below torchrun): the one that is ahead counts.
    - Bars named after something else than training (validation, downloads) and those that count bytes say nothing.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.by_lightning = False
        self.by_transformers = False
        self._epochs: tuple[int, int] | None = None
        self._main: _Main | None = None
        self._first_epoch = 0
        """What the bar of epochs showed when the one below it was first seen: more than 0 after a restart."""
        self._epoch: tuple[int, int, int] | None = None
        """Of the bar with an epoch's number: that number, steps done, steps in all."""
        self._counts_from_0 = False

    def read(self, text: str, below_another: bool) -> Place | None:
        """Where training is by this state of a bar; None when it says nothing of it."""
        if "v_num=" in text or " DataLoader " in text or text.startswith("Training: |"):
            self.by_lightning = True
        head, _, tail = text.partition("%|")
        found = _COUNT.match(tail)
        name = head.rstrip("0123456789").rstrip(" :")
        if found is None or found["rate"].endswith("B/s") or _BESIDE_TRAINING.search(name):
            return None
        if not (found["done"].isdigit() and found["total"].isdigit()):  # as in 1.2k/5.0k: no exact steps
            percent = head[len(head.rstrip("0123456789")) :]
            return None if below_another or not percent else Place(percent=float(percent))
        done, total = int(found["done"]), int(found["total"])
        if numbered := _NUMBERED_EPOCH.search(name):
            return self._read_epoch(int(numbered[1]), int(numbered[2]) if numbered[2] else None, done, total)
        if _EPOCHS.search(name) or _EPOCHS.search(found["rate"]):
            self._epochs = done, total
            return Place(epoch=min(done + 1, total), total_epochs=total)
        bar = _Main(name, total, below_another)
        return self._read_steps(bar, done, _seconds(found["elapsed"]))

    def _read_epoch(self, epoch: int, epochs: int | None, done: int, total: int) -> Place | None:
        self._counts_from_0 |= epoch == 0 or self.by_lightning
        last = self._epoch
        if last is not None and last[0] == epoch and (total != last[2] or done < last[1]):
            return None  # another bar of this epoch, or this one, drawn empty before the next epoch begins
        self._epoch = epoch, done, total
        before = epoch if self._counts_from_0 else epoch - 1
        return Place(before * total + done, epochs * total if epochs else None, before + 1, epochs)

    def _read_steps(self, bar: _Main, done: int, elapsed_s: int) -> Place | None:
        if bar != self._main:
            if bar.below_another and self._epochs is None:
                return None
            if self._main is not None and not self._main.gives_way_to(bar, elapsed_s):
                return None
            self._main = bar
            self._first_epoch = 0 if self._epochs is None else self._epochs[0]
        bar = self._main
        if not bar.draw(done, elapsed_s, self._clock()):
            return None
        if self._epochs is not None:
            epoch, epochs = self._epochs
            # When an epoch ends, the bar of epochs is drawn before the one below it is empty again.
            is_ahead = epoch - self._first_epoch > bar.passes
            step = epoch * bar.total + (0 if is_ahead or epoch >= epochs else done)
            return Place(step, epochs * bar.total, min(epoch + 1, epochs), epochs)
        return Place(bar.passes * bar.total + done, bar.total if bar.passes == 0 else None)


class _Main:
    """The bar that is taken for the training's."""

    def __init__(self, name: str, total: int, below_another: bool) -> None:
        self.total = total
        self.below_another = below_another
        self.passes = 0
        """How often it has begun anew."""
        self._name = name
        self._done = 0
        self._elapsed_s = 0
        self._begun_at: float | None = None
        """When the current pass began; None in the first."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Main) and self._looks == other._looks

    def __hash__(self) -> int:
        return hash(self._looks)

    @property
    def _looks(self) -> tuple[str, int, bool]:
        return self._name, self.total, self.below_another

    def draw(self, done: int, elapsed_s: int, now: float) -> bool:
        """Take note of a state; False for one of another rank, which is a little behind."""
        if self._begun_at is not None and elapsed_s - LATE_S > now - self._begun_at < BEHIND_S:
            return False  # of the pass before
        if 2 * done < self._done:
            self.passes += 1
            self._begun_at = now - elapsed_s
        elif done < self._done:
            return False
        self._done = done
        self._elapsed_s = max(self._elapsed_s, elapsed_s)
        return True

    def gives_way_to(self, other: _Main, elapsed_s: int) -> bool:
        return self.passes == 0 and (other.total >= self.total or elapsed_s > self._elapsed_s)


def _seconds(text: str) -> int:
    """Seconds of "01:02:03"."""
    seconds = 0
    for part in text.split(":"):
        seconds = seconds * 60 + int(part or 0)
    return seconds


_KERAS_EPOCH = re.compile(r"Epoch (\d+)/(\d+)$")
_KERAS_BAR = re.compile(r"(\d+)/(\d+|Unknown) +(?:━|\[[=>]|- |\d+m?s )")


class Keras:
    """The bar of Keras, new and old, and its lines without a bar (``verbose=2``)."""

    def __init__(self) -> None:
        self._epoch: tuple[int, int] | None = None
        self._batches: int | None = None
        self._done = 0

    def see_epoch(self, text: str) -> None:
        """Take note of the line above a bar."""
        if found := _KERAS_EPOCH.match(text):
            self._epoch = int(found[1]), int(found[2])
            self._batches, self._done = None, 0

    def read(self, text: str) -> Place | None:
        """Where training is; None for the bars of ``evaluate`` and ``predict``, which have no epoch."""
        found = _KERAS_BAR.match(text)
        if found is None or self._epoch is None:
            return None
        done, batches = int(found[1]), int(found[2]) if found[2].isdigit() else 0
        if self._batches is None:
            self._batches = batches
        if batches != self._batches or done < self._done:
            return None
        self._done = done
        epoch, epochs = self._epoch
        if not batches:  # Keras learns it in the first epoch
            return Place(done if epoch == 1 else None, None, epoch, epochs)
        return Place((epoch - 1) * batches + done, epochs * batches, epoch, epochs)
