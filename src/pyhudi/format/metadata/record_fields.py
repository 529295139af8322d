"""Typed access to the fields of a decoded record.

Avro and JSON bodies are both mappings. A writer's schema may declare any types, so the type of each known field is
checked. The other fields, of newer writers, remain as `unknown`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from pyhudi.errors import CorruptDataError

T = TypeVar("T")


class RecordFields:
    """The fields of one record; each getter removes a field. A missing field is the same as null.

    Raises:
        CorruptDataError: by every getter, if the value has the wrong type; names path and field.
    """

    __slots__ = ("_name", "_path", "_rest")

    def __init__(self, values: object, *, path: str, name: str) -> None:
        if not isinstance(values, Mapping):
            raise CorruptDataError("a record of the metadata has the wrong type", path=path, field=name)
        self._rest: dict[str, Any] = dict(values)
        self._path, self._name = path, name

    @property
    def unknown(self) -> dict[str, Any]:
        """The remaining fields."""
        return self._rest

    def text(self, name: str) -> str | None:
        """A string."""
        return self._typed(name, str)

    def number(self, name: str) -> int | None:
        """An integer."""
        return self._typed(name, int)

    def count(self, name: str) -> int:
        """An integer; zero if the field is missing."""
        return self._typed(name, int) or 0

    def flag(self, name: str) -> bool:
        """A boolean; false if the field is missing."""
        return self._typed(name, bool) or False

    def texts(self, name: str) -> tuple[str, ...] | None:
        """A list of strings."""
        values = self._typed(name, list)
        return None if values is None else self._texts(values, name)

    def text_map(self, name: str) -> dict[str, str] | None:
        """A map of strings, without the null values that JSON writers may store."""
        values = self._map(name, lambda value: None if value is None else self._check(value, str, name))
        return None if values is None else {key: value for key, value in values.items() if value is not None}

    def number_map(self, name: str) -> dict[str, int] | None:
        """A map of integers."""
        return self._map(name, lambda value: self._check(value, int, name))

    def text_lists(self, name: str) -> dict[str, tuple[str, ...]] | None:
        """A map of lists of strings."""
        return self._map(name, lambda values: self._texts(self._check(values, list, name), name))

    def record(self, name: str) -> RecordFields | None:
        """A record inside this one."""
        value = self._rest.pop(name, None)
        return None if value is None else self._inner(name, value)

    def records(self, name: str) -> Iterator[RecordFields]:
        """A list of records; empty if the field is null."""
        for value in self._typed(name, list) or ():
            yield self._inner(name, value)

    def record_map(self, name: str) -> dict[str, RecordFields]:
        """A map of records; empty if the field is null."""
        return self._map(name, lambda value: self._inner(name, value)) or {}

    def record_lists(self, name: str) -> dict[str, tuple[RecordFields, ...]]:
        """A map of lists of records; empty if the field is null."""

        def inner(values: object) -> tuple[RecordFields, ...]:
            return tuple(self._inner(name, value) for value in self._check(values, list, name))

        return self._map(name, inner) or {}

    def damage(self, name: str) -> CorruptDataError:
        """The error for a field that is missing or of the wrong type."""
        return CorruptDataError(
            "a field of the metadata is missing or of the wrong type", path=self._path, field=f"{self._name}.{name}"
        )

    def _typed(self, name: str, kind: type[T]) -> T | None:
        value = self._rest.pop(name, None)
        return None if value is None else self._check(value, kind, name)

    def _check(self, value: object, kind: type[T], name: str) -> T:
        # In Python, booleans are integers.
        if isinstance(value, kind) and (kind is not int or not isinstance(value, bool)):
            return value
        raise self.damage(name)

    def _texts(self, values: list[Any], name: str) -> tuple[str, ...]:
        return tuple(self._check(value, str, name) for value in values)

    def _map(self, name: str, read: Callable[[object], T]) -> dict[str, T] | None:
        values: dict[str, object] | None = self._typed(name, dict)
        return None if values is None else {key: read(value) for key, value in values.items()}

    def _inner(self, name: str, value: object) -> RecordFields:
        return RecordFields(value, path=self._path, name=f"{self._name}.{name}")
