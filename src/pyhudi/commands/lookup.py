"""Print the rows with some record keys, by the record index if there is one."""

from __future__ import annotations

import argparse

from pyhudi.commands.arguments import add_json, add_table, names_of, opened
from pyhudi.commands.conditions import keys_of
from pyhudi.commands.output import Output
from pyhudi.commands.some_rows import without_meta_columns

EPILOG = "Exit status: 0 rows were found; 1 there is no row with such a key; 2 the arguments or the table were refused."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_table(parser)
    parser.add_argument(
        "keys", metavar="KEY", nargs="+", help="a value of the key column; of several columns: city:oslo,id:7"
    )
    parser.add_argument("--columns", type=names_of, metavar="NAMES", help="only these columns, separated by commas")
    add_json(parser)


def run(chosen: argparse.Namespace, output: Output) -> int:
    """Write the rows; those of one key are few, so all are written."""
    table = opened(chosen)
    rows = table.lookup(keys_of(chosen.keys, table), chosen.columns)
    if chosen.columns is None:
        rows = rows.select(without_meta_columns(tuple(rows.column_names)))
    output.rows(rows, none="no row has such a key")
    return 0 if rows.num_rows else 1
