"""Tables on a real HDFS through Spark, whose own readers open them."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.hdfs import Hdfs, hdfs
from tests.support.spark import trip_options

from pyhudi import HudiTable

__all__ = ["hdfs"]


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_table_on_hdfs_is_written_and_read_by_spark_and_sql(spark: Any, hdfs: Hdfs, table_type: str) -> None:
    uri = hdfs.new_root()
    options = trip_options(**{"hoodie.datasource.write.table.type": table_type})
    trips = spark.range(100).selectExpr("cast(id as string) uuid", "concat('c', id % 4) city", "1L ts", "id * 1.5 fare")
    trips.write.format("hudi").options(**options).mode("append").save(uri)
    changed = trips.where("fare < 15").selectExpr("uuid", "city", "2L ts", "-1.0 fare")
    changed.write.format("hudi").options(**options).mode("append").save(uri)

    read = spark.read.format("hudi").load(uri)
    expected = HudiTable.for_path(uri).scan().to_arrow()
    assert sorted(map(tuple, read.collect())) == sorted(tuple(row.values()) for row in expected.to_pylist())
    assert read.where("fare = -1 and city = 'c1'").select("uuid").count() == 3
    if table_type == "COPY_ON_WRITE":
        assert "FileScan parquet" in read._jdf.queryExecution().executedPlan().toString()

    name = f"on_hdfs_{table_type.lower()}"
    spark.sql(f"CREATE TABLE {name} USING hudi LOCATION '{uri}'")
    try:
        spark.sql(f"UPDATE {name} SET fare = 7 WHERE uuid = '50'")
        changed_rows = spark.sql(f"SELECT city, fare FROM {name} WHERE fare = 7").collect()
        assert [tuple(row) for row in changed_rows] == [("c2", 7.0)]
    finally:
        spark.sql(f"DROP TABLE {name}")
