"""Everything that `format("hudi")` does, whoever is behind it: real Hudi or pyhudi."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

from peers.hudi_options import TABLE_OPTIONS, newest_completion_time
from peers.spark_peer import SparkPeer, drain


class HudiOnSpark(SparkPeer):
    """A subclass starts a session in which `format("hudi")` works."""

    def load(self, table: Path, rows: DataFrame) -> None:
        self._write(table, rows, "bulk_insert", mode="overwrite")

    def upsert(self, table: Path, rows: Path) -> None:
        self._write(table, self.input(rows), "upsert")

    def delete(self, table: Path, keys: Path) -> None:
        self._write(table, self.input(keys), "delete")

    def frame(self, table: Path) -> DataFrame:
        return self.spark.read.format("hudi").options(**self.read_options()).load(str(table))

    def scan_base(self, table: Path) -> None:
        options = {**self.read_options(), "hoodie.datasource.query.type": "read_optimized"}
        drain(self.spark.read.format("hudi").options(**options).load(str(table)))

    def position(self, table: Path) -> str:
        return newest_completion_time(table)

    def changed(self, table: Path, since: Any) -> DataFrame:
        query = {
            "hoodie.datasource.query.type": "incremental",
            "hoodie.datasource.read.begin.instanttime": since,
        }
        return self.spark.read.format("hudi").options(**self.read_options(), **query).load(str(table))

    def write_options(self) -> dict[str, str]:
        """Options of every write."""
        return TABLE_OPTIONS

    def read_options(self) -> dict[str, str]:
        """Options of every read."""
        return {}

    def _write(self, table: Path, rows: DataFrame, operation: str, *, mode: str = "append") -> None:
        options = {**self.write_options(), "hoodie.datasource.write.operation": operation}
        rows.write.format("hudi").options(**options).mode(mode).save(str(table))
