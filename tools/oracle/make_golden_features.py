"""Write the golden tables of features: tables that need something special of their readers or writers.

Run it again only when a case is added or a release changes:

    .venv/bin/python tools/oracle/setup.py
    .venv/bin/python tools/oracle/make_golden_features.py [--release 1.2.0] [--case added]

Each archive `<v6|v8|v9>-<case>.tar.xz` holds `table/`, as JVM Hudi left it, and `expected.parquet`, the rows that it
read from it. Nothing is there to expect where it cannot read what it wrote.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY))

from golden_archives import pack  # noqa: E402
from tests.support.oracle import RELEASE_OF_TABLE_VERSION, Oracle, OracleError  # noqa: E402

GOLDEN = REPOSITORY / "tests" / "golden" / "features"
WORKSHOP = Path("/tmp/golden-features")
ROWS = pa.table(
    {"id": [1, 2, 3, 4], "day": ["2026-01-31"] * 2 + ["2026-02-01"] * 2, "ts": [1] * 4, "v": [10, 20, 30, 40]}
)
NEWER = pa.table({"id": [1, 3], "day": ["2026-01-31", "2026-02-01"], "ts": [2, 2], "v": [11, 31]})
OPTIONS = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.partitionpath.field": "day",
    "hoodie.datasource.write.hive_style_partitioning": "true",
    "hoodie.metadata.enable": "false",
    "hoodie.index.bloom.num_entries": "100",
    "hoodie.bloom.index.filter.dynamic.max.entries": "1000",
}
MOR = {"hoodie.datasource.write.table.type": "MERGE_ON_READ", "hoodie.compact.inline": "false"}
DELETE = {"hoodie.datasource.write.operation": "delete"}
NO_META_COLUMNS = {"hoodie.populate.meta.fields": "false"}
SLASHES = {"hoodie.datasource.write.slash.separated.date.partitioning": "true"}
SCHEMA_ON_READ = {"hoodie.schema.on.read.enable": "true"}

Life = Callable[[Oracle, Path, str], None]


def frames(**options: str) -> Life:
    """Rows written and written again, and one deleted, as DataFrames."""

    def live(oracle: Oracle, table: Path, _name: str) -> None:
        given = {**OPTIONS, **{key.replace("__", "."): value for key, value in options.items()}}
        oracle.write(table, ROWS, given)
        oracle.write(table, NEWER, given)
        oracle.write(table, ROWS.slice(1, 1), {**given, **DELETE})

    return live


TWO_ROWS = "(1, 9.5, 'n1', 1, 'x'), (2, 7.0, 'n2', 1, 'x')"


def statements(kind: str, *changes: str, partitions: str = "", rows: str = TWO_ROWS) -> Life:
    """A table that SQL creates and inserts rows into, and then statements on it, with schema on read."""

    def live(oracle: Oracle, table: Path, name: str) -> None:
        for key in ("hoodie.schema.on.read.enable", "hoodie.datasource.write.schema.allow.auto.evolution.column.drop"):
            oracle.sql(f"set {key}={'true' if changes else 'false'}")
        oracle.sql(
            f"create table {name} (id bigint, fare double, note string, ts bigint, a string) using hudi tblproperties "
            f"(primaryKey='id', preCombineField='ts', type='{kind}', 'hoodie.metadata.enable'='false') {partitions} "
            f"location '{table}'"
        )
        oracle.sql(f"insert into {name} values {rows}")
        for change in changes:
            oracle.sql(change.format(name=name))

    return live


BY_A = "partitioned by (a)"
RENAME = "alter table {name} rename column fare to price"
UPDATE = "update {name} set price = 8.0, ts = 2 where id = 2"
WIDEN = ("alter table {name} add columns (extra string)", "insert into {name} values (3, 9, 'n3', 1, 'e', 'x')")
REPLACE = ("alter table {name} drop column note", "alter table {name} add columns (note string)")
RETYPE = (
    "alter table {name} alter column note type date",
    "alter table {name} alter column fare type decimal(10,2)",
    "alter table {name} alter column a type decimal(10,2)",
)
OF_DAYS = "(1, 9.125, '2026-01-31', 1, '12.345'), (2, 0.1, '1999-12-31', 1, '-7'), (3, null, null, 1, null)"
UPDATE_DAY = "update {name} set fare = 8.25, note = date'2020-02-29', ts = 2 where id = 2"
CASES: dict[str, Life] = {
    "renamed-cow": statements("cow", RENAME, partitions=BY_A),
    "renamed-mor": statements("mor", RENAME, UPDATE, partitions=BY_A),
    "renamed-and-rewritten": statements("cow", RENAME, UPDATE, partitions=BY_A),
    "added": statements("mor", *WIDEN, partitions=BY_A),
    "dropped-and-added": statements("cow", *REPLACE, partitions=BY_A),
    "retyped-cow": statements("cow", *RETYPE, rows=OF_DAYS),
    "retyped-mor": statements("mor", *RETYPE, UPDATE_DAY, rows=OF_DAYS),
    "sql_cow": statements("cow"),
    "sql_mor": statements("mor"),
    "no-meta-columns-cow": frames(**NO_META_COLUMNS),
    "no-meta-columns-mor": frames(**NO_META_COLUMNS, **MOR),
    "no-meta-columns-two-keys": frames(**NO_META_COLUMNS, **MOR, **{"hoodie.datasource.write.recordkey.field": "id,v"}),
}
BUCKETS = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"}
_STRATEGIES = "org.apache.hudi.client.clustering"
RESIZED = {
    "hoodie.index.bucket.engine": "CONSISTENT_HASHING",
    "hoodie.bucket.index.max.num.buckets": "4",
    "hoodie.bucket.index.min.num.buckets": "1",
    "hoodie.bucket.index.split.threshold": "0.0000001",
    "hoodie.clustering.inline": "true",
    "hoodie.clustering.inline.max.commits": "1",
    "hoodie.clustering.plan.strategy.class": f"{_STRATEGIES}.plan.strategy.SparkConsistentBucketClusteringPlanStrategy",
    "hoodie.clustering.execution.strategy.class": (
        f"{_STRATEGIES}.run.strategy.SparkConsistentBucketClusteringExecutionStrategy"
    ),
    "hoodie.clustering.updates.strategy": f"{_STRATEGIES}.update.strategy.SparkConsistentBucketDuplicateUpdateStrategy",
}
CONSISTENT = {**BUCKETS, "hoodie.index.bucket.engine": "CONSISTENT_HASHING", "hoodie.clean.automatic": "false"}


def updated_in_logs(oracle: Oracle, table: Path, name: str) -> None:
    """File slices of logs alone, and an SQL update, whose log is named after the slice's first write."""
    for key, value in CONSISTENT.items():
        oracle.sql(f"set {key}={value}")
    statements("mor")(oracle, table, name)
    oracle.sql(f"update {name} set fare = 8.0, ts = 2 where id = 2")
    for key in CONSISTENT:
        oracle.sql(f"reset {key}")


CASES_OF_1_2: dict[str, Life] = {
    "updated-in-logs": updated_in_logs,
    "slash-dates": frames(**SLASHES),
    "buckets-cow": frames(**BUCKETS),
    # After a resize no file id shows any more that it is that of a bucket.
    "buckets-resized-mor": frames(**BUCKETS, **RESIZED, **MOR),
}


def make(oracle: Oracle, table_version: int, case: str, live: Life) -> None:
    """Let a table live, ask JVM Hudi for its rows, pack both."""
    name = f"v{table_version}-{case}"
    folder = WORKSHOP / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    live(oracle, folder / "table", name.replace("-", "_"))
    try:
        pq.write_table(oracle.read(folder / "table", SCHEMA_ON_READ), folder / "expected.parquet")
    except OracleError as error:
        print(f"{name}: not read: {error}", flush=True)
    archive = pack(folder, GOLDEN / f"{name}.tar.xz")
    print(f"{name}: {archive.stat().st_size / 1024:.0f} kB", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--release", action="append", choices=[*RELEASE_OF_TABLE_VERSION.values()])
    parser.add_argument("--case", action="append", choices=[*CASES, *CASES_OF_1_2])
    asked = parser.parse_args()
    GOLDEN.mkdir(exist_ok=True)
    for table_version, release in RELEASE_OF_TABLE_VERSION.items():
        if asked.release and release not in asked.release:
            continue
        oracle = Oracle(release)
        for case, live in (CASES if release != "1.2.0" else {**CASES, **CASES_OF_1_2}).items():
            if asked.case and case not in asked.case:
                continue
            make(oracle, table_version, case, live)
        oracle.stop()


if __name__ == "__main__":
    main()
