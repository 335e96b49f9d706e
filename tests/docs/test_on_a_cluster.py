"""The shell that types the pages' commands: what it takes for a failure, and what it leaves out."""

import os

import pytest

from tests.docs.blocks import Block
from tests.docs.on_a_cluster import Shell

SHELL = Shell(os.environ, {"JOB": "digits"})
TABLE = ": --watch; printf 'NAME PHASE\\none Starting\\none Running\\n'"


def block(language: str, text: str) -> Block:
    return Block("page.md", "Title", 1, language, text)


@pytest.mark.parametrize(
    ("language", "text"),
    [
        pytest.param("sh", "test JOB = digits\ntrue\n", id="a word of the pages"),
        pytest.param("sh", "one=1\ntest $one = 1\n", id="a script keeps its variables"),
        pytest.param("sh", "make down\n", id="in the table"),
        pytest.param("console", "$ echo 7 of JOB\n9 of digits\n", id="other numbers"),
        pytest.param("console", f"$ {TABLE}\nNAME PHASE\none Running\n", id="watched"),
        pytest.param("console", f"$ {TABLE}; exec sleep 60\nNAME PHASE\none Running\n", id="without an end"),
    ],
)
def test_what_works_as_shown(language: str, text: str) -> None:
    SHELL.execute(block(language, text))


@pytest.mark.parametrize(
    ("language", "text", "message"),
    [
        pytest.param("sh", "false\ntrue\n", "page.md:1", id="one of several"),
        pytest.param("sh", "false | true\n", "page.md:1", id="before a pipe"),
        pytest.param("console", "$ echo one\ntwo\n", "`echo one` printed", id="other words"),
        pytest.param("console", "$ true\none\n", "`true` printed", id="nothing printed"),
        pytest.param("console", "$ false\n", "page.md:1", id="in a console"),
        pytest.param("console", f"$ {TABLE}\nNAME PHASE\none Failed\n", "printed", id="watched"),
    ],
)
def test_what_does_not(language: str, text: str, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        SHELL.execute(block(language, text))
