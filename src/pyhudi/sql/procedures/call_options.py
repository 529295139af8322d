"""The argument `options` of a call: `k=v,k2=v2`, as JVM Hudi cuts it."""

from __future__ import annotations

from pyhudi.errors import ConfigError
from pyhudi.sql.procedures.call_context import Given


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
