"""Write the golden tables whose keys and partition paths are JVM Hudi's own business, with what it reads from them.

    .venv/bin/python tools/oracle/setup.py
    .venv/bin/python tools/oracle/make_golden_keys.py

Each archive of `tests/golden/keys` holds `table/` and `read.parquet`, JVM Hudi's snapshot.
"""

from __future__ import annotations

import datetime as dt
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY))

from golden_archives import pack  # noqa: E402
from tests.support.oracle import Oracle  # noqa: E402

GOLDEN = REPOSITORY / "tests" / "golden" / "keys"
WORKSHOP = Path("/tmp/golden")
RELEASE = "1.2.0"

KEY = "hoodie.datasource.write.recordkey.field"
PARTITION = "hoodie.datasource.write.partitionpath.field"
OPERATION = "hoodie.datasource.write.operation"
BASE = {
    "hoodie.table.name": "t",
    KEY: "id",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.metadata.enable": "false",
    "hoodie.index.bloom.num_entries": "100",
}
JANUARY = dt.datetime(2024, 1, 31, 10, 0, 0, 500_000, tzinfo=dt.UTC)
DECEMBER = dt.datetime(2023, 12, 31, 23, 59, 59, tzinfo=dt.UTC)
TIMES = pa.array([JANUARY, DECEMBER], pa.timestamp("us", "UTC"))
IDS = pa.array(["a", "b", "c"])
NUMBERS = pa.array([1, 2, 3], pa.int64())
DATES = pa.array(["2024-01-31", "2023-12-31", None])
BY_TIME = {
    PARTITION: "p",
    "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.TimestampBasedKeyGenerator",
    "hoodie.keygen.timebased.timestamp.type": "EPOCHMILLISECONDS",
    "hoodie.keygen.timebased.output.dateformat": "yyyy-MM-dd",
}


def sql_by_timestamp(oracle: Oracle, path: Path) -> None:
    """SQL names partitions by the second, in local time, and escapes them whatever the table says."""
    oracle.sql(
        f"create table sql_by_timestamp (id bigint, v bigint, ts bigint, t timestamp) using hudi tblproperties "
        f"(primaryKey = 'id', preCombineField = 'ts') partitioned by (t) location '{path}'"
    )
    oracle.sql("insert into sql_by_timestamp values (1, 1, 1, timestamp'2024-01-31 10:00:00.5'), (2, 1, 1, null)")


def bulk_timestamp_key(oracle: Oracle, path: Path) -> None:
    """A bulk insert makes local times of timestamp keys."""
    rows = pa.table({"id": TIMES, "v": NUMBERS[:2], "ts": NUMBERS[:2]})
    oracle.write(path, rows, {**BASE, OPERATION: "bulk_insert"})


def mixed_timestamp_keys(oracle: Oracle, path: Path) -> None:
    """Keys of both forms, in files of two partitions; those of the first one are microseconds."""
    options = {**BASE, KEY: "id,w", PARTITION: "p"}
    rows = pa.table({"id": IDS[:2], "w": TIMES, "v": NUMBERS[:2], "ts": NUMBERS[:2], "p": ["x", "x"]})
    oracle.write(path, rows, {**options, OPERATION: "upsert"})
    more = pa.table({"id": ["c", "d"], "w": TIMES, "v": NUMBERS[:2], "ts": NUMBERS[:2], "p": ["y", "y"]})
    oracle.write(path, more, {**options, OPERATION: "bulk_insert"})


def slash_dates(oracle: Oracle, path: Path) -> None:
    """`2024-01-31` in the files, `2024/01/31` as folders."""
    rows = pa.table({"id": IDS, "v": NUMBERS, "ts": NUMBERS, "day": DATES})
    slashes = {"hoodie.datasource.write.slash.separated.date.partitioning": "true"}
    oracle.write(path, rows, {**BASE, **slashes, PARTITION: "day"})


def by_time_updated_by_sql(oracle: Oracle, path: Path) -> None:
    """SQL makes text of the partition column of the timestamp key generator, in the files that it rewrites."""
    times = pa.array([int(JANUARY.timestamp() * 1000), int(DECEMBER.timestamp() * 1000), None], pa.int64())
    rows = pa.table({"id": IDS, "v": NUMBERS, "ts": NUMBERS, "p": times})
    oracle.write(path, rows, {**BASE, **BY_TIME})
    oracle.sql(f"create table by_time_updated_by_sql using hudi location '{path}'")
    oracle.sql("update by_time_updated_by_sql set v = 9 where id = 'a'")


def dropped_column(oracle: Oracle, path: Path) -> None:
    """Files without the partition column."""
    rows = pa.table({"id": IDS, "v": NUMBERS, "ts": NUMBERS, "p": pa.array([5, 6, None], pa.int32())})
    dropped = {"hoodie.datasource.write.drop.partition.columns": "true"}
    hive = {"hoodie.datasource.write.hive_style_partitioning": "true"}
    oracle.write(path, rows, {**BASE, **dropped, **hive, PARTITION: "p"})


CASES: tuple[Callable[[Oracle, Path], None], ...] = (
    sql_by_timestamp,
    bulk_timestamp_key,
    mixed_timestamp_keys,
    slash_dates,
    by_time_updated_by_sql,
    dropped_column,
)


def main() -> None:
    GOLDEN.mkdir(exist_ok=True)
    oracle = Oracle(RELEASE)
    for case in CASES:
        folder = WORKSHOP / case.__name__
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        case(oracle, folder / "table")
        pq.write_table(oracle.read(folder / "table"), folder / "read.parquet", compression="zstd")
        archive = pack(folder, GOLDEN / f"v9-{case.__name__.replace('_', '-')}.tar.xz")
        print(f"{archive.name}: {archive.stat().st_size / 1024:.0f} kB", flush=True)
    oracle.stop()
    shutil.rmtree(WORKSHOP, ignore_errors=True)


if __name__ == "__main__":
    main()
