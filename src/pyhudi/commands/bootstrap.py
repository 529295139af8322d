"""Make a folder of Parquet files a table, without rewriting its data."""

from __future__ import annotations

import argparse
from typing import Any

import pyhudi
from pyhudi.commands.arguments import add_json, add_option_argument
from pyhudi.commands.output import Output
from pyhudi.commands.progress import shown_on_terminal


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "source", metavar="SOURCE", help="the path or URI of the folder with the files; it is not written to"
    )
    parser.add_argument("path", metavar="PATH", help="the path or URI of the table")
    parser.add_argument("--record-key", required=True, metavar="COLUMNS", help="what identifies a row, with commas")
    parser.add_argument("--partition-by", metavar="COLUMNS", help="the columns of the folders, if not in their names")
    parser.add_argument("--ordering-fields", metavar="COLUMNS", help="what says which version of a row is the newest")
    parser.add_argument(
        "--mode", default="metadata_only", help="metadata_only (the files stay) or full_record (a copy)"
    )
    parser.add_argument("--table-type", default="cow", help="cow or mor")
    parser.add_argument("--table-version", type=int, default=9, help="6, 8 or 9")
    parser.add_argument("--check-keys", action="store_true", help="refuse a record key that occurs twice")
    parser.add_argument("--warn-keys", action="store_true", help="only warn of a record key that occurs twice")
    parser.add_argument("--dry-run", "--plan", action="store_true", help="only say what would be done")
    add_json(parser)
    add_option_argument(parser)


def run(chosen: argparse.Namespace, output: Output) -> int:
    """Make the table, or say what would be made."""
    described: dict[str, Any] = {
        "record_key": chosen.record_key,
        "partition_by": chosen.partition_by,
        "mode": chosen.mode,
        "hudi_options": dict(chosen.option),
    }
    if chosen.dry_run:
        _write_plan(pyhudi.HudiTable.plan_bootstrap(chosen.source, chosen.path, **described).to_pylist(), output)
        return 0
    table = pyhudi.HudiTable.bootstrap(
        chosen.source,
        chosen.path,
        **described,
        ordering_fields=chosen.ordering_fields,
        table_type=chosen.table_type,
        table_version=chosen.table_version,
        check_keys=chosen.check_keys or ("warn" if chosen.warn_keys else False),
        on_progress=shown_on_terminal(),
    )
    writes = table.inspect.history().to_pylist()[::-1]
    if output.as_json:
        output.document(writes)
        return 0
    for write in writes:
        output.line(f"{write['instant']} {write['operation']}: {write['inserted']:,} rows, {write['files']:,} files")
    return 0


def _write_plan(plan: list[dict[str, Any]], output: Output) -> None:
    if output.as_json:
        output.document(plan)
        return
    for part in plan:
        output.line(_line(part["partition_path"] or "(no folder)", part["mode"], part))
    output.line(_line("in all", "", {name: sum(part[name] for part in plan) for name in _COUNTS}))


def _line(what: str, mode: str, counts: dict[str, Any]) -> str:
    numbers = f"{counts['files']:,} files, {counts['rows']:,} rows, {counts['bytes']:,} bytes"
    return f"{what:<40} {mode:<14} {numbers}, ~{counts['seconds']:.1f} s"


_COUNTS = ("files", "rows", "bytes", "seconds")
