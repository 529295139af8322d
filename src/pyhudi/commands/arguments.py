"""The form of a command, and the arguments that several commands have."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from inspect import getdoc
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import pyhudi
from pyhudi.commands.output import Output

if TYPE_CHECKING:
    from pyhudi import HudiTable

Run: TypeAlias = Callable[[argparse.Namespace, Output], "int | None"]
"""What a command does with its arguments. It returns the exit status; None: all went well."""
Argument: TypeAlias = Callable[[argparse._ActionsContainer], object]
"""Adds an argument to a parser."""

EXIT_STATUS: Final = (
    "Exit status: 0 all is well; 1 something failed, is wrong or is not there; 2 the arguments, an option or the table "
    "were refused, and nothing was begun."
)


@dataclass(frozen=True, slots=True)
class Command:
    """A command of `pyhudi`: what it does, its arguments in their order, and what its help ends with."""

    run: Run
    arguments: tuple[Argument, ...]
    epilog: str

    @property
    def description(self) -> str:
        """The first paragraph of what the function says of itself."""
        return " ".join((getdoc(self.run) or "").split("\n\n")[0].split())


def command(*arguments: Argument, epilog: str = EXIT_STATUS) -> Callable[[Run], Command]:
    """Make a function with these arguments a command, which help describes by the docstring."""
    return lambda run: Command(run, arguments, epilog)


def argument(*names: str, **settings: Any) -> Argument:
    """Declare an argument, as `add_argument` of argparse takes it."""
    return lambda parser: parser.add_argument(*names, **settings)


def one_of(*arguments: Argument) -> Argument:
    """Declare arguments of which one call has at most one."""

    def add(parser: argparse._ActionsContainer) -> None:
        group = parser.add_mutually_exclusive_group()
        for add_argument in arguments:
            add_argument(group)

    return add


def together(*arguments: Argument) -> Argument:
    """Declare arguments that go together."""
    return lambda parser: [add_argument(parser) for add_argument in arguments]


def limit(default: int, what: str) -> Argument:
    """Declare `--limit N`: how many of something are shown."""
    return argument("--limit", type=whole_number, default=default, metavar="N", help=f"how many {what} ({default})")


def opened(chosen: argparse.Namespace) -> HudiTable:
    """The table that the arguments name."""
    return pyhudi.HudiTable.for_path(chosen.path, hudi_options=dict(chosen.option))


def whole_number(text: str) -> int:
    """A number from 0 on, as the type of an argument."""
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"must be a whole number from 0 on, not {text!r}")
    return int(text)


def names_of(text: str) -> list[str]:
    """Names with commas between them, as the type of an argument."""
    return [name.strip() for name in text.split(",") if name.strip()]


def key_and_value(text: str) -> tuple[str, str]:
    """An option as `KEY=VALUE`."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise argparse.ArgumentTypeError(f"must be KEY=VALUE, not {text!r}")
    return key, value


OPTION: Final = argument(
    "--option",
    action="append",
    default=[],
    type=key_and_value,
    metavar="KEY=VALUE",
    help="an option of Hudi or of the store; may be repeated",
)
JSON: Final = argument("--json", action="store_true", help="print one JSON document")
DRY_RUN: Final = argument("--dry-run", action="store_true", help="only say what would be done; nothing is written")
TABLE: Final = together(argument("path", metavar="PATH", help="the path or URI of the table"), OPTION)
