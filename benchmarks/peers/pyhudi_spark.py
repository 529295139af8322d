"""pyhudi on Spark."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pyhudi
from peers.hudi_on_spark import HudiOnSpark
from peers.hudi_options import MERGE_ON_READ
from peers.protocol import LOG_OPERATIONS, PAIRED_SCANS, SPARK_OPERATIONS
from peers.spark_peer import MASTER, SETTINGS


class PyhudiOnSpark(HudiOnSpark):
    lacks: ClassVar[frozenset[str]] = LOG_OPERATIONS

    def start(self) -> None:
        settings = {**SETTINGS, "spark.sql.warehouse.dir": str(self.work / "warehouse")}
        self.spark = pyhudi.spark_session(master=MASTER, app_name="benchmark", config=settings)


class MergeOnRead(PyhudiOnSpark):
    lacks: ClassVar[frozenset[str]] = PAIRED_SCANS | SPARK_OPERATIONS | {"small_upsert"}

    def write_options(self) -> dict[str, str]:
        return {**super().write_options(), **MERGE_ON_READ}

    def compact(self, table: Path) -> None:
        pyhudi.HudiTable.for_path(str(table), spark=self.spark).services.compact()
