"""Print the columns of a table and their types."""

from __future__ import annotations

import argparse
from typing import Any

from pyhudi.commands.arguments import add_json, add_table, opened
from pyhudi.commands.output import Output


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_table(parser)
    add_json(parser)


def run(chosen: argparse.Namespace, output: Output) -> int:
    """Write a row per column; for eyes with what it is for in words."""
    rows = opened(chosen).inspect.columns().to_pylist()
    if not output.as_json:
        names = ("column", "type", "nullable")
        rows = [{**{name: row[name] for name in names}, "role": _role(row)} for row in rows]
    output.records(rows, none="the table has no columns yet")
    return 0


def _role(row: dict[str, Any]) -> str:
    roles = {"key": "record key", "partition": "partition", "ordering": "ordering"}
    return ", ".join(words for name, words in roles.items() if row[name] is not None)
