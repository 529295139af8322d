"""Arguments that several commands have."""

from __future__ import annotations

import argparse


def add_option_argument(parser: argparse.ArgumentParser) -> None:
    """Add `--option KEY=VALUE`, which may be repeated, as a list of pairs."""
    parser.add_argument(
        "--option",
        action="append",
        default=[],
        type=key_and_value,
        metavar="KEY=VALUE",
        help="an option; may be repeated",
    )


def key_and_value(text: str) -> tuple[str, str]:
    """An option as `KEY=VALUE`."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise argparse.ArgumentTypeError(f"must be KEY=VALUE, not {text!r}")
    return key, value
