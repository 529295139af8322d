"""Typed access to the texts of a properties file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from pyhudi.errors import CorruptDataError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Properties:
    """Properties with typed access. Every bad one is a `CorruptDataError` that names the file."""

    values: Mapping[str, str]
    path: str

    def text(self, *keys: str) -> str | None:
        """The value under the first of several spellings that is set and not empty."""
        return next((self.values[key] for key in keys if self.values.get(key)), None)

    def required(self, key: str) -> str:
        """The text of a required property.

        Raises:
            CorruptDataError: it is missing or empty.
        """
        value = self.text(key)
        if value is None:
            raise CorruptDataError(f"{key} is missing", path=self.path)
        return value

    def parsed(self, key: str, default: T, parse: Callable[[str], T]) -> T:
        """A parsed property, or the default if it is missing. `parse` raises ValueError for illegal text.

        Raises:
            CorruptDataError: the text is illegal.
        """
        value = self.text(key)
        if value is None:
            return default
        try:
            return parse(value)
        except ValueError as error:
            raise CorruptDataError(f"{key} cannot be {value!r}", path=self.path) from error

    def flag(self, key: str, *, default: bool = False) -> bool:
        """A property that is true or false."""
        return self.parsed(key, default, _read_flag)

    def names(self, *keys: str) -> tuple[str, ...]:
        """The parts of a comma-separated list under the first of several spellings; empty if it is missing."""
        return tuple(name.strip() for name in (self.text(*keys) or "").split(",") if name.strip())


def _read_flag(text: str) -> bool:
    if text.lower() not in {"true", "false"}:
        raise ValueError(text)
    return text.lower() == "true"
