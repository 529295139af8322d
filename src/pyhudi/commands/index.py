"""List the indexes of a table, build one, build it again, or drop it."""

from __future__ import annotations

import argparse

from pyhudi.commands.arguments import add_dry_run, add_json, add_table, names_of, opened
from pyhudi.commands.output import Output
from pyhudi.errors import InvalidRequestError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_table(parser)
    action = parser.add_mutually_exclusive_group()
    action.add_argument(
        "--create", metavar="NAME", help="record_index, column_stats, partition_stats, bloom_filters, or any other name"
    )
    action.add_argument("--refresh", metavar="NAME", help="build it again")
    action.add_argument("--drop", metavar="NAME", help="take it out of the table")
    parser.add_argument("--kind", help="of an index with another name: secondary or expression")
    parser.add_argument("--columns", type=names_of, default=[], metavar="NAMES", help="separated by commas")
    add_dry_run(parser)
    add_json(parser)


def run(chosen: argparse.Namespace, output: Output) -> int:
    """Do what is asked for; a dry run, and no flag, list what there is."""
    indexes = opened(chosen).indexes
    if (chosen.kind or chosen.columns) and chosen.create is None:
        raise InvalidRequestError("--kind and --columns are of a new index: give its name with --create")
    if chosen.dry_run or not (chosen.create or chosen.refresh or chosen.drop):
        output.rows(indexes.list(), none="no indexes")
    elif chosen.create:
        output.result(indexes.create(chosen.create, chosen.kind, chosen.columns), none="", sizes=("bytes",))
    elif chosen.refresh:
        output.result(indexes.refresh(chosen.refresh), none="", sizes=("bytes",))
    else:
        indexes.drop(chosen.drop)
        output.record({"dropped": chosen.drop})
    return 0
