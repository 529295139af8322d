"""No table format: what Spark itself needs to write and read the rows."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from inputs import PARTITION
from pyspark.sql import DataFrame

from peers.protocol import LOG_OPERATIONS, PAIRED_SCANS
from peers.spark_peer import SparkPeer


class PlainParquet(SparkPeer):
    """Not partitioned, which is Spark's fastest way."""

    lacks: ClassVar[frozenset[str]] = (
        LOG_OPERATIONS
        | PAIRED_SCANS
        | {
            "upsert_random",
            "scan_after",
            "aggregate_after",
            "incremental",
            "upsert_newest",
            "delete",
            "small_upsert",
        }
    )

    def load(self, table: Path, rows: DataFrame) -> None:
        rows.write.parquet(str(table))

    def frame(self, table: Path) -> DataFrame:
        return self.input(table)


class PartitionedParquet(PlainParquet):
    """In folders by the column that the tables are partitioned by."""

    def load(self, table: Path, rows: DataFrame) -> None:
        rows.write.partitionBy(PARTITION).parquet(str(table))
