"""Commands that keep, copy and bring back states of a table, and that build its metadata table again."""

from __future__ import annotations

import argparse
import shlex
from dataclasses import asdict
from typing import TYPE_CHECKING

from pyhudi.commands.arguments import DRY_RUN, EXIT_STATUS, JSON, TABLE, argument, command, one_of, opened
from pyhudi.commands.output import Output, progress_on_terminal
from pyhudi.errors import InvalidRequestError

if TYPE_CHECKING:
    from pyhudi import HudiTable


@command(
    TABLE,
    argument("instant", metavar="INSTANT", nargs="?", help="of a completed write; by default the newest"),
    argument("--name", help="for restore, --as-of and --delete"),
    argument("--comment", help="any text"),
    one_of(
        argument("--list", action="store_true", help="list the savepoints instead"),
        argument("--delete", metavar="NAME", help="give a savepoint up, by its name or instant"),
    ),
    DRY_RUN,
    JSON,
)
def savepoint(chosen: argparse.Namespace, output: Output) -> None:
    """Keep a state of the table readable, under a name if one is given; list the savepoints, or delete one."""
    savepoints = opened(chosen).savepoints
    is_other = chosen.list or chosen.delete is not None
    if is_other and (chosen.instant or chosen.name or chosen.comment):
        raise InvalidRequestError("an instant, --name and --comment are of a new savepoint: leave --list, --delete out")
    if chosen.list or chosen.dry_run:
        output.rows(savepoints.list(), none="no savepoints")
    elif chosen.delete is not None:
        savepoints.delete(chosen.delete)
        output.record({"deleted": chosen.delete})
    else:
        output.result(savepoints.create(chosen.instant, name=chosen.name, comment=chosen.comment), none="")


@command(
    TABLE,
    argument(
        "to",
        metavar="TO",
        help="the instant of a completed write, the name of a savepoint, or a time such as '2026-01-31 10:00:00'",
    ),
    DRY_RUN,
    JSON,
)
def restore(chosen: argparse.Namespace, output: Output) -> None:
    """Take the table back to the state after a completed write, or at a savepoint; what came later is rolled back."""
    recovery = opened(chosen).recovery
    if chosen.dry_run:
        output.rows(recovery.plan_restore(chosen.to), sizes=("size",), none="nothing came later")
    else:
        output.result(recovery.restore(chosen.to), none="")


@command(
    TABLE,
    argument("instant", metavar="INSTANT", nargs="?", help="what to undo; by default what dead writers left"),
    argument(
        "--eager",
        action="store_true",
        help="also pending writes without a heartbeat, as a single JVM Hudi makes them; only if no process is writing",
    ),
    DRY_RUN,
    JSON,
)
def rollback(chosen: argparse.Namespace, output: Output) -> None:
    """Undo the newest completed write, a pending write or a plan; without an instant, what dead writers left."""
    table = opened(chosen)
    if chosen.instant is not None and chosen.eager:
        raise InvalidRequestError("--eager is about what dead writers left: leave it out, or the instant")
    if chosen.instant is None and chosen.dry_run:
        due = [row for row in table.services.due().to_pylist() if row["service"] == "rollback"]
        output.records(due)
        _note_newest(table, chosen.path, output)
    elif chosen.instant is None:
        done = table.recovery.roll_back_failed_writes(eager=chosen.eager)
        output.records([asdict(rollback) for rollback in done], none="dead writers left nothing to roll back")
        _note_newest(table.refresh(), chosen.path, output)
    elif chosen.dry_run:
        output.rows(table.recovery.plan_rollback(chosen.instant), sizes=("size",))
    else:
        output.result(table.recovery.rollback(chosen.instant), none="")


def _note_newest(table: HudiTable, path: str, output: Output) -> None:
    """Say how the newest completed write is undone, which only its instant does."""
    for write in table.inspect.history(limit=1).to_pylist():
        command_line = shlex.join(["pyhudi", "rollback", path, write["instant"]])
        output.note(f"the newest completed write ({write['operation']}) stays; to undo it: {command_line}")


@command(TABLE, DRY_RUN, JSON)
def rebuild_metadata(chosen: argparse.Namespace, output: Output) -> None:
    """Drop the metadata table and build it again from the table: the repair of one that is damaged or behind."""
    table = opened(chosen)
    if chosen.dry_run:
        found = table.inspect.metadata_check()
        output.rows(
            found,
            sizes=("stored_bytes", "listed_bytes"),
            none="the metadata table agrees with the store, or there is none",
        )
    else:
        output.record({"built": list(table.recovery.rebuild_metadata_table())})


@command(
    TABLE,
    argument("target", metavar="TARGET", help="the path or URI of an empty folder, or of one to be made"),
    DRY_RUN,
    JSON,
    epilog=f"{EXIT_STATUS} `pyhudi export --format hudi` copies the newest state alone.",
)
def copy(chosen: argparse.Namespace, output: Output) -> None:
    """Copy a table with its timeline and all states that it keeps; after a death the same command goes on."""
    write_copy(chosen, output, newest=False)


def write_copy(chosen: argparse.Namespace, output: Output, *, newest: bool) -> None:
    """Copy the table that the arguments name into `chosen.target`, or say what that would be."""
    recovery = opened(chosen).recovery
    if chosen.dry_run:
        output.rows(recovery.plan_copy(newest=newest), sizes=("bytes",))
    else:
        output.result(
            recovery.copy(chosen.target, newest=newest, on_progress=progress_on_terminal()), none="", sizes=("bytes",)
        )
