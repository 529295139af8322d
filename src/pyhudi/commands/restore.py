"""Take the table back to the state after a completed write, or at a savepoint; what came later is rolled back."""

from __future__ import annotations

import argparse

from pyhudi.commands.arguments import add_dry_run, add_json, add_table, opened
from pyhudi.commands.output import Output


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_table(parser)
    parser.add_argument("to", metavar="TO", help="the instant of a completed write, or the name of a savepoint")
    add_dry_run(parser)
    add_json(parser)


def run(chosen: argparse.Namespace, output: Output) -> int:
    """Restore, or say what would be rolled back and deleted."""
    recovery = opened(chosen).recovery
    if chosen.dry_run:
        output.rows(recovery.plan_restore(chosen.to), sizes=("size",), none="nothing came later")
    else:
        output.result(recovery.restore(chosen.to), none="")
    return 0
