"""Declaration of one option: its key and aliases, its legal values, its default and its meaning.

Options are declared as fields of a frozen dataclass. So the key, the type, the default and the meaning of an option
are in one place, and code reads `config.bloom.num_entries`, never a string key.
"""

from __future__ import annotations

import dataclasses
import enum
import sys
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from pyhudi.config.parsers import Parser, parser_of_default
from pyhudi.errors import ConfigError, UnsupportedFeatureError

T = TypeVar("T")
D = TypeVar("D")
_METADATA_KEY = "option"
_PACKAGE: Final = f"{Path(__file__).parent.parent}/"


class OptionWarning(UserWarning):
    """An option has no effect, because its key is unknown or its function is not built yet."""


def warn_of_option(message: str) -> None:
    """Warn (`OptionWarning`) at the line outside of pyhudi whose call led here: there the option is given."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, OptionWarning, stacklevel=level)


@dataclass(frozen=True, slots=True)
class Option(Generic[T]):
    """A key that pyhudi honours. `aliases` are older or alternative spellings with the same effect.

    `by_alter`: it says what a new table is to be like, and `table.alter` changes that later. So the handle of a table
    that was created with it does not keep it: it would change that back, or conflict with it.
    """

    key: str
    parser: Parser[Any]
    default: T
    doc: str
    aliases: tuple[str, ...] = ()
    by_alter: bool = False

    @property
    def spellings(self) -> tuple[str, ...]:
        """The key and its aliases."""
        return (self.key, *self.aliases)

    def parse(self, text: str) -> T:
        """Parse the text of a value.

        Raises:
            ConfigError: the text is not legal.
            UnsupportedFeatureError: only JVM Hudi supports the value.
        """
        try:
            value: T = self.parser.read(text if self.parser.sees_blanks else text.strip())
        except UnsupportedFeatureError as error:
            raise UnsupportedFeatureError(error.message, option=self.key, value=text) from error
        except ValueError as error:
            raise ConfigError(
                f"{self.key} cannot be {text!r}: it must be {self.parser.legal}",
                option=self.key,
                value=text,
                legal=self.parser.legal,
            ) from error
        return value


def option(
    key: str,
    *,
    default: D,
    doc: str,
    parse: Parser[T] | None = None,
    aliases: tuple[str, ...] = (),
    by_alter: bool = False,
) -> T | D:
    """Declare an option as a field of a dataclass. Type checkers see the field's value.

    An option whose default is a truth value, or a member of an enumeration, takes just such values without `parse`.
    """
    parser = parse or parser_of_default(default)
    declared: Option[T | D] = Option(
        key=key, parser=parser, default=default, doc=doc, aliases=aliases, by_alter=by_alter
    )
    value: D = field(default=default, metadata={_METADATA_KEY: declared})
    return value


def options_of(group: type) -> Iterator[tuple[str, Option[Any]]]:
    """The field names and options of a dataclass, in the order of their declaration."""
    for declared in dataclasses.fields(group):
        if _METADATA_KEY in declared.metadata:
            yield declared.name, declared.metadata[_METADATA_KEY]


def read_group(group: type[T], given: Mapping[str, str]) -> T:
    """Build a dataclass of options from texts by main key. Options that are not given keep their defaults."""
    return group(**{name: o.parse(given[o.key]) for name, o in options_of(group) if o.key in given})


def text_of(value: Any) -> str:
    """The option text of a Python value: `true` for `True`, the value of an enum member, lists joined by commas."""
    if isinstance(value, enum.Enum):
        value = value.value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return ",".join(text_of(part) for part in value)
    return str(value)
