"""Undo the newest completed write, a pending write or a plan; without an instant, what dead writers left."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from pyhudi.commands.arguments import add_dry_run, add_json, add_table, opened
from pyhudi.commands.output import Output
from pyhudi.errors import InvalidRequestError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_table(parser)
    parser.add_argument("instant", metavar="INSTANT", nargs="?", help="what to undo; by default what dead writers left")
    parser.add_argument(
        "--eager",
        action="store_true",
        help="also pending writes without a heartbeat, as a single JVM Hudi makes them; only if no process is writing",
    )
    add_dry_run(parser)
    add_json(parser)


def run(chosen: argparse.Namespace, output: Output) -> int:
    """Roll back, or say what would be."""
    table = opened(chosen)
    if chosen.instant is not None and chosen.eager:
        raise InvalidRequestError("--eager is about what dead writers left: leave it out, or the instant")
    if chosen.instant is None and chosen.dry_run:
        due = [row for row in table.services.due().to_pylist() if row["service"] == "rollback"]
        output.records(due)
    elif chosen.instant is None:
        done = table.recovery.roll_back_failed_writes(eager=chosen.eager)
        output.records([asdict(one) for one in done], none="nothing was left to roll back")
    elif chosen.dry_run:
        output.rows(table.recovery.plan_rollback(chosen.instant), sizes=("size",))
    else:
        output.result(table.recovery.rollback(chosen.instant), none="")
    return 0
