"""A folder of Parquet files becomes a table without being rewritten: the flights that left New York in 2013, by month.

    python examples/bootstrap.py [--path FOLDER] [--flights NUMBER]

Needs the packages of the dependency group `demo`.
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from flights import load_flights

import pyhudi

KEY = ("time_hour", "carrier", "flight")


def main() -> None:
    """Write the source, bootstrap it, change some flights, and show that the source is as it was."""
    parser = argparse.ArgumentParser(description="A bootstrap, on the NYC flights of 2013.")
    parser.add_argument("--path", default="demo-table/bootstrap", help="folder of source and table; emptied first")
    parser.add_argument("--flights", type=int, help="take this many of the flights, spread over the year")
    arguments = parser.parse_args()
    folder = Path(arguments.path).resolve()
    shutil.rmtree(folder, ignore_errors=True)
    source = write_source(folder / "source", load_flights(arguments.flights))
    before = digest(source)

    plan = pyhudi.HudiTable.plan_bootstrap(source, folder / "table", record_key=KEY)
    print(f"source: {plan.num_rows} months, {pc.sum(plan['rows'])} flights, {pc.sum(plan['bytes'])} bytes")

    begin = time.perf_counter()
    table = pyhudi.HudiTable.bootstrap(
        source, folder / "table", record_key=KEY, ordering_fields="revision", check_keys=True
    )
    print(f"bootstrapped in {time.perf_counter() - begin:.2f} s")
    print(f"rows: {table.scan().count()}, of them to Los Angeles: {table.scan(where=[('dest', '==', 'LAX')]).count()}")

    late = table.scan(where=[("month", "==", 12), ("carrier", "==", "UA"), ("arr_delay", ">", 120)])
    rows = late.to_arrow().drop_columns([name for name in table.schema.names if name.startswith("_hoodie_")])
    revision = pa.array([1] * rows.num_rows, pa.int32())
    rows = rows.set_column(rows.column_names.index("revision"), "revision", revision)
    done = table.upsert(rows)
    print(f"first upsert: {done.updated} flights of December in {done.files} file, {done.seconds:.2f} s")

    table = table.refresh()
    bootstrap = table.inspect.history().to_pylist()[-1]
    changed = table.changes(begin=bootstrap["completion_time"], columns=["time_hour", "carrier", "flight"])
    print(f"changed since the bootstrap: {changed.count()} flights")
    print(f"source as it was: {digest(source) == before}")


def write_source(folder: Path, flights: pa.Table) -> Path:
    """One Parquet file for each month, in folders `month=1` to `month=12`, as many tools write them."""
    for month in sorted(set(flights["month"].to_pylist())):
        (folder / f"month={month}").mkdir(parents=True)
        of_month = flights.filter(pc.equal(flights["month"], month)).drop_columns(["month"])
        pq.write_table(of_month, folder / f"month={month}" / "flights.parquet")
    return folder


def digest(folder: Path) -> str:
    """A hash of all files below a folder."""
    whole = hashlib.sha256()
    for path in sorted(folder.rglob("*.parquet")):
        whole.update(path.read_bytes())
    return whole.hexdigest()


if __name__ == "__main__":
    main()
