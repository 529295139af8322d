"""`pyhudi bootstrap`."""

from __future__ import annotations

import argparse
from typing import Any

import pyhudi
from pyhudi.commands.arguments import JSON, OPTION, argument, command
from pyhudi.commands.output import Output, progress_on_terminal


@command(
    argument("source", metavar="SOURCE", help="the path or URI of the folder with the files; it is not written to"),
    argument("path", metavar="PATH", help="the path or URI of the table"),
    argument("--record-key", required=True, metavar="COLUMNS", help="what identifies a row, with commas"),
    argument("--partition-by", metavar="COLUMNS", help="the columns of the folders, if not in their names"),
    argument("--ordering-fields", metavar="COLUMNS", help="what says which version of a row is the newest"),
    argument("--mode", default="metadata_only", help="metadata_only (the files stay) or full_record (a copy)"),
    argument("--table-type", default="cow", help="cow or mor"),
    argument("--table-version", type=int, default=9, help="6, 8 or 9"),
    argument("--check-keys", action="store_true", help="refuse a record key that occurs twice"),
    argument("--warn-keys", action="store_true", help="only warn of a record key that occurs twice"),
    argument("--dry-run", "--plan", action="store_true", help="only say what would be done"),
    JSON,
    OPTION,
)
def bootstrap(chosen: argparse.Namespace, output: Output) -> int:
    """Make a folder of Parquet files a table, without rewriting its data."""
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
        on_progress=progress_on_terminal(),
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
