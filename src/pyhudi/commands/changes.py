"""Print what was written after a time: the newest rows, or with --cdc every insert, update and delete."""

from __future__ import annotations

import argparse

from pyhudi.commands.arguments import add_json, add_limit, add_table, names_of, opened
from pyhudi.commands.conditions import conditions_of
from pyhudi.commands.output import Output
from pyhudi.commands.some_rows import COMMIT_TIME, first_rows, without_meta_columns, write_rows


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_table(parser)
    parser.add_argument(
        "--since", metavar="TIME", help="a completion time, see `pyhudi history`; by default the beginning"
    )
    parser.add_argument("--until", metavar="TIME", help="the same; by default now")
    parser.add_argument("--cdc", action="store_true", help="each change with the row before and after it")
    parser.add_argument("--columns", type=names_of, metavar="NAMES", help="only these columns, separated by commas")
    parser.add_argument("--where", action="append", default=[], metavar="CONDITION", help="as of `pyhudi sample`")
    add_limit(parser, 20, "rows")
    add_json(parser)


def run(chosen: argparse.Namespace, output: Output) -> int:
    """Write the first changes; those of captured change data in the order of the writes."""
    table = opened(chosen)
    scan = table.changes(
        chosen.since,
        chosen.until,
        columns=chosen.columns,
        where=conditions_of(chosen.where, table.schema),
        format="cdc" if chosen.cdc else "latest_state",
    )
    if not chosen.cdc and chosen.columns is None:
        names = [COMMIT_TIME, *without_meta_columns(scan.columns)]
        scan = table.changes(chosen.since, chosen.until, columns=names, where=scan.where, format="latest_state")
    rows = scan.to_arrow() if chosen.cdc else first_rows(scan, chosen.limit + 1)
    write_rows(rows, chosen.limit, output)
    return 0
