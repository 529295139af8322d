"""Print the rows that differ between two moments of a table, by record key."""

from __future__ import annotations

import argparse
from typing import Any

from pyhudi.commands.arguments import add_json, add_limit, add_table, opened
from pyhudi.commands.output import Output
from pyhudi.commands.table_text import cell_text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_table(parser)
    parser.add_argument("begin", metavar="A", help="an instant, a time, or the name of a savepoint")
    parser.add_argument("end", metavar="B", nargs="?", help="the same; by default the newest state")
    add_limit(parser, 20, "rows")
    add_json(parser)


def run(chosen: argparse.Namespace, output: Output) -> int:
    """Write the first differences; eyes see only the columns that changed."""
    found = opened(chosen).diff(chosen.begin, chosen.end)
    rows = found.slice(0, chosen.limit).to_pylist()
    if output.as_json:
        output.document(rows)
    else:
        names = ("op", "record_key", "partition_path")
        output.records([{**{name: row[name] for name in names}, "change": _change(row)} for row in rows])
    if found.num_rows > chosen.limit:
        output.note(f"the first {chosen.limit:,} of {found.num_rows:,} rows; --limit N gives more")
    return 0


def _change(row: dict[str, Any]) -> str:
    before, after = row["before"], row["after"]
    if before is None or after is None:
        return ", ".join(f"{name}={cell_text(value)}" for name, value in (before or after).items())
    changed = [name for name in after if before[name] != after[name]]
    return ", ".join(f"{name}: {cell_text(before[name])} -> {cell_text(after[name])}" for name in changed)
