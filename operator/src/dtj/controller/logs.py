"""Log lines: text for people or JSON for machines, in UTC, and each about a job names it and its attempt.

Whose line it is comes from the context, not from the message: a worker says once ``about`` which job all that follows
is. What users wrote is shown, never obeyed: no line can look like two, or move a terminal's cursor.
"""

import json
import logging
import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from dtj.controller.queue import Key

Format = Literal["text", "json"]

MAX_MESSAGE: Final = 4_096
MAX_EXCEPTION: Final = 16_384
"""Characters: of a traceback its end, which says what went wrong."""

_UNSAFE = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""What ends a line or acts on a terminal; changes of the writing direction; halves of characters."""


@dataclass(frozen=True)
class Subject:
    """The job that a line is about. ``attempt`` None: it was not looked at yet."""

    key: Key
    attempt: int | None = None


_subject: ContextVar[Subject | None] = ContextVar("subject", default=None)


@contextmanager
def about(key: Key, attempt: int | None = None) -> Iterator[None]:
    """All lines of the block, and of the tasks that are started in it, are about this job."""
    token = _subject.set(Subject(key, attempt))
    try:
        yield
    finally:
        _subject.reset(token)


def note_attempt(attempt: int) -> None:
    """The lines that follow are about this attempt of the job."""
    if (subject := _subject.get()) is not None:
        _subject.set(replace(subject, attempt=attempt))


def configure(*, verbose: bool, form: Format = "text") -> None:
    """Log to stderr. ``verbose``: every decision; what libraries have to say beyond their warnings is not wanted."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    handler.addFilter(_without_kopfs_tracebacks)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
    # Not the root: what HTTP libraries tell for debugging may be the requests themselves, with their credentials.
    logging.getLogger("dtj").setLevel(logging.DEBUG if verbose else logging.INFO)
    logging.getLogger("kopf").setLevel(logging.WARNING)
    # It runs in a thread of its own here, and says at every start that signals are not its matter.
    logging.getLogger("kopf._core.reactor.running").setLevel(logging.ERROR)
    logging.getLogger("asyncio").setLevel(logging.WARNING)


class TextFormatter(logging.Formatter):
    """``2026-01-02T15:04:05Z INFO dtj.controller.reconcile: job team-a/digits attempt 0: Running (AllPodsRunning)``."""

    def format(self, record: logging.LogRecord) -> str:
        moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(record.created))
        line = f"{moment} {record.levelname} {record.name}: {_whose(_subject_of(record))}{_message(record)}"
        # Indented, so that no line of it looks like one of the log's own.
        trace = "".join(f"\n  {_safe(each)}" for each in _exception(self, record).split("\n") if each)
        return line + trace


class JsonFormatter(logging.Formatter):
    """One object per line; ``job``, ``namespace``, ``uid`` and ``attempt`` where a job is concerned."""

    def format(self, record: logging.LogRecord) -> str:
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        fields: dict[str, Any] = {
            "time": f"{moment}.{int(record.msecs):03}Z",
            "level": record.levelname,
            "logger": record.name,
            "message": _message(record),
        }
        if (subject := _subject_of(record)) is not None:
            fields |= {"job": subject.key.name, "namespace": subject.key.namespace, "uid": subject.key.uid}
            if subject.attempt is not None:
                fields["attempt"] = subject.attempt
        if exception := _exception(self, record):
            fields["exception"] = exception
        return json.dumps(fields)


def _subject_of(record: logging.LogRecord) -> Subject | None:
    reference = getattr(record, "k8s_ref", None)  # Kopf's own lines, which come from another thread
    if not isinstance(reference, dict):
        return _subject.get()
    namespace, name, uid = (str(reference.get(field) or "") for field in ("namespace", "name", "uid"))
    return Subject(Key(namespace, name, uid))


def _whose(subject: Subject | None) -> str:
    if subject is None:
        return ""
    attempt = "" if subject.attempt is None else f" attempt {subject.attempt}"
    return f"job {_safe(subject.key.namespace)}/{_safe(subject.key.name)}{attempt}: "


def _message(record: logging.LogRecord) -> str:
    message = record.getMessage()
    return _safe(message if len(message) <= MAX_MESSAGE else message[:MAX_MESSAGE] + " …")


def _exception(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    return formatter.formatException(record.exc_info)[-MAX_EXCEPTION:] if record.exc_info else ""


def _safe(text: str) -> str:
    return _UNSAFE.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode("ascii")


def _without_kopfs_tracebacks(record: logging.LogRecord) -> bool:
    """Kopf shows where in its code a refusal of the API server was met; the message says all of it."""
    if record.name.startswith("kopf."):
        record.exc_info = record.exc_text = None
    return True
