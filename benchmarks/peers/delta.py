"""Delta Lake on Spark: MERGE, with its defaults.

Without the change data feed there is no incremental pull, and the feed would make every MERGE write more.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from inputs import KEY, PARTITION
from pyspark.sql import DataFrame

from peers.protocol import LOG_OPERATIONS, PAIRED_SCANS
from peers.spark_peer import SparkPeer


class Delta(SparkPeer):
    lacks: ClassVar[frozenset[str]] = LOG_OPERATIONS | PAIRED_SCANS | {"incremental"}

    def settings(self) -> Mapping[str, str]:
        return {
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        }

    def load(self, table: Path, rows: DataFrame) -> None:
        rows.write.format("delta").partitionBy(PARTITION).save(str(table))

    def upsert(self, table: Path, rows: Path) -> None:
        self._merge(table, rows, "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *")

    def delete(self, table: Path, keys: Path) -> None:
        self._merge(table, keys, "WHEN MATCHED THEN DELETE")

    def frame(self, table: Path) -> DataFrame:
        return self.spark.read.format("delta").load(str(table))

    def _merge(self, table: Path, rows: Path, clauses: str) -> None:
        self.input(rows).createOrReplaceTempView("batch")
        same = " AND ".join(f"stored.{name} = batch.{name}" for name in (PARTITION, KEY))
        self.spark.sql(f"MERGE INTO delta.`{table}` AS stored USING batch ON {same} {clauses}")
