"""pyhudi on Spark."""

from __future__ import annotations

import pyhudi
from peers.hudi_on_spark import HudiOnSpark
from peers.spark_peer import MASTER, SETTINGS


class PyhudiOnSpark(HudiOnSpark):
    def start(self) -> None:
        settings = {**SETTINGS, "spark.sql.warehouse.dir": str(self.work / "warehouse")}
        self.spark = pyhudi.spark_session(master=MASTER, app_name="benchmark", config=settings)
