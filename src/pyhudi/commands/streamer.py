"""`python -m pyhudi streamer`: from files and queues into a table, with the arguments of JVM Hudi's HoodieStreamer."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from pyhudi.commands.arguments import key_and_value
from pyhudi.errors import HudiError, InvalidRequestError, UnsupportedFeatureError
from pyhudi.streamer.loop import run
from pyhudi.streamer.result import StreamerResult

_EPILOG = (
    "Exit status: 0 if all went well, also where there was nothing new; 1 if the source or the write failed; 2 if the"
    " arguments or an option were refused. After 1 nothing of the batch is in the table, and the next run reads it"
    " again."
)


def add_streamer_command(commands: Any) -> None:
    """Add the command to those of the parser."""
    parser = commands.add_parser(
        "streamer", help="read what is new in a source into a table", description=__doc__, epilog=_EPILOG
    )
    parser.add_argument("--target-base-path", required=True, metavar="PATH", help="the path or URI of the table")
    parser.add_argument("--target-table", metavar="NAME", help="the name of a new table")
    parser.add_argument("--table-type", metavar="TYPE", help="COPY_ON_WRITE or MERGE_ON_READ, of a new table")
    parser.add_argument("--source-class", default="JsonDFSSource", metavar="CLASS", help="such as ParquetDFSSource")
    parser.add_argument(
        "--source-ordering-fields",
        "--source-ordering-field",
        metavar="COLUMNS",
        help="what says which version of a row is the newest",
    )
    parser.add_argument("--op", default="UPSERT", help="UPSERT, INSERT, BULK_INSERT and so on")
    parser.add_argument("--filter-dupes", action="store_true", help="with INSERT: drop rows whose keys are there")
    parser.add_argument("--props", metavar="FILE", help="a property file with options")
    parser.add_argument(
        "--hoodie-conf",
        action="append",
        default=[],
        type=key_and_value,
        metavar="KEY=VALUE",
        help="an option, over those of the file; may be repeated",
    )
    parser.add_argument("--schemaprovider-class", metavar="CLASS", help="FilebasedSchemaProvider")
    parser.add_argument("--source-limit", type=int, metavar="N", help="about how many bytes or messages a batch has")
    parser.add_argument("--checkpoint", metavar="TEXT", help="where to begin; counts once")
    parser.add_argument("--ignore-checkpoint", metavar="WORD", help="read from the begin; counts once for each word")
    parser.add_argument("--allow-commit-on-no-checkpoint-change", action="store_true", help="commit without new rows")
    parser.add_argument("--retry-on-source-failures", action="store_true", help="ask a source that fails again")
    parser.add_argument("--retry-interval-seconds", type=float, default=30, metavar="SECONDS")
    parser.add_argument("--max-retry-count", type=int, default=3, metavar="N")
    parser.set_defaults(run=_run)


def _run(chosen: argparse.Namespace) -> int:
    arguments = {name: value for name, value in vars(chosen).items() if name not in ("run", "hoodie_conf")}
    try:
        result = run(**arguments, hoodie_conf=dict(chosen.hoodie_conf))
    except (InvalidRequestError, UnsupportedFeatureError):
        raise
    except HudiError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"{_line(result)}\n")
    return 0


def _line(result: StreamerResult) -> str:
    if result.last is None:
        return f"nothing new; checkpoint {result.checkpoint or '-'}"
    write = result.last.write
    rows = f"{write.inserted:,} inserted, {write.updated:,} updated, {write.deleted:,} deleted"
    return f"{write.instant} {write.operation}: {rows}; checkpoint {result.checkpoint}"
