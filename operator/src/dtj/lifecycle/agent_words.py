"""The last words of a container: an agent's, which are JSON, or the end of a bare command's output."""

from collections.abc import Sequence
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from dtj.lifecycle.agent_report import Training, Whole
from dtj.lifecycle.last_words import headline, last_lines

_VERSION: Final = 1
_MARK: Final = '{"dtj":'


class AgentWords(Struct, frozen=True, rename="camel"):
    """What an agent leaves as termination message. ``line``: the one that says most; ``rank``: of what failed first."""

    dtj: Annotated[int, Meta(ge=1)] = _VERSION
    exit_code: int | None = None
    rank: Whole | None = None
    line: str = ""
    last_lines: tuple[str, ...] = ()
    progress: Training | None = None


def agent_words(message: str) -> AgentWords | None:
    """None for the words of a bare command, and for what only looks like an agent's."""
    if not message.startswith(_MARK):
        return None
    try:
        return msgspec.json.decode(message, type=AgentWords)
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
        return None


def lines_of(message: str) -> tuple[str, ...] | None:
    """The last lines of output, bounded and readable; None if there are none."""
    words = agent_words(message)
    return last_lines(message if words is None else "\n".join(words.last_lines))


def headline_of(message: str) -> str | None:
    """The one line that says most, with the rank that said it where a pod has several; None if there is none."""
    words = agent_words(message)
    said = last_lines(words.line) if words is not None and words.line else None
    line = said[-1].strip() if said else _headline(lines_of(message))
    if line is None or words is None or words.rank is None:
        return line
    return f"rank {words.rank}: {line}"


def _headline(lines: Sequence[str] | None) -> str | None:
    return headline(lines) if lines else None
