"""The checkpoint of a query: the id of the query, and when its micro-batches were planned."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import SparkSession

from pyhudi.spark.settings import setting

LOCATION: Final = "checkpointlocation"
_ROOT: Final = "spark.sql.streaming.checkpointLocation"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The folder of a query's checkpoint. None: Spark makes a temporary one, with which no query can go on."""

    folder: str | None

    @staticmethod
    def of_query(spark: SparkSession, options: Mapping[str, str], name: str | None) -> Checkpoint:
        """The checkpoint of a query with these options and this name, as Spark chooses it."""
        given = next((value for key, value in options.items() if key.lower() == LOCATION), None)
        root = setting(spark, _ROOT)
        if given is None and root is not None and name is not None:
            given = f"{root.rstrip('/')}/{name}"
        return Checkpoint(None if given is None else given.rstrip("/"))

    def query_id(self, spark: SparkSession) -> str:
        """The id of the query, the same after each restart. Cost: one Spark job that reads a line."""
        if self.folder is None:
            return str(uuid.uuid4())
        return str(self._json(spark, "metadata")["id"])

    def planned_ms(self, spark: SparkSession, batch: int) -> int | None:
        """When Spark first planned a micro-batch, in milliseconds since the epoch; None if that is not known.

        Cost: one Spark job that reads three lines.
        """
        if self.folder is None:
            return None
        return int(self._json(spark, f"offsets/{batch}")["batchTimestampMs"])

    def _json(self, spark: SparkSession, name: str) -> dict[str, Any]:
        """The first object in a file of the checkpoint."""
        lines = spark.read.text(f"{self.folder}/{name}", wholetext=True).collect()[0][0].splitlines()
        found: dict[str, Any] = json.loads(next(line for line in lines if line.startswith("{")))
        return found
