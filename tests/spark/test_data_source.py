"""Views over folders, under both names of the format; and which options a catalog gets to keep."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pyhudi
from pyhudi.config.option import OptionWarning

KEY = {"hoodie.table.name": "t", "hoodie.datasource.write.recordkey.field": "id"}


def test_catalog_keeps_what_reads_need_and_no_password(tmp_path: Path) -> None:
    pytest.importorskip("pyspark.sql.datasource", reason="PySpark before 4.0 has no Python data sources")
    from pyhudi.spark.data_source import HudiDataSource

    path = str(tmp_path / "t")
    pyhudi.save(pa.table({"id": [1]}), path, hudi_options=KEY)
    options = {"path": path, "hoodie.datasource.query.type": "snapshot", "as.of.instant": "2999-01-01"}
    secrets = {"hoodie.datasource.hive_sync.password": "s3cr3t", "hoodie.metrics.datadog.api.key": "s3cr3t"}

    with pytest.warns(OptionWarning):
        schema = HudiDataSource({**options, **secrets}).schema()

    assert schema.fields[0].metadata == {"pyhudi.options": options}
    assert "s3cr3t" not in schema.json()


def test_folder_below_a_table_is_read_as_its_partitions(spark: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    partitioned = {**KEY, "hoodie.datasource.write.partitionpath.field": "p"}
    pyhudi.save(pa.table({"id": [1, 2, 3], "p": ["a", "a", "b"]}), path, hudi_options=partitioned)

    spark.sql(f"CREATE TEMPORARY VIEW below USING hudi OPTIONS ('hoodie.base.path' '{path}/a')")

    assert sorted(row.id for row in spark.read.format("hudi").load(f"{path}/a").collect()) == [1, 2]
    assert [row.id for row in spark.read.format("hudi").option("hoodie.base.path", f"{path}/b").load().collect()] == [3]
    assert sorted(row.id for row in spark.sql("SELECT id FROM below").collect()) == [1, 2]


def test_sql_reads_a_table_by_the_name_of_the_package(spark: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    pyhudi.save(pa.table({"id": [1, 2]}), path, hudi_options=KEY)

    spark.sql(f"CREATE TEMPORARY VIEW by_package USING org.apache.hudi OPTIONS (path '{path}')")

    assert sorted(row.id for row in spark.sql("SELECT id FROM by_package").collect()) == [1, 2]
