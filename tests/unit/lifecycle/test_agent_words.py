"""The last words of an agent and of a bare command: what of them reaches the status."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtj.lifecycle.agent_words import agent_words, headline_of, lines_of


def words(**fields: Any) -> str:  # noqa: ANN401 - JSON
    return json.dumps({"dtj": 1, **fields})


DEEP = '{"dtj":1,"x":' + "[" * 3000
SAID: dict[str, tuple[str, tuple[str, ...] | None, str | None]] = {
    "a bare command's output": ("a\nValueError: x\n", ("a", "ValueError: x"), "ValueError: x"),
    "nothing": ("", None, None),
    "an agent's": (
        words(exitCode=1, line="ValueError: x", lastLines=["Traceback", "ValueError: x", "tail"]),
        ("Traceback", "ValueError: x", "tail"),
        "ValueError: x",
    ),
    "of one rank among several": (words(rank=3, line="ValueError: x"), None, "rank 3: ValueError: x"),
    "without a line that says most": (words(lastLines=["a", "b"]), ("a", "b"), "b"),
    "of a success": (words(exitCode=0, progress={"step": 3}), None, None),
    "made to look like an agent's": ('{"dtj": "no"}', ('{"dtj": "no"}',), '{"dtj": "no"}'),
    "cut off": ('{"dtj": 1, "line": "V', ('{"dtj": 1, "line": "V',), '{"dtj": 1, "line": "V'),
    "nested without end": (DEEP, (DEEP[-1024:],), DEEP[-1024:]),
    "with colours": (words(line="\x1b[31mred\x1b[0m", lastLines=["\x1b[1mb"]), ("b",), "red"),
}


@pytest.mark.parametrize(("message", "lines", "line"), SAID.values(), ids=SAID.keys())
def test_what_was_said(message: str, lines: tuple[str, ...] | None, line: str | None) -> None:
    assert (lines_of(message), headline_of(message)) == (lines, line)


def test_the_last_numbers_are_read() -> None:
    found = agent_words(words(progress={"step": 3, "totalSteps": 9, "metrics": {"loss": 0.5}}))

    assert found is not None
    assert found.progress is not None
    assert (found.progress.step, found.progress.total_steps, found.progress.metrics) == (3, 9, {"loss": 0.5})


@given(st.one_of(st.text(), st.text().map(lambda tail: '{"dtj":' + tail)))
def test_whatever_a_program_leaves_is_text(message: str) -> None:
    headline_of(message)
    assert agent_words(message) is None or message.startswith('{"dtj":')
