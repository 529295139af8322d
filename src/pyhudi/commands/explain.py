"""Say what a read would do: which files and partitions it opens, what it leaves out, and why."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from pyhudi.commands.arguments import add_json, add_table, opened
from pyhudi.commands.conditions import add_rows_arguments
from pyhudi.commands.output import Output
from pyhudi.commands.some_rows import scan_of_arguments


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_table(parser)
    add_rows_arguments(parser)
    add_json(parser)


def run(chosen: argparse.Namespace, output: Output) -> int:
    """Write the explanation; no row is read."""
    explanation = scan_of_arguments(chosen, opened(chosen)).explain()
    if output.as_json:
        output.document(asdict(explanation))
    else:
        output.text(str(explanation))
    return 0
