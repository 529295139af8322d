"""Tables on a real S3 server, in a Spark whose Hadoop has no file system for it, as that of PySpark from PyPI."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.minio import Minio, minio
from tests.support.spark import temporarily, trip_options

from pyhudi import HudiTable
from pyhudi.spark.reads.hadoop_stores import can_open
from pyhudi.storage.protocol import StorageSpec

__all__ = ["minio"]

KINDS = ("COPY_ON_WRITE", "MERGE_ON_READ")


@pytest.fixture(params=KINDS)
def table(request: pytest.FixtureRequest, spark: Any, minio: Minio) -> str:
    """The URI of a table of 100 trips, of which ten were changed."""
    uri = minio.new_root()
    options = trip_options(**{"hoodie.datasource.write.table.type": request.param}, **minio.options)
    trips = spark.range(100).selectExpr("cast(id as string) uuid", "concat('c', id % 4) city", "1L ts", "id * 1.5 fare")
    trips.write.format("hudi").options(**options).mode("append").save(uri)
    changed = trips.where("ts = 1 and fare < 15").selectExpr("uuid", "city", "2L ts", "-1.0 fare")
    changed.write.format("hudi").options(**options).mode("append").save(uri)
    return uri


def test_spark_reads_what_it_wrote_though_its_hadoop_cannot_open_the_store(
    spark: Any, minio: Minio, table: str
) -> None:
    def read(**options: str) -> Any:
        return spark.read.format("hudi").options(**minio.options, **options).load(table)

    assert not can_open(spark, StorageSpec(table))
    expected = HudiTable.for_path(table, hudi_options=minio.options).scan().to_arrow()
    assert sorted(map(tuple, read().collect())) == sorted(tuple(row.values()) for row in expected.to_pylist())
    assert read().where("fare = -1 and city = 'c1'").select("uuid").count() == 3
    assert [row.city for row in read().groupBy("city").count().orderBy("city").collect()] == ["c0", "c1", "c2", "c3"]
    since_the_beginning = {
        "hoodie.datasource.query.type": "incremental",
        "hoodie.datasource.read.begin.instanttime": "0",
    }
    assert read(**since_the_beginning).where("fare = -1").count() == 10


def test_statements_reach_the_store_by_the_settings_of_the_session(spark: Any, minio: Minio, table: str) -> None:
    name = f"on_s3_{table.split('/')[-2]}"
    with temporarily(spark, {f"spark.hadoop.{option}": value for option, value in minio.options.items()}):
        spark.sql(f"CREATE TABLE {name} USING hudi LOCATION '{table}'")
        try:
            spark.sql(f"UPDATE {name} SET fare = 7 WHERE uuid = '50'")
            assert [tuple(row) for row in spark.sql(f"SELECT city, fare FROM {name} WHERE fare = 7").collect()] == [
                ("c2", 7.0)
            ]
        finally:
            spark.sql(f"DROP TABLE {name}")


def test_spark_can_open_what_its_hadoop_has_a_file_system_and_the_options_for(spark: Any) -> None:
    assert can_open(spark, StorageSpec("/warehouse/trips"))
    assert can_open(spark, StorageSpec("file:///warehouse/trips"))
    assert can_open(spark, StorageSpec("hdfs://name-node/warehouse/trips"))
    assert not can_open(spark, StorageSpec("gs://bucket/trips"))
    service = {"dfs.nameservices": "other"}
    assert not can_open(spark, StorageSpec("hdfs://other/warehouse/trips", service))
    with temporarily(spark, service):
        assert can_open(spark, StorageSpec("hdfs://other/warehouse/trips", service))
