"""`python -m pyhudi bootstrap SOURCE PATH`: makes a folder of Parquet files a table."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from pyhudi.api.hudi_table import HudiTable
from pyhudi.commands.arguments import add_option_argument
from pyhudi.commands.progress import shown_on_terminal

_EPILOG = "Exit status: 0 if the table was made, 2 if the arguments, an option or the source were refused."


def add_bootstrap_command(commands: Any) -> None:
    """Add the command to those of the parser."""
    parser = commands.add_parser(
        "bootstrap", help="make a folder of Parquet files a table", description=__doc__, epilog=_EPILOG
    )
    parser.add_argument("source", help="the path or URI of the folder with the files; it is not written to")
    parser.add_argument("path", help="the path or URI of the table")
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
    parser.add_argument("--plan", action="store_true", help="only say what would be done")
    add_option_argument(parser)
    parser.set_defaults(run=_run)


def _run(chosen: argparse.Namespace) -> int:
    described: dict[str, Any] = {
        "record_key": chosen.record_key,
        "partition_by": chosen.partition_by,
        "mode": chosen.mode,
        "hudi_options": dict(chosen.option),
    }
    if chosen.plan:
        plan = HudiTable.plan_bootstrap(chosen.source, chosen.path, **described).to_pylist()
        for part in plan:
            _say(part["partition_path"] or "(no folder)", part["mode"], part)
        _say("in all", "", {name: sum(part[name] for part in plan) for name in ("files", "rows", "bytes", "seconds")})
        return 0
    table = HudiTable.bootstrap(
        chosen.source,
        chosen.path,
        **described,
        ordering_fields=chosen.ordering_fields,
        table_type=chosen.table_type,
        table_version=chosen.table_version,
        check_keys=chosen.check_keys or ("warn" if chosen.warn_keys else False),
        on_progress=shown_on_terminal(),
    )
    for write in reversed(table.inspect.history().to_pylist()):
        sys.stdout.write(
            f"{write['instant']} {write['operation']}: {write['inserted']:,} rows, {write['files']:,} files\n"
        )
    return 0


def _say(what: str, mode: str, counts: dict[str, Any]) -> None:
    told = f"{counts['files']:,} files, {counts['rows']:,} rows, {counts['bytes']:,} bytes, ~{counts['seconds']:.1f} s"
    sys.stdout.write(f"{what:<40} {mode:<14} {told}\n")
