"""Run by `test_secrets`: Spark writes, fails to write and reads with credentials among the options, and tells all.

Prints what a user could see: explained plans, errors, reprs. Spark's event log goes to the folder `events`.
"""

from __future__ import annotations

import json
import logging
import sys
import traceback
from pathlib import Path
from typing import Any

from tests.support.spark import SMALL_SESSION, trip_options

ROWS = "uuid string, city string, fare double, ts long"


def attempt(action: Any) -> None:
    """Whatever happens, pyspark's own errors among it, is printed as a user sees it."""
    try:
        action()
    except Exception:  # noqa: BLE001
        traceback.print_exc()


def main(folder: str, secrets: str) -> None:
    from pyhudi.api.hudi_table import HudiTable
    from pyhudi.sql.session import spark_session

    logging.basicConfig(level=logging.DEBUG)
    # The bridge to the JVM logs each call with its arguments, those of the user's own `option(…)` among them.
    logging.getLogger("py4j").setLevel(logging.INFO)
    events = Path(folder) / "events"
    events.mkdir()
    config = {
        **SMALL_SESSION,
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": events.as_uri(),
        "spark.eventLog.compress": "false",
        "spark.sql.warehouse.dir": f"{folder}/warehouse",
    }
    spark = spark_session(master="local[2]", config=config)
    hidden: dict[str, str] = json.loads(secrets)
    path = f"{folder}/trips"
    options = {**trip_options(), **hidden, "hoodie.datasource.write.table.type": "MERGE_ON_READ"}

    for number in (1, 2):
        frame = spark.createDataFrame([("a", "oslo", 1.0, number), ("b", "rome", 2.0, number)], ROWS)
        frame.write.format("hudi").options(**options).mode("append").save(path)
    no_key = spark.createDataFrame([(None, "oslo", 1.0, 1)], ROWS)
    attempt(lambda: no_key.write.format("hudi").options(**options).mode("append").save(path))
    attempt(lambda: no_key.write.format("hudi").options(**options).mode("append").save("s3a://b/nowhere"))
    attempt(lambda: spark.read.format("hudi").options(**hidden).load(f"{folder}/no table"))

    read = spark.read.format("hudi").options(**hidden).load(path)
    read.explain(mode="extended")
    assert read.where("fare > 0").count() == 2
    spark.sql("create or replace temporary view seen as select 1")
    quoted = ", ".join(f"`{name}` '{value}'" for name, value in hidden.items())
    attempt(lambda: spark.sql(f"create table trips using hudi options (path '{path}', {quoted})").collect())
    spark.sql(f"create table trips using hudi location '{path}'")
    attempt(lambda: spark.sql(f"alter table trips set tblproperties ({quoted.replace('` ', '` = ')})"))
    attempt(lambda: spark.sql("show create table trips").show(truncate=False))
    attempt(lambda: spark.sql("select count(*) from trips").show())
    attempt(lambda: spark.sql("explain extended select * from trips").show(truncate=False))
    table = HudiTable.for_path(path, hudi_options=hidden, spark=spark)
    print(repr(table), repr(table.scan()), table.inspect.detail(), flush=True)  # noqa: T201
    table.services.compact()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
