"""What the lines that a training prints say of its progress, as the common tools print them."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from dtj_agent.bars import Bars, Keras

LONGEST_LINE = 4096
"""Characters of a line that are looked at."""

UP = "\x1b[A"
"""Written after the state of a bar that is below another: the cursor goes back up."""

_ESCAPE_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class Reading(NamedTuple):
    """What one line says of the training; None is what it does not say."""

    source: str
    step: int | None = None
    """Steps done since the first epoch's begin."""
    total_steps: int | None = None
    epoch: float | None = None
    """The current one, counted from 1. Of "transformers" and "horovod": epochs done, 2.5 in the middle of the third."""
    total_epochs: float | None = None
    percent: float | None = None
    metrics: Mapping[str, float] = {}
    samples_per_second: float | None = None


def printable(text: str) -> str:
    """The text without anything that would act on a terminal instead of being shown by it."""
    if text.isprintable():
        return text
    return _CONTROL.sub("", _ESCAPE_SEQUENCE.sub("", text))


class Reader:
    """Reads the lines of one process, stdout and stderr together: what some say rests on those before."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._bars = Bars(clock)
        self._keras = Keras()
        self._torchtitan_steps: int | None = None

    def read(self, line: str) -> Reading | None:
        """What a line says, or one state of a line that is drawn anew by carriage returns; with its colour codes."""
        text = line[:LONGEST_LINE]
        below_another = UP in text
        text = printable(text).strip()
        if "%|" in text or "Training: |" in text:
            return self._read_bar(text, below_another)
        if "━" in text or "/step" in text or "ETA: " in text:
            return self._read_keras(text)
        if "{'" in text:
            return self._read_transformers(text)
        if text.startswith("Epoch "):
            self._keras.see_epoch(text)
        if _TORCHTITAN_PLAN in text:
            self._see_torchtitan_plan(text)
        for mark, read in _STATELESS:
            if mark in text and (found := read(text)) is not None:
                return self._planned(found)
        return None

    def _read_bar(self, text: str, below_another: bool) -> Reading | None:
        place = self._bars.read(text, below_another)
        if place is None:
            return None
        source = "lightning" if self._bars.by_lightning else "transformers" if self._bars.by_transformers else "tqdm"
        metrics = numbers(_POSTFIX.findall(text.rpartition("[")[2]), without=("v_num",))
        return Reading(source, *place, metrics=metrics)

    def _read_keras(self, text: str) -> Reading | None:
        if found := _RICH.match(text):
            # Lightning counts from 0 here, also in the last of "Epoch 0/9".
            epoch, last, batch, batches = map(int, found.groups())
            step, total = epoch * batches + batch, (last + 1) * batches
            return Reading("lightning", step, total, epoch + 1, last + 1, metrics=numbers(_COLON.findall(text)))
        place = self._keras.read(text)
        return None if place is None else Reading("keras", *place, metrics=numbers(_COLON.findall(text)))

    def _see_torchtitan_plan(self, text: str) -> None:
        """Said once, before the first step: the lines of the steps do not tell how many there will be."""
        found = _TORCHTITAN_STEPS.search(text.partition(_TORCHTITAN_PLAN)[2])
        self._torchtitan_steps = int(found[1]) if found else None

    def _planned(self, found: Reading) -> Reading:
        of_torchtitan = found.source == "torchtitan" and found.step is not None
        return found._replace(total_steps=self._torchtitan_steps) if of_torchtitan else found

    def _read_transformers(self, text: str) -> Reading | None:
        found = dict(_QUOTED.findall(text))
        if "epoch" not in found:
            return None
        self._bars.by_transformers = True
        epoch = number(found.pop("epoch"))
        speed = number(found.pop("train_samples_per_second", ""))
        told = [(name, value) for name, value in found.items() if not name.endswith(("_runtime", "_per_second"))]
        return Reading("transformers", epoch=epoch, metrics=numbers(told), samples_per_second=speed)


def number(text: str) -> float | None:
    """A finite number; None for anything else."""
    try:
        value = float(text.replace(",", ""))
    except ValueError:
        return None
    return value if abs(value) < float("inf") else None


def numbers(pairs: Iterable[tuple[str, str]], without: tuple[str, ...] = ()) -> dict[str, float]:
    known = {name: number(value) for name, value in pairs if name not in without}
    return {name.strip().replace(" ", "_"): value for name, value in known.items() if value is not None}


_NUMBER = r"[-+]?\d+(?:,\d{3})*(?:\.\d*)?(?:[eE][-+]?\d+)?"
_END = r"(?=[,;|\])\s]|$)"
# What stands before a name makes each of them be tried once, and not again from its second character on.
_NAME = r"(?<![\w./-])([A-Za-z_][\w./-]*)"
_POSTFIX = re.compile(rf"{_NAME}=({_NUMBER}){_END}")
_COLON = re.compile(rf"{_NAME}: *({_NUMBER})%?{_END}")
_PAIR = re.compile(rf"{_NAME}(?:=|: +)({_NUMBER})%?{_END}")
_QUOTED = re.compile(rf"'([\w./-]+)': '?({_NUMBER})'?(?=[,}}])")
_RICH = re.compile(r"Epoch (\d+)/(\d+) +[━╸╺ ]+(\d+)/(\d+) ")
_MEGATRON = re.compile(r"\biteration +(\d+)/ *(\d+) \|")
_MEGATRON_TIME = "elapsed time per iteration (ms)"
_MEGATRON_BATCH = "global batch size"
_MEGATRON_OTHER = (
    "consumed samples",
    "skipped samples",
    "number of skipped iterations",
    "number of nan iterations",
    _MEGATRON_TIME,
    _MEGATRON_BATCH,
)
_TORCHTITAN = re.compile(r"(validate )?step: *(\d+) +loss: ")
_TORCHTITAN_PLAN = "Trainer is initialized with "
_TORCHTITAN_STEPS = re.compile(r"\btotal steps (\d+)\b")
_TRAIN_EPOCH = re.compile(r"\bTrain Epoch: (\d+) \[(\d+)/(\d+) \( *[\d.]+%\)\]")
_EPOCH = re.compile(r"\b[Ee]poch {0,4}([=:]?) {0,4}(\[?)(\d+)(?:\.\d+)?(?:/(\d+))?(?![\w/])")
_STEP = re.compile(r"\b(?:global_)?(?:[Ss]tep|[Ii]ter(?:ation)?) {0,4}([=:]?) {0,4}(\[?)(\d+)(?:/(\d+))?(?![\w/])")
_ASIDE = re.compile(r"\b(?:sav|load|resum|restor|download|checkpoint|continu)", re.IGNORECASE)
"""Lines about a step that is not the one being made."""
_POSITIONS = ("epoch", "Epoch", "step", "Step", "global_step", "iter", "Iter", "iteration", "Iteration")
_SPEEDS = ("samples_per_second", "samples/s", "samples_per_sec", "images_per_second", "images/sec")


def _read_megatron(text: str) -> Reading | None:
    found = _MEGATRON.search(text)
    if found is None:
        return None
    pairs = (field.partition(":")[::2] for field in text.split("|"))
    fields = {name.strip(): value.strip() for name, value in pairs}
    told = [(name.partition(" (")[0], value) for name, value in fields.items() if name not in _MEGATRON_OTHER]
    batch, elapsed_ms = number(fields.get(_MEGATRON_BATCH, "")), number(fields.get(_MEGATRON_TIME, ""))
    return Reading(
        "megatron",
        int(found[1]),
        int(found[2]),
        metrics=numbers(told),
        samples_per_second=batch * 1000 / elapsed_ms if batch and elapsed_ms else None,
    )


def _read_torchtitan(text: str) -> Reading | None:
    found = _TORCHTITAN.search(text)
    if found is None:
        return None
    told = numbers(_COLON.findall(text[found.start() :]), without=("step",))
    if found[1]:
        return Reading("torchtitan", metrics={f"validation_{name}": value for name, value in told.items()})
    return Reading("torchtitan", int(found[2]), metrics=told)


def _read_train_epoch(text: str) -> Reading | None:
    found = _TRAIN_EPOCH.search(text)
    if found is None or not int(found[3]):
        return None
    # The samples are those of one process: only the share of the epoch is the same for all.
    epoch = round(int(found[1]) - 1 + int(found[2]) / int(found[3]), 4)
    return Reading("horovod", epoch=epoch, metrics=numbers(_COLON.findall(text[found.end() :])))


def _read_pairs(text: str) -> Reading | None:
    """Lines of no special tool: ``epoch=3/20 step=135/900 loss=0.12``, ``Epoch [3/20], Step [45/300], Loss: 0.12``."""
    if _ASIDE.search(text):
        return None
    epoch, step = _position(_EPOCH, text), _position(_STEP, text)
    if epoch is None and step is None:
        return None
    told = numbers(_PAIR.findall(text), without=_POSITIONS)
    speed = next((told.pop(name) for name in _SPEEDS if name in told), None)
    current, epochs, _ = epoch or (None, None, False)
    done, steps, in_brackets = step or (None, None, False)
    if in_brackets and current and done is not None and steps:  # as tutorials print it: steps of this epoch
        done, steps = (current - 1) * steps + done, epochs * steps if epochs else None
    return Reading("keyvalue", done, steps, current, epochs, metrics=told, samples_per_second=speed)


def _position(pattern: re.Pattern[str], text: str) -> tuple[int, int | None, bool] | None:
    """Number, total and whether they stand in brackets; a bare "step 1" may be that of a list and says nothing."""
    for sign, bracket, done, total in pattern.findall(text):
        if sign == "=" or total:
            return int(done), int(total) if total else None, bool(bracket)
    return None


_STATELESS = (
    ("iteration ", _read_megatron),
    ("Train Epoch: ", _read_train_epoch),
    ("step:", _read_torchtitan),
    ("poch", _read_pairs),
    ("tep", _read_pairs),
    ("ter", _read_pairs),
)
