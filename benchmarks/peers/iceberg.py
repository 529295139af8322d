"""Iceberg on Spark: MERGE in copy-on-write mode, otherwise with its defaults."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from inputs import KEY, PARTITION
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from peers.spark_peer import SparkPeer

CATALOG = "bench"


class Iceberg(SparkPeer):
    def settings(self) -> Mapping[str, str]:
        return {
            "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
            f"spark.sql.catalog.{CATALOG}": "org.apache.iceberg.spark.SparkCatalog",
            f"spark.sql.catalog.{CATALOG}.type": "hadoop",
            f"spark.sql.catalog.{CATALOG}.warehouse": str(self.work),
        }

    def load(self, table: Path, rows: DataFrame) -> None:
        writer = rows.writeTo(self._name(table)).using("iceberg").partitionedBy(sql.col(PARTITION))
        for command in ("merge", "update", "delete"):
            writer = writer.tableProperty(f"write.{command}.mode", "copy-on-write")
        writer.create()

    def upsert(self, table: Path, rows: Path) -> None:
        self._merge(table, rows, "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *")

    def delete(self, table: Path, keys: Path) -> None:
        self._merge(table, keys, "WHEN MATCHED THEN DELETE")

    def frame(self, table: Path) -> DataFrame:
        return self.spark.table(self._name(table))

    def position(self, table: Path) -> int:
        history = self.spark.table(f"{self._name(table)}.snapshots").orderBy(sql.desc("committed_at"))
        newest = history.select("snapshot_id").first()
        assert newest is not None
        return int(newest[0])

    def changed(self, table: Path, since: Any) -> DataFrame:
        self.spark.sql(
            f"CALL {CATALOG}.system.create_changelog_view(table => '{self._name(table)}', "
            f"options => map('start-snapshot-id', '{since}'), changelog_view => 'changes')"
        )
        return self.spark.table("changes").where("_change_type = 'INSERT'")

    def _merge(self, table: Path, rows: Path, clauses: str) -> None:
        self.input(rows).createOrReplaceTempView("batch")
        same = " AND ".join(f"stored.{name} = batch.{name}" for name in (PARTITION, KEY))
        self.spark.sql(f"MERGE INTO {self._name(table)} AS stored USING batch ON {same} {clauses}")

    def _name(self, table: Path) -> str:
        """A Hadoop catalog names its tables by their folders."""
        return ".".join([CATALOG, *(f"`{part}`" for part in table.relative_to(self.work).parts)])
