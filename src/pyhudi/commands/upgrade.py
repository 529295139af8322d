"""Take a table to another version: 8 for JVM Hudi 1.0 and later, 9 for 1.1 and later; 6 and 8 also back."""

from __future__ import annotations

import argparse

from pyhudi.commands.arguments import add_dry_run, add_json, add_table, opened
from pyhudi.commands.output import Output


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_table(parser)
    parser.add_argument("--to", type=int, default=9, choices=(6, 8, 9), help="the version (9)")
    add_dry_run(parser)
    add_json(parser)


def run(chosen: argparse.Namespace, output: Output) -> int:
    """Upgrade or downgrade, or say by which steps."""
    table = opened(chosen)
    if chosen.dry_run:
        output.rows(table.alter.plan_version(chosen.to), none=f"the table has version {chosen.to}")
    elif chosen.to < table.inspect.detail().version:
        output.result(table.alter.downgrade(chosen.to), none="")
    else:
        output.result(table.alter.upgrade(chosen.to), none="")
    return 0
