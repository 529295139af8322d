"""Streams that JVM Hudi began and pyhudi goes on with, and the other way round, on one checkpoint."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.support.oracle import RELEASE_OF_TABLE_VERSION, Oracle
from tests.support.spark import spark

import pyhudi

__all__ = ["spark"]

OracleOf = Callable[[str], Oracle]
COLUMNS = ("id", "city", "n")
SCHEMA = "id long, city string, n long"
INSERT = {
    "hoodie.table.name": "copy",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "",
    "hoodie.table.ordering.fields": "n",
    "hoodie.datasource.write.precombine.field": "n",
    "hoodie.datasource.write.operation": "insert",
}
NAMED = {"hoodie.datasource.write.streaming.checkpoint.identifier": "orders"}
Row = tuple[int, str, int]


def put(folder: Path, number: int, *rows: Row) -> None:
    """A file of the source, which has the rows of one micro-batch."""
    folder.mkdir(exist_ok=True)
    lines = (json.dumps(dict(zip(COLUMNS, row, strict=True))) for row in rows)
    (folder / f"{number}.json").write_text("\n".join(lines))


def forget(checkpoint: Path, number: int) -> None:
    """As if the query had died between the commit of a micro-batch and the note of its end."""
    noted = checkpoint / "commits" / str(number)
    for file in (noted, noted.with_name(f".{number}.crc")):
        file.unlink(missing_ok=True)


def run_here(source: Any, path: Path, checkpoint: Path, options: dict[str, str]) -> None:
    writer = source.writeStream.format("hudi").options(**options).option("checkpointLocation", str(checkpoint))
    writer.trigger(availableNow=True).start(str(path)).awaitTermination()


def contents(path: Path) -> list[Row]:
    found = pyhudi.HudiTable.for_path(path).scan(columns=COLUMNS).to_arrow().to_pylist()
    return sorted(tuple(row.values()) for row in found)


@pytest.mark.parametrize(("version", "table_type"), [(9, "COPY_ON_WRITE"), (6, "MERGE_ON_READ")])
def test_sink_goes_on_where_that_of_jvm_hudi_died_and_repeats_no_batch(
    spark: SparkSession, tmp_path: Path, oracle_of: OracleOf, version: int, table_type: str
) -> None:
    judge = oracle_of(RELEASE_OF_TABLE_VERSION[version])
    folder, copy, checkpoint = tmp_path / "in", tmp_path / "copy", tmp_path / "checkpoint"
    options = {**INSERT, "hoodie.datasource.write.table.type": table_type}
    files = {"format": "json", "schema": SCHEMA, "path": str(folder)}
    for number in range(2):
        put(folder, number, (number, "oslo", number))
        judge.stream(files, copy, options, checkpoint=checkpoint)
    forget(checkpoint, 1)
    put(folder, 2, (2, "rome", 2))
    run_here(spark.readStream.schema(SCHEMA).json(str(folder)), copy, checkpoint, options)
    assert contents(copy) == [(0, "oslo", 0), (1, "oslo", 1), (2, "rome", 2)]

    # A query of its own begins with micro-batch 0, which JVM Hudi takes for one that is there.
    other = tmp_path / "other"
    put(other, 0, (7, "bonn", 7))
    run_here(spark.readStream.schema(SCHEMA).json(str(other)), copy, tmp_path / "second", options)
    assert (7, "bonn", 7) in contents(copy)
    put(other, 0, (8, "bonn", 8))
    judge.stream({**files, "path": str(other)}, copy, options, checkpoint=tmp_path / "third")
    assert (8, "bonn", 8) not in contents(copy)


def test_jvm_hudi_goes_on_with_a_stream_of_the_same_identifier_and_repeats_no_batch(
    spark: SparkSession, tmp_path: Path, oracle_of: OracleOf
) -> None:
    judge = oracle_of("1.2.0")
    folder, copy, checkpoint = tmp_path / "in", tmp_path / "copy", tmp_path / "checkpoint"
    put(folder, 0, (0, "oslo", 0))
    run_here(spark.readStream.schema(SCHEMA).json(str(folder)), copy, checkpoint, {**INSERT, **NAMED})
    forget(checkpoint, 0)
    put(folder, 1, (1, "rome", 1))
    files = {"format": "json", "schema": SCHEMA, "path": str(folder)}
    judge.stream(files, copy, {**INSERT, **NAMED}, checkpoint=checkpoint)
    assert contents(copy) == [(0, "oslo", 0), (1, "rome", 1)]


@pytest.mark.parametrize("version", [9, 6])
def test_source_goes_on_at_the_offset_of_jvm_hudi_and_jvm_hudi_at_ours(
    spark: SparkSession, tmp_path: Path, oracle_of: OracleOf, version: int
) -> None:
    judge = oracle_of(RELEASE_OF_TABLE_VERSION[version])
    table, copy, checkpoint = tmp_path / "table", tmp_path / "copy", tmp_path / "checkpoint"
    schema = pa.schema([("id", pa.int64()), ("city", pa.string()), ("n", pa.int64())])
    source = pyhudi.HudiTable.create(
        table, schema=schema, record_key="id", ordering_fields="n", table_version=version, hudi_options={}
    )
    write = {**INSERT, **NAMED}
    for turn, reader in enumerate(("jvm", "here", "jvm", "here")):
        source.upsert(pa.table({"id": [turn], "city": ["oslo"], "n": [turn]}, schema))
        if reader == "jvm":
            judge.stream({"format": "hudi", "path": str(table), "columns": COLUMNS}, copy, write, checkpoint=checkpoint)
        else:
            run_here(spark.readStream.format("hudi").load(str(table)).select(*COLUMNS), copy, checkpoint, write)
        assert contents(copy) == [(i, "oslo", i) for i in range(turn + 1)], (turn, reader)
