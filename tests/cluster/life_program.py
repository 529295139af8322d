"""What `test_cluster.py` runs as an application of the cluster: `life_program.py <master> <folder> <JSON of settings>`.

Writes a table in several steps and says in one line of JSON what it read after each of them. Before a step it makes
the file `step-<number>` in the folder.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

warnings.filterwarnings("ignore", category=FutureWarning)

ROWS, SPLITS, CITIES = 40_000, 16, 8


def main(master: str, folder: Path, settings: dict[str, Any]) -> dict[str, Any]:
    import pyhudi

    uri, store = settings["uri"], settings["store"]
    spark = pyhudi.spark_session(master=master, config=settings["config"])
    options = table_options(settings)

    def write(step: int, rows: Any, operation: str) -> None:
        (folder / f"step-{step}").touch()
        how = {**options, "hoodie.datasource.write.operation": operation}
        rows.write.format("hudi").options(**how).mode("append").save(uri)

    def sums() -> list[int]:
        rows = spark.read.format("hudi").options(**store).load(uri)
        found = rows.selectExpr("count(*)", "count(distinct uuid)", "cast(sum(fare) as bigint)").first()
        return [int(value) for value in found]

    trips = spark.range(0, ROWS, 1, SPLITS).selectExpr(
        "cast(id as string) uuid", f"concat('c', id % {CITIES}) city", "1L ts", "id fare"
    )
    seen = []
    write(0, trips, "bulk_insert")
    seen.append(sums())
    write(1, trips.where("fare % 2 = 0").selectExpr("uuid", "city", "2L ts", "0L fare"), "upsert")
    seen.append(sums())
    write(2, trips.where("fare % 4 = 1").selectExpr("uuid", "city", "3L ts", "1L fare"), "upsert")
    seen.append(sums())
    write(3, trips.where("fare < 1000"), "delete")
    seen.append(sums())
    hosts = spark.range(0, 64, 1, 64).mapInArrow(_work_folder, "folder string").distinct().count()
    spark.stop()
    return {"seen": seen, "executors": hosts}


def table_options(settings: dict[str, Any]) -> dict[str, str]:
    """How the programs here write the table of their settings."""
    return {
        "hoodie.table.name": "trips",
        "hoodie.datasource.write.recordkey.field": "uuid",
        "hoodie.datasource.write.partitionpath.field": "city",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.table.type": settings["table_type"],
        **settings["store"],
    }


def _work_folder(batches: Any) -> Any:
    import pyarrow as pa

    for batch in batches:
        yield pa.record_batch({"folder": [str(Path.cwd())] * batch.num_rows})


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(sys.argv[1], Path(sys.argv[2]), json.loads(sys.argv[3]))) + "\n")
