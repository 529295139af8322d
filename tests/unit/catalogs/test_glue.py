"""AWS Glue as a catalog, against moto's server of its API."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from tests.support.dynamodb import DynamoDb

import pyhudi
from pyhudi.catalogs.glue import Glue
from pyhudi.catalogs.protocol import CatalogPartition
from pyhudi.errors import CatalogError

SCHEMA = pa.schema([("id", pa.int64()), ("city", pa.string()), ("fare", pa.float64())])


@pytest.fixture
def options(dynamodb: DynamoDb) -> dict[str, str]:
    """Options of writes that sync with moto's Glue, which is in the same server as its DynamoDB."""
    return {
        "hoodie.datasource.meta.sync.enable": "true",
        "hoodie.meta.sync.client.tool.class": "org.apache.hudi.aws.sync.AwsGlueCatalogSyncTool",
        "hoodie.aws.glue.endpoint": dynamodb.endpoint,
        "hoodie.aws.glue.region": "eu-north-1",
    }


def trips(*cities: str, first: int = 1) -> pa.Table:
    rows = [{"id": number, "city": city, "fare": 1.0} for number, city in enumerate(cities, first)]
    return pa.Table.from_pylist(rows, SCHEMA)


def test_writes_sync_with_glue_and_tables_open_by_name(options: dict[str, str], tmp_path: Any) -> None:
    options = {**options, "hoodie.datasource.hive_sync.database": "by_option"}
    table = pyhudi.HudiTable.create(
        tmp_path / "trips", schema=SCHEMA, record_key="id", partition_by="city", table_type="mor", hudi_options=options
    )
    table.upsert(trips("it's", 'say "x"', "oslo"))
    table.delete_partition("oslo")

    catalog = Glue("eu-north-1", options["hoodie.aws.glue.endpoint"])
    entry = catalog.find_table("by_option", "trips_rt")
    assert entry is not None
    assert entry.parameters["last_commit_time_sync"] == table.inspect.last_write().instant
    assert {one.values for one in catalog.partitions(entry, None)} == {("it's",), ('say "x"',)}
    named = pyhudi.HudiTable.for_name("by_option.trips", catalog="glue", hudi_options=options)
    assert named.scan().count() == 2


def test_update_keeps_what_others_put_there_and_partitions_keep_their_locations(
    options: dict[str, str], tmp_path: Any
) -> None:
    options = {**options, "hoodie.datasource.hive_sync.database": "evolution"}
    table = pyhudi.HudiTable.create(
        tmp_path / "trips", schema=SCHEMA, record_key="id", partition_by="city", hudi_options=options
    )
    table.upsert(trips("oslo"))
    catalog = Glue("eu-north-1", options["hoodie.aws.glue.endpoint"])
    entry = catalog.find_table("evolution", "trips")
    assert entry is not None
    before = catalog.partitions(entry, None)

    table.alter.add_column("tip", pa.float64())
    table.catalog.sync()

    changed = catalog.find_table("evolution", "trips")
    assert changed is not None
    assert changed.columns[-1].name == "tip"
    assert (changed.parameters["EXTERNAL"], changed.stored["TableType"]) == ("TRUE", "EXTERNAL_TABLE")
    assert changed.parameters["last_commit_time_sync"] > entry.parameters["last_commit_time_sync"]
    assert catalog.partitions(changed, None) == before


def test_partitions_that_are_there_already_or_not_any_more_are_passed_over(
    options: dict[str, str], tmp_path: Any
) -> None:
    options = {**options, "hoodie.datasource.hive_sync.database": "batches"}
    table = pyhudi.HudiTable.create(
        tmp_path / "trips", schema=SCHEMA, record_key="id", partition_by="city", hudi_options=options
    )
    table.bulk_insert(trips(*(f"c{number}" for number in range(130))))
    catalog = Glue("eu-north-1", options["hoodie.aws.glue.endpoint"])
    entry = catalog.find_table("batches", "trips")
    assert entry is not None
    present = catalog.partitions(entry, None)
    assert len(present) == 130

    catalog.add_partitions(entry, present[:10])
    catalog.drop_partitions(entry, [("gone",), *(one.values for one in present[:60])])

    assert len(catalog.partitions(entry, None)) == 70
    asked = [(f"c{number}",) for number in range(130)]
    assert len(catalog.partitions(entry, asked)) == 70
    with pytest.raises(CatalogError, match="Glue refused"):
        catalog.move_partitions(entry, [CatalogPartition(("gone",), "s3://b/gone")])


def test_glue_without_a_region_or_an_answer_is_an_error_that_says_so(
    dynamodb: DynamoDb, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    monkeypatch.delenv("AWS_REGION", raising=False)
    with pytest.raises(CatalogError, match="region"):
        Glue(None, dynamodb.endpoint)
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    with pytest.raises(CatalogError, match="did not answer"):
        Glue("eu-north-1", "http://127.0.0.1:1").has_database("x")
