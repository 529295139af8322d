"""Say what kind of table this is, how large it is, and what it was last written by."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from pyhudi.commands.arguments import add_json, add_table, opened
from pyhudi.commands.output import Output


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_table(parser)
    add_json(parser)


def run(chosen: argparse.Namespace, output: Output) -> int:
    """Write the detail of the table, and its last write."""
    table = opened(chosen)
    last = table.inspect.last_write()
    values = {
        **asdict(table.inspect.detail()),
        "indexes": table.indexes.list()["name"].to_pylist(),
        "last_write": None if last is None else last.instant,
        "last_operation": None if last is None else last.operation,
    }
    output.record(values, sizes=("bytes",))
    return 0
