"""Print some rows of a table."""

from __future__ import annotations

import argparse

from pyhudi.commands.arguments import add_json, add_limit, add_table, opened
from pyhudi.commands.conditions import add_rows_arguments
from pyhudi.commands.output import Output
from pyhudi.commands.some_rows import first_rows, scan_of_arguments, write_rows


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_table(parser)
    add_rows_arguments(parser)
    add_limit(parser, 10, "rows")
    add_json(parser)


def run(chosen: argparse.Namespace, output: Output) -> int:
    """Write the first rows that are found; which ones these are is not said."""
    rows = first_rows(scan_of_arguments(chosen, opened(chosen)), chosen.limit)
    write_rows(rows, chosen.limit, output)
    return 0
