"""Write the rows of a table as plain Parquet files into an empty folder."""

from __future__ import annotations

import argparse

from pyhudi.commands.arguments import add_dry_run, add_json, add_table, opened
from pyhudi.commands.conditions import add_rows_arguments
from pyhudi.commands.output import Output
from pyhudi.commands.some_rows import scan_of_arguments


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_table(parser)
    parser.add_argument("target", metavar="FOLDER", help="the path or URI of an empty folder, or of one to be made")
    add_rows_arguments(parser)
    add_dry_run(parser)
    add_json(parser)


def run(chosen: argparse.Namespace, output: Output) -> int:
    """Export, or say which files of the table would be read."""
    scan = scan_of_arguments(chosen, opened(chosen))
    if chosen.dry_run:
        output.rows(scan.files(), sizes=("size", "log_size"), none="no rows")
    else:
        output.result(scan.to_parquet(chosen.target), none="", sizes=("bytes",))
    return 0
