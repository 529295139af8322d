"""`pyhudi streamer`."""

from __future__ import annotations

import argparse
import signal
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

import pyhudi
from pyhudi.commands.arguments import JSON, argument, command, key_and_value
from pyhudi.commands.output import Output, finish_output
from pyhudi.errors import ConfigError, UnsupportedFeatureError

if TYPE_CHECKING:
    from pyhudi.streamer.many import TableResult
    from pyhudi.streamer.result import StreamerResult

INTERRUPTED: Final = 130
"""The exit status after Ctrl-C or SIGTERM, as shells have it."""
_NO_NEW_DATA: Final = "NoNewDataTerminationStrategy"
_ROUNDS: Final = "max.rounds.without.new.data.to.shutdown"
_EPILOG = (
    "Exit status: 0 if all went well, also where there was nothing new; 1 if the source or the write failed; 2 if the"
    " arguments or an option were refused; 130 after Ctrl-C or SIGTERM. After 1 and 130 nothing of the last batch is in"
    " the table, and the next run reads it again. Of many tables one that fails stops no other; 1 says that the last"
    " round of one has failed."
)


@command(
    argument("--target-base-path", metavar="PATH", help="the path or URI of the table"),
    argument("--config-folder", metavar="PATH", help="of many tables: the folder with a property file of each"),
    argument("--base-path-prefix", metavar="PATH", help="of many tables: the folder in which they are"),
    argument("--target-table", metavar="NAME", help="the name of a new table"),
    argument("--table-type", metavar="TYPE", help="COPY_ON_WRITE or MERGE_ON_READ, of a new table"),
    argument("--source-class", default="JsonDFSSource", metavar="CLASS", help="such as ParquetDFSSource"),
    argument(
        "--source-ordering-fields",
        "--source-ordering-field",
        metavar="COLUMNS",
        help="what says which version of a row is the newest",
    ),
    argument("--op", default="UPSERT", help="UPSERT, INSERT, BULK_INSERT and so on"),
    argument("--filter-dupes", action="store_true", help="with INSERT: drop rows whose keys are there"),
    argument("--props", metavar="FILE", help="a property file with options; of many tables also their list"),
    argument(
        "--hoodie-conf",
        action="append",
        default=[],
        type=key_and_value,
        metavar="KEY=VALUE",
        help="an option, over those of the file; may be repeated",
    ),
    argument("--schemaprovider-class", metavar="CLASS", help="FilebasedSchemaProvider"),
    argument("--transformer-class", metavar="CLASSES", help="such as SqlQueryBasedTransformer"),
    argument("--source-limit", type=int, metavar="N", help="about how many bytes or messages a batch has"),
    argument("--checkpoint", metavar="TEXT", help="where to begin; counts once"),
    argument("--ignore-checkpoint", metavar="WORD", help="read from the begin; counts once for each word"),
    argument("--allow-commit-on-no-checkpoint-change", action="store_true", help="commit without new rows"),
    argument("--continuous", action="store_true", help="go on, until an error or a signal"),
    argument("--min-sync-interval-seconds", type=float, default=0, metavar="SECONDS"),
    argument("--max-pending-compactions", type=int, default=5, metavar="N", help="wait at so many plans"),
    argument("--max-pending-clustering", type=int, default=5, metavar="N", help="wait at so many plans"),
    argument("--disable-compaction", action="store_true", help="another process compacts"),
    argument(
        "--post-write-termination-strategy-class",
        metavar="CLASS",
        help=f"{_NO_NEW_DATA}: end after so many rounds without anything new ({_ROUNDS}, 3)",
    ),
    argument("--spark-master", metavar="URL", help="read and write in tasks of Spark: its master, such as local[*]"),
    argument("--retry-on-source-failures", action="store_true", help="ask a source that fails again"),
    argument("--retry-interval-seconds", type=float, default=30, metavar="SECONDS"),
    argument("--max-retry-count", type=int, default=3, metavar="N"),
    JSON,
    epilog=_EPILOG,
)
def streamer(chosen: argparse.Namespace, output: Output) -> int:
    """Read what is new in files or queues into tables, with the arguments of JVM Hudi's HoodieStreamer.

    One table has --target-base-path; many have --config-folder, as with HoodieMultiTableStreamer.
    """
    if (chosen.target_base_path is None) == (chosen.config_folder is None):
        raise ConfigError("give --target-base-path for one table, or --config-folder for those that --props lists")
    if chosen.json and chosen.continuous:
        raise ConfigError("--json prints one document, and --continuous has no end: give one of them")
    if chosen.post_write_termination_strategy_class is not None and not chosen.continuous:
        raise ConfigError("--post-write-termination-strategy-class is for --continuous")
    conf = dict(chosen.hoodie_conf)
    ends = _termination(chosen.post_write_termination_strategy_class, conf.pop(_ROUNDS, "3"))
    other = ("json", "hoodie_conf", "post_write_termination_strategy_class")
    arguments = {name: value for name, value in vars(chosen).items() if name not in other}
    arguments["hoodie_conf"] = conf
    previous = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        if chosen.config_folder is None:
            return _one_table(arguments, ends, output)
        return _many_tables(arguments, ends, output)
    except KeyboardInterrupt:
        output.note("stopped: what was not committed is read again by the next run")
        return INTERRUPTED
    finally:
        signal.signal(signal.SIGTERM, previous)


def _session(master: str | None) -> Any:
    """A session of Spark with this master; None without one."""
    if master is None:
        return None
    if master.startswith("sc://"):
        raise UnsupportedFeatureError(
            "--spark-master is not for Spark Connect: call pyhudi.streamer.run(…, spark=session) in Python",
            given=master,
        )
    return pyhudi.spark_session(master=master, app_name="pyhudi streamer")


def _one_table(arguments: dict[str, Any], ends: Callable[[int], bool], output: Output) -> int:
    from pyhudi.streamer.loop import run as run_streamer  # noqa: PLC0415 - help does without

    del arguments["config_folder"]
    if arguments.pop("base_path_prefix") is not None:
        raise ConfigError("--base-path-prefix is for --config-folder")
    if arguments["continuous"]:
        arguments["post_write_termination"] = _shown(ends, output)
    session = _session(arguments.pop("spark_master"))
    result = run_streamer(**arguments, spark=session)
    if output.as_json:
        output.document(_document(result))
    elif not arguments["continuous"]:
        output.line(_line(result))
    return 0


def _many_tables(arguments: dict[str, Any], ends: Callable[[int], bool], output: Output) -> int:
    from pyhudi.streamer.many import run_many  # noqa: PLC0415 - help does without
    from pyhudi.streamer.table_files import configs_of_folder  # noqa: PLC0415

    del arguments["target_base_path"]
    if arguments["props"] is None:
        raise ConfigError("--config-folder needs --props, the file that lists the tables")
    if arguments.pop("target_table") is not None:
        raise ConfigError("--target-table is for one table: of many, the property file of each names it")
    continuous = arguments.pop("continuous")
    session = _session(arguments.pop("spark_master"))
    configs = configs_of_folder(**arguments, spark=session)
    termination = _shown_of_many(ends, output) if continuous else None
    results = run_many(configs, continuous=continuous, post_write_termination=termination)
    if output.as_json:
        output.document({"tables": [_document_of_table(table) for table in results]})
    elif not continuous:
        for table in results:
            output.line(f"{table.path}: {_line(table.result)}")
    for table in results:
        if table.error is not None:
            output.note(f"{table.path} failed: {table.error}")
    return 1 if any(table.error is not None for table in results) else 0


def _document(result: StreamerResult) -> dict[str, Any]:
    written = None if result.last is None else asdict(result.last.write)
    return {"write": written, "checkpoint": result.checkpoint}


def _document_of_table(table: TableResult) -> dict[str, Any]:
    error = None if table.error is None else str(table.error)
    return {"path": table.path, **_document(table.result), "error": error}


def _termination(strategy: str | None, rounds: str) -> Callable[[int], bool]:
    """Whether a run ends after so many rounds without anything new."""
    if strategy is None:
        return lambda _: False
    if strategy.rpartition(".")[2] != _NO_NEW_DATA:
        raise UnsupportedFeatureError(f"the only strategy is {_NO_NEW_DATA}", strategy=strategy)
    if not rounds.isdecimal() or int(rounds) < 1:
        raise ConfigError(f"{_ROUNDS} must be a number from 1 on", given=rounds)
    return lambda idle: idle >= int(rounds)


def _shown(ends: Callable[[int], bool], output: Output) -> Callable[[StreamerResult, int], bool]:
    """The termination, which also prints each batch."""
    shown = 0

    def show(result: StreamerResult, idle: int) -> bool:
        nonlocal shown
        if result.batches > shown:
            shown = result.batches
            output.line(_line(result))
            finish_output()
        return ends(idle)

    return show


def _shown_of_many(ends: Callable[[int], bool], output: Output) -> Callable[[Sequence[TableResult]], bool]:
    """The termination, which also prints each batch; a round of all tables whose turn it is counts once."""
    shown: dict[str, int] = {}
    idle = 0

    def show(results: Sequence[TableResult]) -> bool:
        nonlocal idle
        new = [table for table in results if table.result.batches > shown.get(table.path, 0)]
        for table in new:
            shown[table.path] = table.result.batches
            output.line(f"{table.path}: {_line(table.result)}")
        finish_output()
        idle = 0 if new else idle + 1
        return ends(idle)

    return show


def _line(result: StreamerResult) -> str:
    if result.last is None:
        return f"nothing new; checkpoint {result.checkpoint or '-'}"
    write = result.last.write
    rows = f"{write.inserted:,} inserted, {write.updated:,} updated, {write.deleted:,} deleted"
    failed = f"; {result.last.failed:,} records in the error table" if result.last.failed else ""
    return f"{write.instant} {write.operation}: {rows}{failed}; checkpoint {result.checkpoint}"
