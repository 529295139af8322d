"""List the completed writes of a table, newest first: what each did, and how many rows and bytes it wrote."""

from __future__ import annotations

import argparse

from pyhudi.commands.arguments import add_json, add_limit, add_table, opened
from pyhudi.commands.output import Output


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_table(parser)
    add_limit(parser, 20, "writes")
    add_json(parser)


def run(chosen: argparse.Namespace, output: Output) -> int:
    """Write a row per write."""
    output.rows(opened(chosen).inspect.history(chosen.limit), sizes=("bytes",), none="no writes yet")
    return 0
