"""A streamer on Spark: its tasks read topics and folders, and the table is that of a streamer without Spark."""

from __future__ import annotations

import json
import os
import pickle
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc as pa_orc
import pyarrow.parquet as pq
import pytest
from tests.support.kafka import Broker

import pyhudi
from pyhudi.errors import ConfigError, SourceError, UnsupportedFeatureError
from pyhudi.spark import outcomes
from pyhudi.streamer import StreamerConfig, run, run_many
from pyhudi.streamer.checkpoints import Checkpoint
from pyhudi.streamer.settings import settings_of
from pyhudi.streamer.sources import kafka
from pyhudi.streamer.sources.open import open_source

pytestmark = [pytest.mark.xdist_group("kafka"), pytest.mark.timeout(600)]
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("city", pa.string()),
        pa.field("fare", pa.decimal128(9, 2)),
        pa.field("at", pa.timestamp("us", "UTC")),
        pa.field("tags", pa.list_(pa.string())),
        pa.field("ts", pa.int64()),
    ]
)
META = ("_hoodie_record_key", "_hoodie_partition_path")
KEYS = {"hoodie.datasource.write.recordkey.field": "id", "hoodie.datasource.write.partitionpath.field": "city"}


def trips(first: int, count: int, ts: int) -> list[dict[str, Any]]:
    return [
        {
            "id": key,
            "city": ("oslo", "graz", "bern")[key % 3],
            "fare": str(Decimal(key) / 4),
            "at": f"2026-11-{1 + key % 28:02}T10:00:00Z",
            "tags": [f"t{key % 5}", None] if key % 2 else None,
            "ts": ts,
        }
        for key in range(first, first + count)
    ]


def rows_of(given: list[dict[str, Any]]) -> pa.Table:
    texts = pa.Table.from_pylist(
        given, schema=SCHEMA.set(2, pa.field("fare", pa.string())).set(3, pa.field("at", pa.string()))
    )
    for name in ("fare", "at"):
        place = texts.schema.get_field_index(name)
        texts = texts.set_column(place, SCHEMA.field(name), texts[name].cast(SCHEMA.field(name).type))
    return texts


def answer(path: Path) -> list[dict[str, Any]]:
    """All rows of a table with their keys and partitions, in order."""
    table = pyhudi.HudiTable.for_path(path)
    return sorted(table.scan([*META, *SCHEMA.names]).to_arrow().to_pylist(), key=lambda row: row["id"])


def both(spark: Any, folder: Path, **arguments: Any) -> tuple[Any, Any]:
    """What a streamer without Spark and one on Spark say of a round."""
    given = {"source_ordering_fields": "ts", "schema": SCHEMA, **arguments}
    return run(folder / "here", **given), run(folder / "spark", spark=spark, **given)


def put(folder: Path, name: str, given: list[dict[str, Any]], kind: str, *, second: int) -> None:
    """A file of a source, with a time of its own."""
    folder.mkdir(exist_ok=True)
    path, rows = folder / f"{name}.{kind}", rows_of(given)
    if kind == "json":
        path.write_text("".join(json.dumps(row) + "\n" for row in given), encoding="utf-8")
    elif kind == "orc":
        pa_orc.write_table(rows, path)
    else:
        pq.write_table(rows, path)
    os.utime(path, (second, second))


@pytest.mark.parametrize(
    ("kind", "source"), [("json", "JsonDFSSource"), ("parquet", "ParquetDFSSource"), ("orc", "ORCDFSSource")]
)
def test_files_that_tasks_read_make_the_table_and_checkpoint_of_one_process(
    kind: str, source: str, spark: Any, tmp_path: Path
) -> None:
    conf = {**KEYS, "hoodie.streamer.source.dfs.root": str(tmp_path / "files")}
    for number in range(3):
        put(tmp_path / "files", f"f{number}", trips(100 * number, 130, number), kind, second=1_000 + number)
    first = both(spark, tmp_path, source_class=source, hoodie_conf=conf)
    put(tmp_path / "files", "late", trips(50, 100, 9), kind, second=2_000)
    second = both(spark, tmp_path, source_class=source, hoodie_conf=conf)

    assert answer(tmp_path / "spark") == answer(tmp_path / "here")
    assert len(answer(tmp_path / "spark")) == 330
    for here, on_spark in (first, second):
        assert on_spark.checkpoint == here.checkpoint
        assert (on_spark.batches, on_spark.items) == (here.batches, here.items)
    schemas = [pyhudi.HudiTable.for_path(tmp_path / name).schema for name in ("here", "spark")]
    assert schemas[0] == schemas[1]
    assert both(spark, tmp_path, source_class=source, hoodie_conf=conf)[1].batches == 0


def test_partitions_of_a_topic_that_tasks_read_make_the_table_of_one_process(
    spark: Any, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka, "MESSAGES_OF_PART", 40)
    topic = broker.new_topic(partitions=3)
    conf = {**KEYS, "bootstrap.servers": broker.servers, "hoodie.streamer.source.kafka.topic": topic}
    for turn in (1, 2):
        for partition in range(3):
            broker.send(topic, trips(70 * partition + turn, 100, turn), partition=partition)
        here, on_spark = both(spark, tmp_path, source_class="JsonKafkaSource", hoodie_conf=conf)
        assert (on_spark.checkpoint, on_spark.items) == (here.checkpoint, here.items)
        assert answer(tmp_path / "spark") == answer(tmp_path / "here")


def test_parts_of_a_topic_can_be_sent_to_tasks_and_have_the_same_rows_each_time(broker: Broker) -> None:
    topic = broker.new_topic(partitions=2)
    for partition in range(2):
        broker.send(topic, trips(70 * partition, 50, 1), partition=partition)
    conf = {**KEYS, "bootstrap.servers": broker.servers, "hoodie.streamer.source.kafka.topic": topic}
    given = StreamerConfig("memory://t", source_class="JsonKafkaSource", schema=SCHEMA, hoodie_conf=conf)
    pull = open_source(settings_of(given)).pull(Checkpoint(text=None), limit=None)
    assert pull is not None
    assert pull.parts is not None

    parts = [pickle.loads(pickle.dumps(part)) for part in pull.parts()]
    for _ in range(2):
        assert pa.concat_tables(part.read(SCHEMA, None) for part in parts) == pull.read(SCHEMA, None)


def test_message_that_no_task_can_read_is_a_typed_error_and_nothing_is_committed(
    spark: Any, broker: Broker, tmp_path: Path
) -> None:
    topic = broker.new_topic()
    broker.send(topic, [*trips(0, 5, 1), b"{", *trips(5, 5, 1)])
    conf = {**KEYS, "bootstrap.servers": broker.servers, "hoodie.streamer.source.kafka.topic": topic}
    said = []
    for session in (None, spark):
        with pytest.raises(SourceError, match="a message cannot be read") as raised:
            run(
                tmp_path / "t",
                spark=session,
                source_class="JsonKafkaSource",
                op="INSERT",
                schema=SCHEMA,
                hoodie_conf=conf,
            )
        said.append((raised.value.message, raised.value.context))
    assert said[1] == said[0]
    assert not list((tmp_path / "t").rglob("*"))


def test_error_of_the_input_is_found_behind_a_message_that_imitates_one() -> None:
    """What an error quotes comes from outside."""
    imitation = outcomes.failure_of_input(ConfigError("of a message"))
    error = SourceError(f"a message cannot be read: {imitation}", topic="trips", offset=7)

    found = outcomes._explained(
        f"Traceback\nRuntimeError: {outcomes.failure_of_input(error)}\n SQLSTATE: 38000", "a step"
    )

    assert type(found) is SourceError
    assert (found.message, found.context) == (error.message, error.context)
    assert outcomes._explained("Traceback\nRuntimeError: of a user's function", "a step") is None


KAFKA = {"bootstrap.servers": "localhost:1", "hoodie.streamer.source.kafka.topic": "t", **KEYS}
WATERMARK = {"hoodie.write.track.event.time.watermark": "true", "hoodie.payload.event.time.field": "at"}
ERRORS = {"hoodie.errortable.enable": "true", "hoodie.errortable.base.path": "/tmp/errors"}
FOLDER = {"hoodie.streamer.source.dfs.root": "/tmp"}
REFUSED: dict[str, tuple[type[Exception], str, dict[str, Any]]] = {
    "no columns": (ConfigError, "which columns", {"schema": None}),
    "no order": (ConfigError, "source_ordering_fields", {"source_ordering_fields": None}),
    "change data": (
        UnsupportedFeatureError,
        "change data",
        {"source_class": "MysqlDebeziumSource", "hoodie_conf": KAFKA},
    ),
    "transformers": (UnsupportedFeatureError, "transformers", {"transformer_class": lambda rows: rows}),
    "error table": (UnsupportedFeatureError, "error table", {"hoodie_conf": {**KEYS, **FOLDER, **ERRORS}}),
    "offsets": (
        UnsupportedFeatureError,
        "append.offsets",
        {
            "source_class": "JsonKafkaSource",
            "hoodie_conf": {**KAFKA, "hoodie.streamer.source.kafka.append.offsets": "true"},
        },
    ),
    "watermark": (
        UnsupportedFeatureError,
        "watermark",
        {"source_class": "JsonKafkaSource", "hoodie_conf": {**KAFKA, **WATERMARK}},
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_needs_a_batch_in_one_process_is_refused_on_spark(name: str, spark: Any, tmp_path: Path) -> None:
    kind, words, given = REFUSED[name]
    conf = {**KEYS, "hoodie.streamer.source.dfs.root": str(tmp_path)}
    arguments = {"schema": SCHEMA, "source_ordering_fields": "ts", "hoodie_conf": conf, **given}

    with pytest.raises(kind, match=words):
        run(tmp_path / "t", spark=spark, **arguments)
    assert not (tmp_path / "t").exists()


def test_sources_that_are_read_as_a_whole_and_many_tables_are_refused_on_spark(spark: Any, tmp_path: Path) -> None:
    conf = {**KEYS, "hoodie.streamer.source.sql.sql.query": "SELECT 1 AS id, 1 AS ts"}
    given: dict[str, Any] = {"schema": SCHEMA, "source_ordering_fields": "ts", "hoodie_conf": conf}
    with pytest.raises(UnsupportedFeatureError, match="topics and folders"):
        run(tmp_path / "t", spark=spark, source_class="SqlSource", **given)
    with pytest.raises(UnsupportedFeatureError, match="spark"):
        run_many([StreamerConfig(tmp_path / "t", spark=spark, source_class="SqlSource", **given)])
    assert not (tmp_path / "t").exists()
