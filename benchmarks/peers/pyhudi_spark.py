"""pyhudi on Spark."""

from __future__ import annotations

from peers.hudi_on_spark import HudiOnSpark
from peers.spark_peer import MASTER, SETTINGS

import pyhudi


class PyhudiOnSpark(HudiOnSpark):
    def start(self) -> None:
        settings = {**SETTINGS, "spark.sql.warehouse.dir": str(self.work / "warehouse")}
        self.spark = pyhudi.spark_session(master=MASTER, app_name="benchmark", config=settings)
