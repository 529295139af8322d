"""The means of a procedure: the session of the call, the tables that it names, and the values of its arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pyhudi.api.hudi_table import HudiTable
from pyhudi.errors import ConfigError, InternalError
from pyhudi.storage.open import open_storage
from pyhudi.storage.protocol import Storage


@dataclass(frozen=True)
class CallContext:
    """The session of a call. `by_name` opens a table of the session's catalog, `by_path` one in a folder.

    Both take options that hold for the table as it is opened. `store_options`: how the session reaches a folder.
    """

    spark: Any
    by_name: Callable[[str, Mapping[str, str]], HudiTable]
    by_path: Callable[[str, Mapping[str, str]], HudiTable]
    store_options: Callable[[str], Mapping[str, str]]

    def storage(self, path: str) -> Storage:
        """The store of a folder, with the credentials that the session has for it."""
        return open_storage(path, self.store_options(path))

    def table(self, given: Given, options: Mapping[str, str] | None = None) -> HudiTable:
        """The table of `table` or `path`. Raises `ConfigError` if neither is given, or both."""
        name, path = given.text_or_none("table"), given.text_or_none("path") if "path" in given else None
        if name and path:
            raise ConfigError("give the table by its name or by its path, not by both", table=name, path=path)
        if name:
            return self.by_name(name, options or {})
        if path:
            return self.by_path(path, options or {})
        raise ConfigError("the call names no table: give table => '…' or path => '…'")


class Given:
    """The values of all parameters of one call, by name: given ones, and defaults of the others."""

    def __init__(self, values: Mapping[str, Any], explicit: frozenset[str]) -> None:
        self._values, self._explicit = values, explicit

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def is_given(self, name: str) -> bool:
        """Whether the call names a parameter, with a value that is not null."""
        return name in self._explicit

    def value(self, name: str) -> Any:
        """The value of a parameter of any type."""
        return self._values[name]

    def with_value(self, name: str, value: Any) -> Given:
        """The same values but for one."""
        return Given({**self._values, name: value}, self._explicit | {name})

    def text_or_none(self, name: str) -> str | None:
        """A text; None where the call says nothing, or an empty text."""
        value = self._values[name]
        if value is not None and not isinstance(value, str):
            raise InternalError("a procedure reads a parameter as another type than it declares", parameter=name)
        return value or None

    def text(self, name: str) -> str:
        """A text; empty where the call says nothing."""
        return self.text_or_none(name) or ""

    def words(self, name: str) -> tuple[str, ...]:
        """The parts of a text between commas."""
        return tuple(word.strip() for word in self.text(name).split(",") if word.strip())

    def number_or_none(self, name: str) -> int | None:
        """A whole number; None where the call says nothing."""
        value = self._values[name]
        if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
            raise InternalError("a procedure reads a parameter as another type than it declares", parameter=name)
        return value

    def number(self, name: str) -> int:
        """A whole number that has a default or must be given."""
        value = self.number_or_none(name)
        if value is None:
            raise ConfigError(f"{name} must be a number", parameter=name)
        return value

    def flag(self, name: str) -> bool:
        """A truth value."""
        return self._values[name] is True


def options_of(given: Given, name: str = "options") -> dict[str, str]:
    """Options by name. Blanks around names and values do not count; a value may have `=` in it, but no comma.

    Raises `ConfigError` for a part that is not `name=value`, and for a name that is given twice with two values.
    """
    found: dict[str, str] = {}
    for part in given.words(name):
        key, sign, value = part.partition("=")
        key, value = key.strip(), value.strip()
        if not sign or not key:
            raise ConfigError(f"{name} must be 'name=value,name=value'", part=part)
        if found.setdefault(key, value) != value:
            raise ConfigError(f"{name} has an option twice, with two values", option=key)
    return found


def renamed(given: Given, names: dict[str, str]) -> dict[str, str]:
    """The options that parameters of a procedure stand for, of those that the call gives."""
    return {option: _text(given, name) for name, option in names.items() if given.is_given(name)}


def _text(given: Given, name: str) -> str:
    value = given.value(name)
    return str(value).lower() if isinstance(value, bool) else str(value)
