"""The commands that the pages show: every fenced block of `sh` and `console`, split into commands and their output."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

REPOSITORY: Final = Path(__file__).parents[2]
PAGES: Final = tuple(
    str(path.relative_to(REPOSITORY))
    for path in (REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md")))
    if "reference" not in path.parts and "proposals" not in path.parts
)
LANGUAGES: Final = ("sh", "console")

FENCE: Final = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$|^#+ ([^\n]+)$", re.MULTILINE | re.DOTALL)
PROMPT: Final = "$ "
REMARK: Final = re.compile(r"(?:^|\s+)# .*$")
HEREDOC: Final = re.compile(r"<<-?'?(\w+)'?")


@dataclass(frozen=True)
class Command:
    """What is typed, without remarks, and what a console shows after it."""

    text: str
    output: str = ""


@dataclass(frozen=True)
class Block:
    """One fenced block; ``heading`` is the one above it, ``line`` that of its first command, from 1."""

    page: str
    heading: str
    line: int
    language: str
    text: str

    @property
    def commands(self) -> tuple[Command, ...]:
        return tuple(_typed(self.text) if self.language == "console" else _script(self.text))

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks_of(page: str, text: str | None = None) -> Iterator[Block]:
    """The blocks of commands of a page (its path in the repository), from the top; ``text`` replaces what it says."""
    content = (REPOSITORY / page).read_text(encoding="utf-8") if text is None else text
    heading = ""
    for found in FENCE.finditer(content):
        indent, language, code, title = found.groups()
        if title:
            heading = title
        elif language in LANGUAGES:
            line = content.count("\n", 0, found.start()) + 2
            yield Block(page, heading, line, language, re.sub(f"^{indent}", "", code, flags=re.MULTILINE))


def all_blocks() -> Iterator[Block]:
    """Every block of commands of the README and of docs/, generated pages and proposals left out."""
    for page in PAGES:
        yield from blocks_of(page)


def _typed(text: str) -> Iterator[Command]:
    for part in re.split(rf"^{re.escape(PROMPT)}", text, flags=re.MULTILINE)[1:]:
        command = next(_logical(part.splitlines()))
        yield Command(_without_remark(command), part[len(command) :].strip("\n"))


def _script(text: str) -> Iterator[Command]:
    for lines in _logical(text.splitlines()):
        if command := _without_remark(lines):
            yield Command(command)


def _logical(lines: list[str]) -> Iterator[str]:
    """What bash reads as one line: lines that end in a backslash go on, and so does a heredoc."""
    rest = iter(lines)
    for line in rest:
        whole = [line]
        while whole[-1].endswith("\\"):
            whole.append(next(rest))
        if heredoc := HEREDOC.search(line):
            while whole[-1] != heredoc[1]:
                whole.append(next(rest))
        yield "\n".join(whole)


def _without_remark(command: str) -> str:
    return command if "\n" in command else REMARK.sub("", command).strip()
