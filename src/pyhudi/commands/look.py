"""Commands that look at a table: what it is, what was written, and the files it has."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any, Final

from pyhudi.commands.arguments import JSON, TABLE, argument, command, limit, names_of, opened
from pyhudi.commands.output import Output

_SIZES: Final = (
    "base_bytes", "log_bytes", "small_file_limit", "smallest", "median", "largest", "bytes_changed", "bytes_written",
    "bytes",
)  # fmt: skip


@command(TABLE, JSON)
def describe(chosen: argparse.Namespace, output: Output) -> None:
    """Say what kind of table this is, how large it is, and what it was last written by."""
    table = opened(chosen)
    last = table.inspect.last_write()
    values = {
        **asdict(table.inspect.detail()),
        "indexes": table.indexes.list()["name"].to_pylist(),
        "last_write": None if last is None else last.instant,
        "last_operation": None if last is None else last.operation,
    }
    output.record(values, sizes=("bytes",))


@command(TABLE, JSON)
def schema(chosen: argparse.Namespace, output: Output) -> None:
    """Print the columns of a table and their types."""
    rows = opened(chosen).inspect.columns().to_pylist()
    if not output.as_json:
        names = ("column", "type", "nullable")
        rows = [{**{name: row[name] for name in names}, "role": _role(row)} for row in rows]
    output.records(rows, none="the table has no columns yet")


def _role(row: dict[str, Any]) -> str:
    roles = {"key": "record key", "partition": "partition", "ordering": "ordering"}
    return ", ".join(words for name, words in roles.items() if row[name] is not None)


@command(TABLE, limit(20, "writes"), JSON)
def history(chosen: argparse.Namespace, output: Output) -> None:
    """List the completed writes of a table, newest first: what each did, and how many rows and bytes it wrote."""
    output.rows(opened(chosen).inspect.history(chosen.limit), sizes=("bytes",), none="no writes yet")


@command(TABLE, JSON)
def timeline(chosen: argparse.Namespace, output: Output) -> None:
    """List the instants of the active timeline: writes and services, completed or pending."""
    output.rows(opened(chosen).inspect.timeline(), none="no instants yet")


@command(
    TABLE, argument("--partition", metavar="PATH", help="only the files of this partition, such as city=oslo"), JSON
)
def files(chosen: argparse.Namespace, output: Output) -> None:
    """List the newest file slice of each file group: its base file and its logs, with their sizes."""
    rows = opened(chosen).inspect.files().to_pylist()
    if chosen.partition is not None:
        rows = [row for row in rows if row["partition_path"] == chosen.partition.strip("/")]
    if not output.as_json:
        names = ("partition_path", "file_id", "size", "logs", "log_size", "instant")
        rows = [{name: len(row[name]) if name == "logs" else row[name] for name in names} for row in rows]
    output.records(rows, sizes=("size", "log_size"), none="no files")


@command(TABLE, JSON)
def partitions(chosen: argparse.Namespace, output: Output) -> None:
    """List the partitions of a table, with their files and sizes."""
    output.rows(opened(chosen).inspect.partitions(), sizes=("bytes",), none="no partitions yet")


@command(
    TABLE,
    limit(20, "writes to look at"),
    argument(
        "--columns", type=names_of, metavar="NAMES", help="instead, what footers say of these columns: bounds, nulls"
    ),
    JSON,
)
def stats(chosen: argparse.Namespace, output: Output) -> None:
    """Say how the files of a table are cut, and what its writes cost.

    Small files, logs beside base files, skew of partitions; write amplification: bytes written over bytes changed, of
    each of the newest writes and of all of them together, services included.
    """
    inspect = opened(chosen).inspect
    if chosen.columns is not None:
        output.rows(inspect.stats(chosen.columns), sizes=_SIZES, none="no base files")
        return
    writes = inspect.write_amplification(chosen.limit).to_pylist()
    sums: dict[str, Any] = {
        name: sum(write[name] for write in writes)
        for name in ("rows_changed", "rows_written", "bytes_changed", "bytes_written")
    }
    changed = sums["bytes_changed"]
    sums["write_amplification"] = round(sums["bytes_written"] / changed, 2) if changed else None
    sizes = {**asdict(inspect.sizes()), "writes": len(writes), **sums}
    if output.as_json:
        output.document({**sizes, "of_writes": writes})
        return
    output.record(sizes, sizes=_SIZES)
    output.line("")
    output.records(writes, sizes=_SIZES, none="no writes yet")
