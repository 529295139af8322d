"""What all peers on Spark share: the session's settings, and reading, which differs only in how a table is opened."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from inputs import AGGREGATED, COMPUTED, DATA_COLUMNS, KEY, ORDERING
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from peers.protocol import LOG_OPERATIONS, PAIRED_SCANS

MASTER = "local[2]"
SETTINGS: Mapping[str, str] = {
    "spark.driver.memory": "4g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


class SparkPeer:
    """Reads a table as a DataFrame. A subclass says how to open one (`frame`) and does the writing."""

    lacks: ClassVar[frozenset[str]] = LOG_OPERATIONS | PAIRED_SCANS

    def __init__(self, work: Path, jars: list[str]) -> None:
        self.work, self.jars = work, jars
        self.spark: SparkSession

    def start(self) -> None:
        builder = SparkSession.builder.master(MASTER).appName("benchmark")
        settings = {**SETTINGS, **self.settings(), "spark.sql.warehouse.dir": str(self.work / "warehouse")}
        if self.jars:
            settings["spark.jars"] = ",".join(self.jars)
        for name, value in settings.items():
            builder = builder.config(name, value)
        self.spark = builder.getOrCreate()
        self.spark.sparkContext.setLogLevel("ERROR")

    def settings(self) -> Mapping[str, str]:
        """What the peer's own documentation tells its users to set."""
        return {}

    def stop(self) -> None:
        self.spark.stop()

    def input(self, path: Path) -> DataFrame:
        """The rows of an input file or folder."""
        return self.spark.read.parquet(str(path))

    def load(self, table: Path, rows: DataFrame) -> None:
        """Make a table, and load rows; subclasses write their own format."""
        raise NotImplementedError

    def bulk_insert(self, table: Path, rows: Path) -> None:
        self.load(table, self.input(rows))

    def bulk_insert_computed(self, table: Path, rows: Path) -> None:
        self.load(table, self.input(rows).withColumn(COMPUTED, sql.upper(COMPUTED)))

    def frame(self, table: Path) -> DataFrame:
        """The table's rows; subclasses open their own format."""
        raise NotImplementedError

    def scan(self, table: Path) -> None:
        drain(self.frame(table))

    def scan_base(self, table: Path) -> None:
        """Merge-on-read tables only."""
        raise NotImplementedError

    def lay_out_plain(self, table: Path, plain: Path) -> None:
        """One file of plain Parquet for each file of the table."""
        for number, path in enumerate(sorted(table.rglob("*.parquet"))):
            rows = self.spark.read.parquet(str(path)).select(*DATA_COLUMNS).coalesce(1)
            rows.write.option("compression", "zstd").parquet(str(plain / str(number)))

    def scan_plain(self, plain: Path) -> None:
        """The files are named, so that Spark has no folders to look through."""
        drain(self.spark.read.parquet(*map(str, sorted(plain.rglob("*.parquet")))))

    def compact(self, table: Path) -> None:
        """Merge-on-read tables only."""
        raise NotImplementedError

    def aggregate(self, table: Path) -> list[str]:
        row = self.frame(table).agg(*[sql.sum(name) for name in AGGREGATED]).first()
        assert row is not None
        return [str(value) for value in row]

    def lookup(self, table: Path, key: str) -> list[str]:
        rows = self.frame(table).where(sql.col(KEY) == key).select("l_comment").collect()
        return [row[0] for row in rows]

    def changed(self, table: Path, since: Any) -> DataFrame:
        """The rows written after a position; subclasses open their own format."""
        raise NotImplementedError

    def changes(self, table: Path, since: Any) -> None:
        drain(self.changed(table, since))

    def count_changes(self, table: Path, since: Any) -> int:
        return int(self.changed(table, since).count())

    def fingerprint(self, table: Path) -> list[str]:
        measures = [sql.count(sql.lit(1)), *[sql.sum(name) for name in AGGREGATED], sql.max(ORDERING)]
        row = self.frame(table).agg(*measures).first()
        assert row is not None
        return [str(value) for value in row]


def drain(rows: DataFrame) -> None:
    """Read every row and column; Spark's `noop` sink throws them away."""
    rows.select(*DATA_COLUMNS).write.format("noop").mode("overwrite").save()
