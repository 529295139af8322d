"""Arguments that several commands have."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

import pyhudi

if TYPE_CHECKING:
    from pyhudi import HudiTable


def add_table(parser: argparse.ArgumentParser) -> None:
    """Add the path of the table, and the options that it is opened with."""
    parser.add_argument("path", metavar="PATH", help="the path or URI of the table")
    add_option_argument(parser)


def add_option_argument(parser: argparse.ArgumentParser) -> None:
    """Add `--option KEY=VALUE`, which may be repeated, as a list of pairs."""
    parser.add_argument(
        "--option",
        action="append",
        default=[],
        type=key_and_value,
        metavar="KEY=VALUE",
        help="an option of Hudi or of the store; may be repeated",
    )


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add `--json`."""
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def add_dry_run(parser: argparse.ArgumentParser) -> None:
    """Add `--dry-run`."""
    parser.add_argument("--dry-run", action="store_true", help="only say what would be done; nothing is written")


def add_limit(parser: argparse.ArgumentParser, default: int | None, what: str) -> None:
    """Add `--limit N`; without a default all are shown."""
    shown = "all" if default is None else str(default)
    parser.add_argument("--limit", type=whole_number, default=default, metavar="N", help=f"how many {what} ({shown})")


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
