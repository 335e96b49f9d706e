"""Log lines: about the right job and attempt, one line each whatever users wrote, and no secrets."""

import asyncio
import json
import logging
import re
from collections.abc import Iterator
from io import StringIO
from typing import Any

import pytest
from pydantic import ValidationError

from dtj.api.job import DistributedTrainingJob
from dtj.controller import logs
from dtj.controller.logs import MAX_EXCEPTION, MAX_MESSAGE, about, note_attempt
from dtj.controller.queue import Key
from tests.builders import a_job

A, B = Key("team-a", "digits", "uid-1"), Key("team-b", "letters", "uid-2")
MOMENT = r"2\d{3}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}"
log = logging.getLogger("dtj.controller.reconcile")


@pytest.fixture
def stream() -> Iterator[StringIO]:
    """What is written to once logging is ``configured``; afterwards logging is as it was."""
    root, own = logging.getLogger(), logging.getLogger("dtj")
    handlers, levels = root.handlers[:], (root.level, own.level)
    yield StringIO()
    root.handlers[:] = handlers
    root.setLevel(levels[0])
    own.setLevel(levels[1])


def configured(stream: StringIO, form: logs.Format = "text", *, verbose: bool = False) -> StringIO:
    logs.configure(verbose=verbose, form=form)
    (handler,) = logging.getLogger().handlers
    assert isinstance(handler, logging.StreamHandler)
    handler.setStream(stream)
    return stream


@pytest.fixture
def text(stream: StringIO) -> StringIO:
    return configured(stream)


@pytest.fixture
def objects(stream: StringIO) -> StringIO:
    return configured(stream, "json")


def parsed(stream: StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_line_about_no_job(text: StringIO) -> None:
    log.info("caches are synced: %s", "ready")
    assert re.fullmatch(rf"{MOMENT}Z INFO dtj\.controller\.reconcile: caches are synced: ready\n", text.getvalue())


def test_a_line_names_the_job_and_its_attempt_once_it_is_known(text: StringIO) -> None:
    with about(A):
        log.warning("not yet read")
        note_attempt(2)
        log.warning("read")
    log.warning("done")
    told = [line.partition("reconcile: ")[2] for line in text.getvalue().splitlines()]
    assert told == ["job team-a/digits: not yet read", "job team-a/digits attempt 2: read", "done"]


def test_the_same_as_an_object(objects: StringIO) -> None:
    with about(A):
        log.warning("not yet read")
        note_attempt(2)
        log.warning("read")
    log.info("done")
    first, second, third = parsed(objects)
    assert all(re.fullmatch(rf"{MOMENT}\.\d{{3}}Z", each.pop("time")) for each in (first, second, third))
    usual = {"logger": "dtj.controller.reconcile"}
    job = {"job": "digits", "namespace": "team-a", "uid": "uid-1"}
    assert first == {**usual, **job, "level": "WARNING", "message": "not yet read"}
    assert second == {**usual, **job, "level": "WARNING", "message": "read", "attempt": 2}
    assert third == {**usual, "level": "INFO", "message": "done"}


async def test_jobs_that_are_looked_at_at_the_same_time_are_not_mixed_up(objects: StringIO) -> None:
    async def look(key: Key, attempt: int) -> None:
        with about(key):
            note_attempt(attempt)
            await asyncio.sleep(1)
            async with asyncio.TaskGroup() as group:
                group.create_task(write())

    async def write() -> None:
        await asyncio.sleep(1)
        log.info("written")

    await asyncio.gather(look(A, 1), look(B, 7))
    assert sorted((each["job"], each["attempt"]) for each in parsed(objects)) == [("digits", 1), ("letters", 7)]


def test_an_attempt_of_no_job_is_not_told(objects: StringIO) -> None:
    note_attempt(3)
    log.info("done")
    assert "attempt" not in parsed(objects)[0]


def test_kopfs_lines_name_their_job_and_show_no_traceback(objects: StringIO) -> None:
    reference = {"namespace": "team-a", "name": "digits", "uid": "uid-1", "kind": "DistributedTrainingJob"}
    refusal = ValueError("refused")
    logging.getLogger("kopf.objects").error("Handler failed", extra={"k8s_ref": reference}, exc_info=refusal)
    (line,) = parsed(objects)
    assert (line["job"], line["namespace"], line["uid"], line["message"]) == (
        "digits",
        "team-a",
        "uid-1",
        "Handler failed",
    )
    assert "exception" not in line


FORGERIES = {
    "a line": "x\n2026-01-01T00:00:00Z INFO dtj: all is well",
    "a line of another system": "x\r\nroot logged in",
    "a cursor": "x\x1b[2J\x1b[1;1H",
    "a terminal of eight bits": "x\x9b2J",
    "a line of another alphabet": "x\u2028y\u2029z\x85",
    "an order of letters": "x\u202eyz\u2066",
    "half a character": "x\ud800",
    "a backspace": "ok\x08\x08no\x7f",
}


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("words", FORGERIES.values(), ids=FORGERIES.keys())
def test_what_users_wrote_cannot_look_like_something_else(stream: StringIO, words: str, form: logs.Format) -> None:
    configured(stream, form)
    with about(Key("team-a", words, "uid-1")):
        log.warning("event %s", words)
    line = stream.getvalue().removesuffix("\n")
    assert "event" in line
    assert line.isascii()
    assert line.isprintable()


def test_ordinary_words_of_any_language_stay_as_they_are(text: StringIO) -> None:
    log.info("потери 損失 \\n")
    assert text.getvalue().endswith(": потери 損失 \\n\n")


def fail(words: str) -> None:
    def meet_a_fault() -> None:
        raise ValueError(words)

    try:
        meet_a_fault()
    except ValueError:
        log.exception("looking at it failed")


def test_a_traceback_cannot_forge_a_line_either(text: StringIO) -> None:
    fail(FORGERIES["a line"])
    first, *trace = text.getvalue().splitlines()
    assert first.endswith("ERROR dtj.controller.reconcile: looking at it failed")
    assert trace[0] == "  Traceback (most recent call last):"
    assert all(line.startswith("  ") for line in trace)


def test_a_traceback_is_a_field_of_the_object(objects: StringIO) -> None:
    fail(FORGERIES["a line"])
    (line,) = parsed(objects)
    assert line["message"] == "looking at it failed"
    assert line["exception"].startswith("Traceback (most recent call last):\n")
    assert line["exception"].endswith("ValueError: " + FORGERIES["a line"])


def test_lines_are_of_bounded_length(objects: StringIO) -> None:
    log.info("x" * 100_000)
    fail("y" * 100_000)
    first, second = parsed(objects)
    assert first["message"] == "x" * MAX_MESSAGE + " …"
    assert len(second["exception"]) == MAX_EXCEPTION


def test_a_traceback_of_a_spec_that_cannot_be_read_does_not_quote_it(text: StringIO) -> None:
    unreadable = a_job().spec(replicas="canary", framework={"canary": 1}).raw()
    try:
        DistributedTrainingJob.model_validate(unreadable)
    except ValidationError:
        log.exception("looking at it failed")
    assert "spec.replicas" in text.getvalue()
    assert "canary" not in text.getvalue()


VERBOSITIES = {False: ["info"], True: ["debug", "info"]}


@pytest.mark.parametrize(("verbose", "told"), VERBOSITIES.items())
def test_only_our_own_modules_say_more_when_asked_to(stream: StringIO, verbose: bool, told: list[str]) -> None:
    configured(stream, "json", verbose=verbose)
    for name in ("dtj.controller.reconcile", "aiohttp.client", "kubernetes.client.rest", "urllib3", "asyncio", "kopf"):
        logging.getLogger(name).debug("debug")
    log.info("info")
    assert [(each["logger"], each["message"]) for each in parsed(stream)] == [(log.name, word) for word in told]
