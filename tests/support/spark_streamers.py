"""Streamers with Spark and without it for tests: the tables and the checkpoints must be equal."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import pyhudi
import pyhudi.streamer

CHANGING = ("_hoodie_commit_time", "_hoodie_commit_seqno", "_hoodie_file_name")
TOPIC, ROOT_OF_FILES = "hoodie.streamer.source.kafka.topic", "hoodie.streamer.source.dfs.root"


def put(folder: Path, name: str, rows: list[dict[str, Any]]) -> None:
    folder.mkdir(exist_ok=True)
    if name.endswith(".parquet"):
        pq.write_table(pa.Table.from_pylist(rows), folder / name)
    else:
        (folder / name).write_text("\n".join(map(json.dumps, rows)))
    os.utime(folder / name, (1_700_000_000, 1_700_000_000))


def run(path: Path, source_class: str, options: dict[str, str], **given: Any) -> pyhudi.streamer.StreamerResult:
    conf = {"hoodie.datasource.write.recordkey.field": "id", "hoodie.table.name": "t", **options}
    given = {"source_ordering_fields": "ts", **given}
    return pyhudi.streamer.run(path, source_class=source_class, hoodie_conf=conf, **given)


def stored(path: Path) -> tuple[pa.Schema, list[dict[str, Any]]]:
    """The columns of a table, and its rows but for what differs between two writes of the same."""
    rows = pyhudi.HudiTable.for_path(path).scan().to_arrow().drop_columns(list(CHANGING))
    return rows.schema, rows.sort_by("id").to_pylist()


def check_equal(spark: Any, folder: Path, source_class: str, options: dict[str, str], **given: Any) -> list[Any]:
    """Run a streamer with Spark and without it: the tables and the checkpoints are equal. Gives the rows."""
    ended = run(folder / "on_spark", source_class, options, spark=spark, **given)
    local = run(folder / "local", source_class, options, **given)
    assert (ended.checkpoint, ended.rows) == (local.checkpoint, local.rows)
    (columns, rows), (local_columns, local_rows) = stored(folder / "on_spark"), stored(folder / "local")
    if source_class == "JsonKafkaSource":  # whose new columns come in the order of the partitions that answer first
        columns, local_columns = sorted(columns, key=str), sorted(local_columns, key=str)
    assert rows == local_rows
    assert list(columns) == list(local_columns)
    return rows
