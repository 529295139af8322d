"""Commands that look at rows of a table, and those that explain or export a read."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from pyhudi.commands.arguments import DRY_RUN, JSON, TABLE, argument, command, limit, names_of, opened
from pyhudi.commands.conditions import AS_OF, COLUMNS, WHERE, conditions_of, key_columns, keys_of
from pyhudi.commands.output import Output
from pyhudi.commands.table_text import cell_text
from pyhudi.commands.undo import write_copy
from pyhudi.errors import InvalidRequestError

if TYPE_CHECKING:
    import pyarrow as pa

    from pyhudi import HudiTable, Scan

META_PREFIX = "_hoodie_"
COMMIT_TIME = "_hoodie_commit_time"
_ROW_OF_KEY: Final = (
    "Exit status: 0 rows were found; 1 there is no row with such a key; 2 the arguments or the table were refused."
)


@command(TABLE, COLUMNS, WHERE, AS_OF, limit(10, "rows"), JSON)
def sample(chosen: argparse.Namespace, output: Output) -> None:
    """Print some rows of a table."""
    rows = first_rows(scan_of_arguments(chosen, opened(chosen)), chosen.limit)
    write_rows(rows, chosen.limit, output)


@command(
    TABLE,
    argument("keys", metavar="KEY", nargs="+", help="a value of the key column; of several columns: city:oslo,id:7"),
    COLUMNS,
    JSON,
    epilog=_ROW_OF_KEY,
)
def lookup(chosen: argparse.Namespace, output: Output) -> int:
    """Print the rows with some record keys, by the record index if there is one."""
    table = opened(chosen)
    rows = table.lookup(keys_of(chosen.keys, table), chosen.columns)
    if chosen.columns is None:
        rows = rows.select(without_meta_columns(tuple(rows.column_names)))
    output.rows(rows, none="no row has such a key")
    return 0 if rows.num_rows else 1


@command(
    TABLE,
    argument("--since", metavar="TIME", help="a completion time, see `pyhudi history`; by default the beginning"),
    argument("--until", metavar="TIME", help="the same; by default now"),
    argument("--cdc", action="store_true", help="each change with the row before and after it"),
    COLUMNS,
    WHERE,
    limit(20, "rows"),
    JSON,
)
def changes(chosen: argparse.Namespace, output: Output) -> None:
    """Print what was written after a time: the newest rows, or with --cdc every insert, update and delete."""
    table = opened(chosen)
    scan = table.changes(
        chosen.since,
        chosen.until,
        columns=chosen.columns,
        where=conditions_of(chosen.where, table.schema),
        format="cdc" if chosen.cdc else "latest_state",
    )
    if not chosen.cdc and chosen.columns is None:
        names = [COMMIT_TIME, *without_meta_columns(scan.columns)]
        scan = table.changes(chosen.since, chosen.until, columns=names, where=scan.where, format="latest_state")
    rows = scan.to_arrow() if chosen.cdc else first_rows(scan, chosen.limit + 1)
    if chosen.cdc and chosen.columns is None and not output.as_json:
        key = key_columns(table)
        shown = [_change_for_eyes(row, key) for row in rows.slice(0, chosen.limit).to_pylist()]
        output.records(shown, none="no rows")
        note_of_more(rows, chosen.limit, output)
    else:
        write_rows(rows, chosen.limit, output)


def _change_for_eyes(row: dict[str, Any], key: Sequence[str]) -> dict[str, Any]:
    """A row of change data with what its images differ in, instead of the images, which are JSON with all columns."""
    before, after = (None if row[name] is None else json.loads(row[name]) for name in ("before", "after"))
    image = after or before or {}
    parts = {name: cell_text(image.get(name)) for name in key}
    shown = ",".join(parts.values() if len(parts) == 1 else (f"{name}:{text}" for name, text in parts.items()))
    images = {"before": _without_meta_columns_of(before), "after": _without_meta_columns_of(after)}
    return {"op": row["op"], "time": row["ts_ms"], "key": shown, "change": _change(images)}


def _without_meta_columns_of(image: dict[str, Any] | None) -> dict[str, Any] | None:
    return None if image is None else {name: image[name] for name in without_meta_columns(tuple(image))}


@command(
    TABLE,
    argument("begin", metavar="A", help="an instant, a time, or the name of a savepoint"),
    argument("end", metavar="B", nargs="?", help="the same; by default the newest state"),
    limit(20, "rows"),
    JSON,
)
def diff(chosen: argparse.Namespace, output: Output) -> None:
    """Print the rows that differ between two moments of a table, by record key."""
    found = opened(chosen).diff(chosen.begin, chosen.end)
    rows = found.slice(0, chosen.limit).to_pylist()
    if output.as_json:
        output.document(rows)
    else:
        names = ("op", "record_key", "partition_path")
        output.records([{**{name: row[name] for name in names}, "change": _change(row)} for row in rows])
    if found.num_rows > chosen.limit:
        output.note(f"the first {chosen.limit:,} of {found.num_rows:,} rows; --limit N gives more")


def _change(row: dict[str, Any]) -> str:
    before, after = row["before"], row["after"]
    if before is None or after is None:
        return ", ".join(f"{name}={cell_text(value)}" for name, value in (before or after).items())
    changed = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    return ", ".join(f"{name}: {cell_text(before.get(name))} -> {cell_text(after.get(name))}" for name in changed)


@command(
    TABLE,
    argument("target", metavar="FOLDER", help="the path or URI of an empty folder, or of one to be made"),
    argument(
        "--format",
        choices=("parquet", "json", "hudi"),
        default="parquet",
        help="plain Parquet files (parquet), lines of JSON, or a table of the newest state alone",
    ),
    argument("--partition-by", type=names_of, metavar="NAMES", help="columns whose values are folders, as city=oslo"),
    COLUMNS,
    WHERE,
    AS_OF,
    DRY_RUN,
    JSON,
)
def export(chosen: argparse.Namespace, output: Output) -> None:
    """Write the rows of a table into an empty folder: as plain Parquet files, as JSON, or as a Hudi table."""
    if chosen.format == "hudi":
        if chosen.partition_by or chosen.columns or chosen.where or chosen.as_of:
            raise InvalidRequestError(
                "--format hudi copies files as they are: leave --partition-by, --columns, --where and --as-of out"
            )
        write_copy(chosen, output, newest=True)
        return
    scan = scan_of_arguments(chosen, opened(chosen))
    if chosen.dry_run:
        output.rows(scan.files(), sizes=("size", "log_size"), none="no rows")
    else:
        write = scan.to_json if chosen.format == "json" else scan.to_parquet
        output.result(write(chosen.target, partition_by=chosen.partition_by), none="", sizes=("bytes",))


@command(TABLE, COLUMNS, WHERE, AS_OF, JSON)
def explain(chosen: argparse.Namespace, output: Output) -> None:
    """Say what a read would do: which files and partitions it opens, what it leaves out, and why."""
    explanation = scan_of_arguments(chosen, opened(chosen)).explain()
    if output.as_json:
        output.document(asdict(explanation))
    else:
        output.text(str(explanation))


def scan_of_arguments(chosen: argparse.Namespace, table: HudiTable) -> Scan:
    """The scan that `--columns`, `--where` and `--as-of` describe; without `--columns` no meta columns."""
    where = conditions_of(chosen.where, table.schema)
    if chosen.columns is not None:
        return table.scan(chosen.columns, where, as_of=chosen.as_of)
    whole = table.scan(None, where, as_of=chosen.as_of)
    return table.scan(without_meta_columns(whole.columns), where, as_of=chosen.as_of)


def without_meta_columns(names: tuple[str, ...]) -> list[str]:
    """The names that are not Hudi's own."""
    return [name for name in names if not name.startswith(META_PREFIX)]


def first_rows(scan: Scan, limit: int) -> pa.Table:
    """So many rows of a scan; files behind them are not read."""
    import pyarrow as pa  # noqa: PLC0415 - help does without

    batches, missing = [], limit
    for batch in scan.to_batches():
        batches.append(batch.slice(0, missing))
        missing -= batches[-1].num_rows
        if missing <= 0:
            break
    return pa.Table.from_batches(batches, scan.schema)


def write_rows(rows: pa.Table, limit: int, output: Output) -> None:
    """Write so many rows, and note on the standard error that there are more."""
    output.rows(rows.slice(0, limit), none="no rows")
    note_of_more(rows, limit, output)


def note_of_more(rows: pa.Table, limit: int, output: Output) -> None:
    """Note on the standard error that there are more rows than are shown, if there are."""
    if rows.num_rows > limit:
        output.note(f"the first {limit:,} rows; --limit N gives more")
