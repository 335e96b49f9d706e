"""The termination message says why, in less than 4 KiB, whatever was printed."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtj_agent import last_words
from dtj_agent.patterns import printable

RECORDINGS = Path(__file__).parent / "recordings"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("python-3.13.0-chained", "Diverged: loss is nan"),
        ("python-3.13.0-group", "OSError: [Errno 5] disk"),
        ("python-3.13.0-segfault", "Fatal Python error: Segmentation fault"),
        ("cpp-throw", "CUDA error: device-side assert triggered"),
        ("torchrun-2.13.0", "rank 1: ValueError: no such column: label"),
        ("torchrun-2.13.0-record", "rank 1: ValueError: no such column: label"),
        ("torchrun-2.13.0-killed", "torchrun: the process of rank 1 ended with exit code -9"),
    ],
)
def test_the_cause_is_found_in_what_real_programs_print(name: str, expected: str) -> None:
    lines = [printable(line) for line in (RECORDINGS / f"{name}.bin").read_text().splitlines() if line.strip()]
    assert last_words.telling_line(lines[-100:]) == expected


FRAME = '  File "/app/train.py", line 12, in <module>'
TRACE = ("Traceback (most recent call last):", FRAME, "    train()")


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        pytest.param([*TRACE, "ValueError: x"], "ValueError: x", id="exception"),
        pytest.param([*TRACE, "KeyboardInterrupt"], "KeyboardInterrupt", id="without a message"),
        pytest.param(
            [*TRACE, "torch.OutOfMemoryError: CUDA out of memory.", "[W] destroy_process_group was not called"],
            "torch.OutOfMemoryError: CUDA out of memory.",
            id="with a warning after it",
        ),
        pytest.param(
            [*TRACE, "RuntimeError: CUDA error: unspecified", "CUDA kernel errors might be asynchronously reported."],
            "RuntimeError: CUDA error: unspecified",
            id="with more lines of its message",
        ),
        pytest.param([*TRACE, "app.Diverged: at step 12"], "app.Diverged: at step 12", id="with a name of its own"),
        pytest.param(["[rank3]: KeyError: 'x'", "bye"], "KeyError: 'x'", id="with torchrun's prefix"),
        pytest.param(
            [
                "[rank1]: KeyError: 'x'",
                "[rank0]: RuntimeError: Connection closed by peer",
                "  rank      : 1 (local_rank: 1)",
            ],
            "rank 1: KeyError: 'x'",
            id="of the rank that torchrun names",
        ),
        pytest.param(["step 1", "./train: line 3: 12 Segmentation fault"], "Segmentation fault", id="a shell's word"),
        pytest.param(["Error: no such file", "usage: train"], "Error: no such file", id="a complaint"),
        pytest.param(["train: error: argument --lr", "=====", ""], "train: error: argument --lr", id="argparse"),
        pytest.param(["loading", "no space left", "-----"], "no space left", id="the last that says something"),
        pytest.param(["  indented: text", "all done"], "all done", id="indented, but no frame"),
        pytest.param(["=====", ""], None, id="nothing that says something"),
        pytest.param([], None, id="nothing"),
    ],
)
def test_the_telling_line(lines: Sequence[str], expected: str | None) -> None:
    assert last_words.telling_line(lines) == expected


def read(content: bytes) -> dict[str, Any]:
    assert len(content) < 4096
    message = json.loads(content)
    assert isinstance(message, dict)
    return message


def test_a_message_says_what_is_known() -> None:
    lines = [f"line {number}" for number in range(30)]
    progress = {"step": 12, "metrics": {"loss": 0.5}}
    assert read(last_words.message(137, lines, signal=9, rank=3, progress=progress)) == {
        "dtj": 1,
        "exitCode": 137,
        "signal": 9,
        "rank": 3,
        "line": "line 29",
        "progress": progress,
        "lastLines": lines[-20:],
    }
    assert read(last_words.message(0, lines, progress=progress)) == {"dtj": 1, "exitCode": 0, "progress": progress}
    assert read(last_words.message(1)) == {"dtj": 1, "exitCode": 1}


@pytest.mark.parametrize(
    ("character", "kept"), [("x", 7), ("\N{SNOWMAN}", 2), ('"', 3)], ids=["letters", "three bytes", "escaped"]
)
def test_the_oldest_lines_give_way(character: str, kept: int) -> None:
    lines = [f"{number:02}" + character * 5000 for number in range(20)]
    message = read(last_words.message(1, [*lines, "ValueError: x"], progress={"step": 1}))
    assert (message["line"], message["progress"]) == ("ValueError: x", {"step": 1})
    shown = [line[:2] for line in message["lastLines"]]
    assert shown == [*(f"{number:02}" for number in range(20 - kept, 20)), "Va"]


@given(st.lists(st.text(max_size=5000), max_size=30), st.dictionaries(st.text(max_size=900), st.floats()))
def test_nothing_makes_it_too_long(lines: list[str], metrics: dict[str, float]) -> None:
    assert read(last_words.message(1, lines, progress={"metrics": metrics}))["exitCode"] == 1


def test_it_is_left_where_the_kubelet_finds_it(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "termination-log"
    last_words.write(b"new", str(log))
    assert (log.exists(), capfd.readouterr().err) == (False, "")
    log.write_bytes(b"of the run before")
    last_words.write(b"new", str(log))
    assert (log.read_bytes(), capfd.readouterr().err) == (b"new", "")


def test_what_cannot_be_written_is_said_once(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    last_words.write(b"new", str(tmp_path))
    said = f"dtj-agent: the termination message cannot be written to {tmp_path}: Is a directory\n"
    assert capfd.readouterr().err == said
    os.mkfifo(tmp_path / "fifo")  # nobody reads: it must not wait
    last_words.write(b"new", str(tmp_path / "fifo"))
    assert "No such device or address" in capfd.readouterr().err
