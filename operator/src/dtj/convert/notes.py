"""What a conversion has to say: notes for people, and the error for input that can't be read."""

from dataclasses import dataclass, field
from enum import StrEnum


class ConversionError(Exception):
    """The input can't be converted; the message is a sentence for its author."""


class Severity(StrEnum):
    """Whether the converted job behaves as the old one did."""

    NOTE = "note"
    DROPPED = "dropped"


@dataclass(frozen=True)
class Note:
    """One thing that is not as it was: where it stood, what became of it and what to do instead."""

    job: str
    field: str
    message: str
    severity: Severity

    def __str__(self) -> str:
        return f"{self.severity}: {self.job}: {self.field}: {self.message}"


@dataclass
class Notes:
    """Collects the notes of one job, in the order in which they come up."""

    job: str
    found: list[Note] = field(default_factory=list)

    def note(self, path: str, message: str) -> None:
        """Say what is different in form but not in effect."""
        self._add(path, message, Severity.NOTE)

    def dropped(self, path: str, message: str) -> None:
        """Say what behaves differently from now on."""
        self._add(path, message, Severity.DROPPED)

    def _add(self, path: str, message: str, severity: Severity) -> None:
        note = Note(self.job, path, message, severity)
        if note not in self.found:
            self.found.append(note)
