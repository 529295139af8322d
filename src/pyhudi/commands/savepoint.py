"""Keep a state of the table readable, under a name if one is given; list the savepoints, or delete one."""

from __future__ import annotations

import argparse

from pyhudi.commands.arguments import add_dry_run, add_json, add_table, opened
from pyhudi.commands.output import Output
from pyhudi.errors import InvalidRequestError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_table(parser)
    parser.add_argument("instant", metavar="INSTANT", nargs="?", help="of a completed write; by default the newest")
    parser.add_argument("--name", help="for restore, --as-of and --delete")
    parser.add_argument("--comment", help="any text")
    other = parser.add_mutually_exclusive_group()
    other.add_argument("--list", action="store_true", help="list the savepoints instead")
    other.add_argument("--delete", metavar="NAME", help="give a savepoint up, by its name or instant")
    add_dry_run(parser)
    add_json(parser)


def run(chosen: argparse.Namespace, output: Output) -> int:
    """Create, list or delete; a dry run lists what there is."""
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
    return 0
