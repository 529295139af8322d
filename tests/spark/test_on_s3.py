"""Tables on a real S3 server, in a Spark whose Hadoop has no file system for it, as that of PySpark from PyPI."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.columns_on_s3 import BODIES, CHANGED, CITIES, ROWS_OF_CITY, counted, write_wide_table
from tests.support.minio import Minio, minio
from tests.support.spark import temporarily, trip_options

from pyhudi import HudiTable
from pyhudi.errors import PermissionDeniedError, TableNotFoundError
from pyhudi.spark.capabilities import HAS_ARROW_FUNCTIONS
from pyhudi.spark.reads import closed_stores
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


@pytest.mark.skipif(not HAS_ARROW_FUNCTIONS, reason="PySpark 4.0 has no functions over Arrow: tasks read all columns")
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_query_receives_its_columns_of_files_that_its_condition_leaves(
    spark: Any, minio: Minio, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(closed_stores, "WHOLE_BYTES_MAX", 0)
    uri = write_wide_table(minio, kind)
    with counted(minio) as received:

        def read(*columns: str, where: str) -> tuple[int, list[Any]]:
            before = received.size
            rows = spark.read.format("hudi").options(**received.server.options).load(uri)
            found = sorted(rows.where(where).select(*columns).collect())
            return received.size - before, found

        size, rows = read("a", where="b > 1 and a < 20")
        assert [row.a for row in rows] == [-1] * (CHANGED - 2) + list(range(CHANGED, 20))
        assert size < BODIES / 4
        everything, rows = read("a", "body", where="b >= 0")
        assert len(rows) == CITIES * ROWS_OF_CITY
        assert everything > BODIES / 2
        of_one_file, rows = read("body", where=f"b >= {(CITIES - 1) * ROWS_OF_CITY}")
        assert len(rows) == ROWS_OF_CITY
        assert of_one_file < everything / 2
        received.read.clear()
        _, rows = read("a", where="city = 'c3'")
        assert sum(row.a for row in rows) == sum(range(3 * ROWS_OF_CITY, 4 * ROWS_OF_CITY))
        # The scan reads the footer of the largest file, which has the longest column, and the keys beside logs: all c0.
        assert {path.split("/table/")[1].split("/")[0] for path in received.read} == {".hoodie", "c0", "c3"}


def test_range_of_time_has_the_rows_of_its_writes(spark: Any, minio: Minio, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(closed_stores, "WHOLE_BYTES_MAX", 0)
    uri = write_wide_table(minio, "cow")
    first = HudiTable.for_path(uri, hudi_options=minio.options).inspect.timeline().column("completion_time")[0].as_py()
    options = {"hoodie.datasource.query.type": "incremental", "hoodie.datasource.read.begin.instanttime": first}
    rows = spark.read.format("hudi").options(**minio.options, **options).load(uri)
    assert [row.a for row in rows.select("a").collect()] == [-1] * CHANGED


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


@pytest.mark.parametrize("does", ["read", "read changes", "write", "create"])
def test_bucket_that_does_not_exist_is_named_as_such(spark: Any, minio: Minio, does: str) -> None:
    uri = "s3://missing-bucket/trips"
    changes = {"hoodie.datasource.query.incremental.format": "cdc", "hoodie.datasource.query.type": "incremental"}
    changes["hoodie.datasource.read.begin.instanttime"] = "0"
    reader = spark.read.format("hudi").options(**minio.options)
    trips = spark.sql("SELECT '1' uuid, 'oslo' city, 1L ts")
    settings = {f"spark.hadoop.{option}": value for option, value in minio.options.items()}
    calls = {
        "read": lambda: reader.load(uri),
        "read changes": lambda: reader.options(**changes).load(uri),
        "write": lambda: trips.write.format("hudi").options(**trip_options(**minio.options)).mode("append").save(uri),
        "create": lambda: spark.sql(f"CREATE TABLE missing_bucket USING hudi LOCATION '{uri}'"),
    }
    with temporarily(spark, settings), pytest.raises(TableNotFoundError, match="no such bucket") as caught:
        calls[does]()
    assert caught.value.context["bucket"] == "missing-bucket"


def test_wrong_key_of_the_store_is_refused_as_permission_and_not_as_a_missing_table(
    spark: Any, minio: Minio, table: str
) -> None:
    for option in ("fs.s3a.access.key", "fs.s3a.secret.key"):
        wrong = {**minio.options, option: "wrong-key-of-the-store"}
        with pytest.raises(PermissionDeniedError) as caught:
            spark.read.format("hudi").options(**wrong).load(table)
        assert "wrong-key" not in str(caught.value)


def test_spark_can_open_what_its_hadoop_has_a_file_system_and_the_options_for(spark: Any) -> None:
    assert can_open(spark, StorageSpec("/warehouse/trips"))
    assert can_open(spark, StorageSpec("file:///warehouse/trips"))
    assert can_open(spark, StorageSpec("hdfs://name-node/warehouse/trips"))
    assert not can_open(spark, StorageSpec("gs://bucket/trips"))
    service = {"dfs.nameservices": "other"}
    assert not can_open(spark, StorageSpec("hdfs://other/warehouse/trips", service))
    with temporarily(spark, service):
        assert can_open(spark, StorageSpec("hdfs://other/warehouse/trips", service))
