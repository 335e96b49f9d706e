"""What a training prints is understood as it was meant: recordings of real tools, and the lines that come near them."""

import time
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtj_agent.lines import LONGEST_BYTES, Lines
from dtj_agent.patterns import Reader, Reading, printable

RECORDINGS: Final = Path(__file__).parent / "recordings"
MANY: Final = 10_000


def pieces(data: bytes, ends: Iterable[int]) -> list[bytes]:
    cuts = sorted({0, len(data), *ends})
    return [data[start:end] for start, end in pairwise(cuts)]


def readings(chunks: Iterable[bytes]) -> list[Reading]:
    """All that is read of what comes in these chunks."""
    lines, reader, seen = Lines(), Reader(), []
    for chunk in chunks:
        seen += lines.feed(chunk, MANY)
        state = lines.unfinished()
        seen += [] if state is None else [state]
    last = lines.end()
    seen += [] if last is None else [last]
    found = (reader.read(line.decode(errors="replace")) for line in seen)
    return [reading for reading in found if reading is not None]


def merged(found: Sequence[Reading]) -> dict[str, Any]:
    """The last of each number, and all metrics."""
    known: dict[str, Any] = {}
    for reading in found:
        metrics = {**known.get("metrics", {}), **reading.metrics}
        known |= {name: value for name, value in reading._asdict().items() if value is not None}
        known["metrics"] = metrics
    return known


def recording(name: str) -> bytes:
    return (RECORDINGS / f"{name}.bin").read_bytes()


LAST: Final = {
    "keras-3.15.1": Reading(
        "keras",
        16,
        16,
        2,
        2,
        metrics={"accuracy": 0.5547, "loss": 0.6847, "val_accuracy": 0.5, "val_loss": 0.7221},
    ),
    "tf_keras-2.21.0": Reading(
        "keras",
        16,
        16,
        2,
        2,
        metrics={"loss": 0.6999, "accuracy": 0.4805, "val_loss": 0.6746, "val_accuracy": 0.5312},
    ),
    "tqdm-4.70.1": Reading("tqdm", 1000, 1000, metrics={"acc": 0.999, "loss": 0.005}),
    "tqdm-4.70.1-nested": Reading("tqdm", 50, 50, 2, 2, metrics={"loss": 0.038, "lr": 0.001}),
    "transformers-5.23.0": Reading(
        "transformers",
        60,
        60,
        3,
        metrics={
            "loss": 0.7538,
            "grad_norm": 0.9795,
            "learning_rate": 8.333e-07,
            "eval_loss": 0.7654,
            "train_loss": 0.778,
        },
        samples_per_second=1052,
    ),
    "transformers-5.23.0-without-bars": Reading(
        "transformers",
        epoch=3,
        metrics={
            "loss": 0.8097,
            "grad_norm": 0.9312,
            "learning_rate": 8.333e-07,
            "eval_loss": 0.7632,
            "train_loss": 0.7314,
        },
        samples_per_second=1555,
    ),
    "lightning-2.6.6-tqdm": Reading("lightning", 40, None, 2, metrics={"train_loss": 0.678, "val_loss": 0.691}),
    "lightning-2.6.6-rich": Reading("lightning", 40, 40, 2, 2, metrics={"train_loss": 0.641}),
    "digits_ddp": Reading(
        "keyvalue", 135, 135, 3, 3, metrics={"loss": 0.1313, "accuracy": 0.9583}, samples_per_second=2786
    ),
    "megatron-bridge-0.3.1": Reading(
        "megatron",
        30,
        30,
        metrics={
            "throughput_per_GPU": 0.6,
            "learning_rate": 3.225806e-4,
            "lm_loss": 0.7722652,
            "loss_scale": 1,
            "grad_norm": 3.033,
        },
        samples_per_second=32_000 / 102.7,
    ),
    "torchtitan-0.3.0": Reading(
        "torchtitan",
        6,
        6,
        metrics={
            "loss": 8.10503,
            "grad_norm": 1.6255,
            "tps": 27,
            "tflops": 0,
            "mfu": 0,
            "validation_loss": 6.6832,
            "validation_tps": 1493,
        },
    ),
    "train-epoch": Reading("horovod", epoch=1.992, metrics={"Loss": 3.9e-05}),
}
"""What is known after a whole recording."""


@pytest.mark.parametrize("name", LAST)
@pytest.mark.parametrize("size", [1, 7, 64, 1_000_000])
def test_recordings_are_understood(name: str, size: int) -> None:
    data = recording(name)
    found = merged(readings(pieces(data, range(0, len(data), size))))
    assert found == {key: value for key, value in LAST[name]._asdict().items() if value is not None}


@pytest.mark.parametrize("name", LAST)
@given(data=st.data())
def test_it_does_not_matter_how_output_is_cut(name: str, data: st.DataObject) -> None:
    whole = recording(name)
    found = readings(pieces(whole, data.draw(st.lists(st.integers(0, len(whole)), max_size=40))))
    assert merged(found) == merged(readings([whole]))
    steps = [reading.step for reading in found if reading.step is not None]
    assert steps == sorted(steps)


@pytest.mark.parametrize(
    ("name", "steps"),
    [
        ("keras-3.15.1", [1, 7, 8, 9, 16]),
        ("tf_keras-2.21.0", [1, 8, 9, 13, 16]),
        ("tqdm-4.70.1-nested", [0, 5, 10, 15, 20, 25, 30, 35, 40, 45, 50]),
        ("transformers-5.23.0", [0, 7, 10, 16, 20, 30, 39, 40, 50, 58, 60]),
        ("lightning-2.6.6-tqdm", list(range(41))),
    ],
)
def test_every_state_of_a_bar_is_seen(name: str, steps: list[int]) -> None:
    data = recording(name)
    found = [reading.step for reading in readings(pieces(data, range(0, len(data), 16)))]
    assert list(dict.fromkeys(step for step in found if step is not None)) == steps


def read(*lines: str) -> list[Reading | None]:
    reader = Reader()
    return [reader.read(line) for line in lines]


def bar(name: str, done: int, total: int, rest: str = "[00:01<00:01, 9.00it/s]") -> str:
    return f"{name}{': ' if name else ''}{100 * done // total:3}%|███   | {done}/{total} {rest}"


def places(*lines: str) -> list[tuple[int | None, int | None, float | None, float | None] | None]:
    """Step, total, epoch and total of what each line says."""
    found = read(*lines)
    return [told and (told.step, told.total_steps, told.epoch, told.total_epochs) for told in found]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        pytest.param(
            [bar("", 450, 1000, "[00:12<00:15, 36.1it/s, loss=0.5]")], [(450, 1000, None, None)], id="the only one"
        ),
        pytest.param(
            [bar("Epoch 1/3", 5, 10), bar("Epoch 2/3", 1, 10), bar("Epoch 2/3", 1, 4), bar("Epoch 3/3", 10, 10)],
            [(5, 30, 1, 3), (11, 30, 2, 3), None, (30, 30, 3, 3)],
            id="named after epochs, which count from 1, with another of the same name",
        ),
        pytest.param(
            [bar("Epoch 0", 10, 10), bar("Epoch 0", 0, 10), bar("Epoch 1", 0, 10)],
            [(10, None, 1, None), None, (10, None, 2, None)],
            id="named after epochs, which count from 0",
        ),
        pytest.param(
            ["Training: |          | 0/? [00:00<?, ?it/s]", bar("Epoch 7", 5, 10)],
            [None, (75, None, 8, None)],
            id="Lightning's after a restart",
        ),
        pytest.param(
            [bar("", 0, 10), bar("", 10, 10), bar("", 4, 5), bar("", 0, 10), bar("", 3, 10), bar("", 5, 5)],
            [(0, 10, None, None), (10, 10, None, None), None, (10, None, None, None), (13, None, None, None), None],
            id="one for each epoch, and a shorter one for validation",
        ),
        pytest.param(
            [bar("files", 90, 90), bar("", 1, 500)],
            [(90, 90, None, None), (1, 500, None, None)],
            id="a longer one later",
        ),
        pytest.param(
            [bar("files", 900, 900, "[00:03<00:00, 300it/s]"), bar("", 1, 50, "[00:01<00:40, 1it/s]")],
            [(900, 900, None, None), None],
            id="a shorter one later: not yet",
        ),
        pytest.param(
            [bar("files", 900, 900, "[00:03<00:00, 300it/s]"), bar("", 5, 50, "[00:05<00:40, 1it/s]")],
            [(900, 900, None, None), (5, 50, None, None)],
            id="a shorter one that takes longer",
        ),
        pytest.param(
            [bar("", 3, 10, "[00:01<00:01, 9.00s/epoch]"), bar("", 5, 20) + "\x1b[A"],
            [(None, None, 4, 10), (65, 200, 4, 10)],
            id="one of epochs that was not at its begin, and their steps",
        ),
        pytest.param(
            [bar("", 3, 10), bar("", 5, 20) + "\x1b[A"], [(3, 10, None, None), None], id="one below the training's"
        ),
        pytest.param([bar("model.safetensors", 45, 100, "[00:01<00:01, 9.00MB/s]")], [None], id="a download"),
        pytest.param([bar("Loading checkpoint shards", 1, 4)], [None], id="loading"),
        pytest.param([bar("Validation DataLoader 0", 1, 4)], [None], id="validation"),
        pytest.param([" 45%|███  | 1.2k/5.0k [00:01<00:01, 9.0kit/s]"], [(None, None, None, None)], id="no steps"),
        pytest.param(["1200tok [00:00, 1816.89tok/s]"], [None], id="no total"),
    ],
)
def test_which_bar_is_the_training(lines: Sequence[str], expected: Sequence[object]) -> None:
    assert places(*lines) == expected


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        pytest.param(
            ["Epoch 4/10", "8/8 - 0s - 5ms/step - loss: 0.7"], [(None, None, 4, 10), (32, 80, 4, 10)], id="verbose=2"
        ),
        pytest.param(
            ["Epoch 1/2", "      3/Unknown - 0s 300ms/step - loss: 0.7", "Epoch 2/2", "1/5 ━━ 1s 3s/step - loss: 0.5"],
            [(None, None, 1, 2), (3, None, 1, 2), (None, None, 2, 2), (6, 10, 2, 2)],
            id="a generator, whose length shows",
        ),
        pytest.param(
            ["Epoch 1/2", "8/8 ━━ 0s 9ms/step - loss: 0.7", "1/8 ━━ 0s 9ms/step", "2/4 ━━ 0s 9ms/step"],
            [(None, None, 1, 2), (8, 16, 1, 2), None, None],
            id="predict after an epoch",
        ),
        pytest.param(
            ["Epoch 1/2", "3/8 ━━ 0s 9ms/step - loss: 0.7", "9/20 ━━ 0s 9ms/step"],
            [(None, None, 1, 2), (3, 16, 1, 2), None],
            id="predict within an epoch",
        ),
        pytest.param(["8/8 ━━ 0s 9ms/step - loss: 0.7"], [None], id="evaluate alone"),
        pytest.param(["12/937 files copied"], [None], id="no bar"),
    ],
)
def test_bars_of_keras(lines: Sequence[str], expected: Sequence[object]) -> None:
    assert places(*lines) == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("{'loss': 0.5, 'grad_norm': nan, 'epoch': 0.1}", Reading("transformers", epoch=0.1, metrics={"loss": 0.5})),
        ("{'data': 3, 'seed': 1}", None),
        ("epoch=3 loss=0.5", Reading("keyvalue", epoch=3, metrics={"loss": 0.5})),
        ("Epoch 3/10", Reading("keyvalue", epoch=3, total_epochs=10)),
        ("[INFO] epoch: 3/10, acc: 97.5%", Reading("keyvalue", epoch=3, total_epochs=10, metrics={"acc": 97.5})),
        (
            "Epoch [3/10], Step [100/600], Loss: 0.2512",
            Reading("keyvalue", 1300, 6000, 3, 10, metrics={"Loss": 0.2512}),
        ),
        ("global_step=12 loss=inf", Reading("keyvalue", 12)),
        ("resumed from /data/c.pt: epoch=2 step=90", None),
        ("saved checkpoint at step=120", None),
        ("Epoch" + " " * 9 + "3/20", None),
        ("Step 1: install the driver", None),
        ("epochs=20 num_steps=100 step_size=3 lr=0.1", None),
        ("see https://example.com/step/3", None),
        ("iteration 12 of the solver", None),
        ("loss: 0.3", None),
        ("", None),
    ],
)
def test_single_lines(line: str, expected: Reading | None) -> None:
    assert read(line) == [expected]


PLAN = "Trainer is initialized with local batch size 2, sequence length 64, total steps 6 (warmup 2)"
STEP = "step:  3  loss:  7.08510  grad_norm:  1.7789  memory:  2.00GiB(8.33%)  tps: 76"


@pytest.mark.parametrize(
    ("lines", "total"),
    [
        pytest.param([PLAN, STEP], 6, id="it is said"),
        pytest.param([PLAN, bar("Generating train split", 12, 12), STEP], 6, id="another bar comes between"),
        pytest.param([bar("", 12, 12), PLAN, "epoch=1/3", STEP], 6, id="before and between"),
        pytest.param([STEP], None, id="it was not said"),
        pytest.param([PLAN.replace(", total steps 6", ""), STEP], None, id="said otherwise"),
    ],
)
def test_torchtitan_says_once_how_many_steps_it_plans(lines: Sequence[str], total: int | None) -> None:
    told = read(*lines)[-1]
    assert told is not None
    assert (told.source, told.step, told.total_steps) == ("torchtitan", 3, total)
    assert read(*lines, STEP.replace("step", "validate step"))[-1] == Reading(
        "torchtitan", metrics={"validation_loss": 7.0851, "validation_grad_norm": 1.7789, "validation_tps": 76}
    )


def test_colours_and_bytes_that_are_no_text_do_not_matter() -> None:
    line = b"\x1b[1m\xff\xfe \x1b]0;title\x07\x1b[32mepoch\x1b[0m=3/20 loss=0.5 \xc3"
    assert readings([line + b"\n"]) == [Reading("keyvalue", epoch=3, total_epochs=20, metrics={"loss": 0.5})]
    assert printable("\x1b[31mred\x1b[0m \x1b[2K\x07\x9b bell") == "red  bell"


def test_ranks_that_draw_the_same_bar_are_one() -> None:
    times = [0.0, 0.0, 0.0, 6.0, 6.0, 7.0, 7.0, 8.0, 9.0, 9.0, 70.0]
    states = [(40, 4), (39, 4), (41, 4), (100, 10), (99, 10), (0, 0), (100, 10), (0, 0), (20, 2), (19, 2), (30, 999)]
    clock = iter(times)
    reader = Reader(lambda: next(clock))
    read = [reader.read(bar("", done, 100, f"[00:{elapsed_s:02}<00:10, 9.00it/s]")) for done, elapsed_s in states]
    assert [told and told.step for told in read] == [40, None, 41, 100, None, 100, None, 100, 120, None, 130]


def test_only_carriage_returns() -> None:
    states = [b"\r" + bar("", done, 100).encode() for done in range(101)]
    assert [reading.step for reading in readings(states)] == list(range(101))
    assert [reading.step for reading in readings([b"".join(states)])][-1] == 100


def test_an_unfinished_state_is_there_when_nothing_follows() -> None:
    lines = Lines()
    lines.feed(b"\r 10%|", MANY)
    assert (lines.unfinished(), lines.unfinished(also_open=True)) == (None, None)
    lines.feed(b"# | 1/10\r 20%|# | 2/10", MANY)
    assert (lines.unfinished(), lines.unfinished()) == (b" 10%|# | 1/10", None)
    assert lines.unfinished(also_open=True) == b" 20%|# | 2/10"
    assert lines.feed(b"\nnext", MANY) == [b" 20%|# | 2/10"]
    assert lines.end() == b"next"


def test_a_line_of_10_mb_takes_no_memory() -> None:
    lines = Lines()
    for _ in range(160):
        assert lines.feed(b"x" * 65536, MANY) == []
    assert lines.feed(b"\nepoch=1\n", MANY) == [b"x" * LONGEST_BYTES, b"epoch=1"]
    for _ in range(160):
        lines.feed(b"\r" + b"y" * 65535, MANY)
    assert lines.end() == b"y" * LONGEST_BYTES


def test_of_a_flood_the_newest_lines_are_kept() -> None:
    lines = Lines()
    assert lines.feed(b"begun" + b"".join(b"%d\n" % number for number in range(1000)) + b"open", 2) == [b"998", b"999"]
    assert lines.feed(b"ed\n", 2) == [b"opened"]


@pytest.mark.parametrize(
    "line",
    [
        "step=1 " + "a" * 4000,
        "step=1 " + "a." * 2000,
        "epoch " * 600,
        "step: 1 loss: " + "a: " * 1300,
        "{'epoch': " + "'a': " * 800,
        "%|" + " " * 4000,
        " " * 4000 + "1%|" + "[" * 90,
        "a: " * 1300 + "1%| | 1/2 [00:01<00:01, 1it/s]",
        "iteration 1/ 2 |" + "a |" * 1300,
        "━/step" + "a: " * 1300,
        "\x1b]" * 2000,
        "1" * 4000 + "/step",
        "epoch=" + "9" * 4000,
        "Trainer is initialized with " * 80 + "total steps " + "1" * 1800 + "_",
    ],
    ids=lambda line: line[:12],
)
def test_no_line_takes_long(line: str) -> None:
    reader = Reader()
    before = time.process_time()
    for _ in range(10):
        reader.read(line)
    assert (time.process_time() - before) / 10 < 0.01


@given(st.text())
def test_nothing_makes_it_fail(line: str) -> None:
    Reader().read(line)
    Reader().read(f" 45%|█| {line}/10 [00:01<00:01, 1it/s]")
