"""List the partitions of a table, with their files and sizes."""

from __future__ import annotations

import argparse

from pyhudi.commands.arguments import add_json, add_table, opened
from pyhudi.commands.output import Output


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_table(parser)
    add_json(parser)


def run(chosen: argparse.Namespace, output: Output) -> int:
    """Write a row per partition."""
    output.rows(opened(chosen).inspect.partitions(), sizes=("bytes",), none="no partitions yet")
    return 0
