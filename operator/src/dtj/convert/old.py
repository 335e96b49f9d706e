"""Reading an old manifest so that nothing in it gets lost: what nobody takes is reported."""

from copy import deepcopy
from typing import Any

from dtj.convert.notes import ConversionError, Notes

_EMPTY: tuple[object, ...] = (None, "", {}, [])


class Part:
    """A mapping of an old manifest, with its path. Every method that reads a field also strikes it off the list."""

    def __init__(self, content: object, path: str, notes: Notes) -> None:
        if content is None:
            content = {}
        if not isinstance(content, dict):
            raise ConversionError(f"{notes.job}: {path or 'the document'} must be a mapping")
        self._content: dict[str, Any] = {str(key): deepcopy(value) for key, value in content.items()}
        self.path = path
        self.notes = notes

    def __contains__(self, key: str) -> bool:
        return self._content.get(key) not in _EMPTY

    def peek(self, key: str) -> object:
        """Look at a field that is read later."""
        return self._content.get(key)

    def copy(self) -> "Part":
        """The same once more, to look into what is read later."""
        return Part(self._content, self.path, self.notes)

    def put_first(self, key: str, value: object) -> None:
        """Give back what was read, in front of all else."""
        self._content = {key: value, **self._content}

    def fields(self) -> tuple[str, ...]:
        return tuple(self._content)

    def at(self, key: str) -> str:
        """The path of a field."""
        return f"{self.path}.{key}" if self.path else key

    def take(self, key: str) -> Any:  # noqa: ANN401 - any JSON value
        return self._content.pop(key, None)

    def part(self, key: str) -> "Part":
        """A mapping below this one; an empty one if it is not there."""
        return Part(self.take(key), self.at(key), self.notes)

    def parts(self, key: str) -> "list[Part]":
        """The mappings of a list below this one."""
        values = self.items(key)
        if not all(isinstance(value, dict) for value in values):
            raise self._must_be(key, "a list of mappings")
        return [Part(value, f"{self.at(key)}[{index}]", self.notes) for index, value in enumerate(values)]

    def items(self, key: str) -> list[Any]:
        value = self.take(key)
        if value is None:
            return []
        if not isinstance(value, list):
            raise self._must_be(key, "a list")
        return value

    def words(self, key: str) -> list[str]:
        """A list of strings, such as a command."""
        values = self.items(key)
        if not all(isinstance(value, str) for value in values):
            raise self._must_be(key, "a list of strings")
        return values

    def text(self, key: str) -> str | None:
        value = self.take(key)
        if value is not None and not isinstance(value, str):
            raise self._must_be(key, "a string")
        return value

    def number(self, key: str) -> int | None:
        value = self.take(key)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
            raise self._must_be(key, "a whole number")
        return value

    def truth(self, key: str) -> bool:
        value = self.take(key)
        if value is not None and not isinstance(value, bool):
            raise self._must_be(key, "true or false")
        return bool(value)

    def pass_over(self, *keys: str) -> None:
        """Leave fields behind that mean nothing to anybody but the old controller."""
        for key in keys:
            self.take(key)

    def drop(self, key: str, message: str) -> None:
        """Leave a field behind and say so where it was set."""
        if key in self:
            self.notes.dropped(self.at(key), message)
        self.take(key)

    def rest(self) -> dict[str, Any]:
        """All that was not read."""
        rest, self._content = self._content, {}
        return rest

    def report_rest(self) -> None:
        """Report every field that nobody read."""
        for key, value in self.rest().items():
            if value not in _EMPTY:
                self.notes.dropped(self.at(key), "not carried over: this converter does not know the field")

    def _must_be(self, key: str, what: str) -> ConversionError:
        return ConversionError(f"{self.notes.job}: {self.at(key)} must be {what}")
