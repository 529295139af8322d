"""`df.writeTo(name)` on Hudi tables: what each method writes, and that all other tables stay Spark's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F  # noqa: N812 - as Spark's users write it

import pyhudi
from pyhudi.errors import SchemaMismatchError, TableExistsError, TableNotFoundError, UnsupportedFeatureError
from pyhudi.spark.capabilities import IS_4


@pytest.fixture
def database(spark: Any) -> Iterator[str]:
    pyhudi.enable(spark)  # other tests may have disabled it
    spark.sql("CREATE DATABASE writers")
    spark.sql("USE writers")
    yield "writers"
    spark.sql("USE default")
    spark.sql("DROP DATABASE writers CASCADE")


def test_write_to_makes_appends_and_overwrites_hudi_tables_by_name(spark: Any, database: str) -> None:
    def rows(*given: tuple[int, str, int, str]) -> Any:
        # The columns in another order than those of the table, which has its partition column last.
        return spark.createDataFrame(list(given), "id INT, name STRING, ts INT, p STRING").select(
            "p", "ts", "name", "id"
        )

    def found() -> list[tuple[Any, ...]]:
        return sorted(tuple(row) for row in spark.sql("SELECT id, name, ts, p FROM w").collect())

    made = rows((1, "a", 1, "x"), (2, "b", 1, "y")).writeTo("w").using("hudi").partitionedBy(F.col("p"))
    made.tableProperty("primaryKey", "id").tableProperty("orderingFields", "ts").tableProperty("type", "mor").create()
    assert found() == [(1, "a", 1, "x"), (2, "b", 1, "y")]
    assert ("type", "MERGE_ON_READ") in [tuple(row) for row in spark.sql("DESCRIBE DETAIL w").collect()]

    upsert = rows((1, "A", 2, "x")).writeTo(f"{database}.w").option("hoodie.spark.sql.insert.into.operation", "upsert")
    upsert.append()
    assert found() == [(1, "A", 2, "x"), (2, "b", 1, "y")]
    rows((3, "c", 1, "y")).writeTo("w").overwritePartitions()
    assert found() == [(1, "A", 2, "x"), (3, "c", 1, "y")]
    rows((4, "d", 1, "z")).writeTo("w").overwrite(F.lit(True))
    assert found() == [(4, "d", 1, "z")]

    new = rows((5, "e", 1, "z"))
    refused = [
        (lambda: new.writeTo("w").overwrite(F.col("p") == "z"), UnsupportedFeatureError),
        (lambda: new.writeTo("w").using("hudi").create(), TableExistsError),
        (lambda: new.writeTo("w").using("hudi").createOrReplace(), UnsupportedFeatureError),
        (lambda: new.writeTo("w").replace(), UnsupportedFeatureError),
        (lambda: new.writeTo("none").using("hudi").replace(), TableNotFoundError),
        (lambda: new.withColumnRenamed("name", "nope").writeTo("w").append(), SchemaMismatchError),
        (lambda: new.writeTo("none").append(), AnalysisException),
    ]
    if IS_4:  # before, Spark has no clusterBy
        refused.append((lambda: new.writeTo("none").using("hudi").clusterBy("p").create(), UnsupportedFeatureError))
    for write, error in refused:
        with pytest.raises(error):
            write()
    assert found() == [(4, "d", 1, "z")]
    new.writeTo("other").using("parquet").create()
    new.writeTo("fresh").using("hudi").createOrReplace()
    assert spark.table("other").count() == spark.sql("SELECT id FROM fresh").count() == 1
