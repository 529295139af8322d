"""The streamer on Spark: tasks read the source, and the table is that of a run without Spark."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.orc as orc
import pytest
from pyspark.sql import functions as sql
from tests.support.kafka import Broker
from tests.support.pages import ROOT, blocks, run_block
from tests.support.programs import told_by
from tests.support.registries import Registry
from tests.support.spark_streamers import ROOT_OF_FILES, TOPIC, check_equal, put, run, stored

import pyhudi
import pyhudi.streamer
from pyhudi.commands.command_line import main
from pyhudi.errors import ConfigError, SchemaMismatchError, SourceError, UnsupportedFeatureError
from pyhudi.spark import engine, outcomes

pytestmark = [pytest.mark.xdist_group("kafka"), pytest.mark.timeout(300)]

PROGRAM = Path(__file__).with_name("streamer_retry_program.py")


def test_json_files_give_the_table_of_a_run_without_spark(spark: Any, tmp_path: Path) -> None:
    landing, options = tmp_path / "landing", {ROOT_OF_FILES: str(tmp_path / "landing")}
    put(landing, "1.json", [{"id": 1, "ts": 1, "x": 1, "at": "2024-01-01", "in": {"a": None}}, {"id": 2, "ts": 1}])
    put(landing, "2.json", [{"id": 1, "ts": 2, "x": 1.5, "in": {"a": 7, "b": ["y"]}}, {"id": 3, "ts": 1, "n": 2**63}])
    rows = check_equal(spark, tmp_path, "JsonDFSSource", options)
    assert [row["ts"] for row in rows] == [2, 1, 1]
    put(landing, "3.json", [{"id": 3, "ts": 5, "new": True}])
    rows = check_equal(spark, tmp_path, "JsonDFSSource", options)
    assert [row["new"] for row in rows] == [None, None, True]
    assert run(tmp_path / "on_spark", "JsonDFSSource", options, spark=spark).rows == 0


def test_parquet_files_give_the_table_of_a_run_without_spark(spark: Any, tmp_path: Path) -> None:
    options = {ROOT_OF_FILES: str(tmp_path / "landing")}
    put(tmp_path / "landing", "1.parquet", [{"id": 1, "ts": 1}, {"id": 2, "ts": 1}])
    put(tmp_path / "landing", "2.parquet", [{"id": 2, "ts": 2, "tags": ["a", None], "by": {"name": "x"}}])
    assert [row["tags"] for row in check_equal(spark, tmp_path, "ParquetDFSSource", options)] == [None, ["a", None]]


@pytest.mark.parametrize("kind", ["Csv", "Orc", "Avro"])
def test_files_of_other_kinds_give_the_table_of_a_run_without_spark(spark: Any, tmp_path: Path, kind: str) -> None:
    landing = tmp_path / "landing"
    landing.mkdir()
    for number, names in enumerate((["id", "ts"], ["id", "ts", "n"])):
        row, file = dict.fromkeys(names, number), landing / str(number)
        if kind == "Csv":
            file.write_text(f"{','.join(names)}\n{','.join(str(value) for value in row.values())}\n")
        elif kind == "Orc":
            orc.write_table(pa.Table.from_pylist([row]), file)
        else:
            columns = [{"name": name, "type": ["null", "long"]} for name in names]
            with file.open("wb") as target:
                fastavro.writer(target, {"type": "record", "name": "row", "fields": columns}, [row])
    options = {
        ROOT_OF_FILES: str(landing),
        "hoodie.streamer.csv.header": "true",
        "hoodie.streamer.csv.inferSchema": "true",
    }
    options = options if kind == "Csv" else {ROOT_OF_FILES: str(landing)}
    assert [row["n"] for row in check_equal(spark, tmp_path, f"{kind}DFSSource", options)] == [None, 1]


def test_columns_of_a_schema_keep_where_they_may_be_null(spark: Any, tmp_path: Path) -> None:
    put(tmp_path / "landing", "1.parquet", [{"id": 1, "ts": 1, "tags": [{"a": 1}], "price": 1}])
    tags = pa.list_(pa.field("item", pa.struct([pa.field("a", pa.int64(), nullable=False)]), nullable=False))
    fields = {"id": pa.int64(), "ts": pa.int64(), "tags": tags, "price": pa.decimal128(20, 2)}
    schema = pa.schema([pa.field(name, kind, nullable=name == "tags") for name, kind in fields.items()])
    check_equal(spark, tmp_path, "ParquetDFSSource", {ROOT_OF_FILES: str(tmp_path / "landing")}, schema=schema)


def test_topic_gives_the_table_of_a_run_without_spark(
    spark: Any, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:

    monkeypatch.setattr("pyhudi.streamer.sources.topic_parts.MESSAGES_OF_A_PART", 3)
    monkeypatch.setattr("pyhudi.spark.engine.IN_PROCESS_BYTES_MAX", 0)
    topic = broker.new_topic(partitions=3)
    options = {
        "bootstrap.servers": broker.servers,
        TOPIC: topic,
        "hoodie.streamer.source.kafka.append.offsets": "true",
    }
    broker.send(topic, [{"id": n, "ts": n, "in": {"a": None}} for n in range(7)])
    broker.send(topic, [None, {"id": 7, "ts": 1, "x": 1, "in": {"a": 1}}, {"id": 0, "ts": 9, "x": 0.5}], partition=2)
    rows = check_equal(spark, tmp_path, "JsonKafkaSource", options)
    assert (len(rows), rows[0]["ts"], rows[1]["in"]) == (8, 9, {"a": None})
    broker.send(topic, [{"id": 8, "ts": "1", "new": [1]}], partition=1)
    with pytest.raises(SchemaMismatchError):
        run(tmp_path / "local", "JsonKafkaSource", options)
    with pytest.raises(SchemaMismatchError):
        run(tmp_path / "on_spark", "JsonKafkaSource", options, spark=spark)


def _arranged_as_on_a_cluster(
    rows: Any, *given: Any, arranged: Callable[..., Any] = engine.arrange, **named: Any
) -> Any:
    """What a shuffle brings in any order, as it does from several machines."""
    return arranged(rows, *given, **named).sortWithinPartitions(sql.rand(3))


@pytest.mark.parametrize(
    "given",
    [
        {"source_ordering_fields": None, "table_type": "MERGE_ON_READ"},
        {"source_ordering_fields": None, "transformer_class": "FlatteningTransformer"},
        {"op": "INSERT", "filter_dupes": True, "source_ordering_fields": None},
    ],
    ids=["no ordering field", "behind a row-wise transformer", "insert without duplicates"],
)
def test_of_rows_of_a_key_the_last_one_counts_as_without_spark(
    spark: Any, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: dict[str, Any]
) -> None:
    monkeypatch.setattr("pyhudi.streamer.sources.topic_parts.MESSAGES_OF_A_PART", 30)
    monkeypatch.setattr(engine, "arrange", _arranged_as_on_a_cluster)
    topic = broker.new_topic()
    options = {"bootstrap.servers": broker.servers, TOPIC: topic}
    for begin in (0, 100):
        broker.send(topic, [{"id": number % 10, "ts": 1, "at": {"n": begin + number}} for number in range(97)])
        rows = check_equal(spark, tmp_path, "JsonKafkaSource", options, **given)
    found = {row["id"]: row["at_n"] if "at_n" in row else row["at"]["n"] for row in rows}
    begin = 0 if "filter_dupes" in given else 100
    assert found == {number % 10: begin + number for number in range(97)}


def test_topic_of_avro_gives_the_table_of_a_run_without_spark(
    spark: Any, broker: Broker, small_registry: Registry, tmp_path: Path
) -> None:
    topic, fields = broker.new_topic(partitions=2), [{"name": name, "type": "long"} for name in ("id", "ts", "new")]
    for partition, known in enumerate((fields[:2], fields)):
        schema = {"type": "record", "name": "row", "fields": known}
        number = small_registry.register(topic, json.dumps(schema))
        encoded = io.BytesIO(struct.pack(">bI", 0, number))
        encoded.seek(0, io.SEEK_END)
        fastavro.schemaless_writer(encoded, schema, {"id": partition, "ts": 1, "new": 5})
        broker.send(topic, [encoded.getvalue()], partition=partition)
    options = {
        "bootstrap.servers": broker.servers,
        TOPIC: topic,
        "hoodie.streamer.schemaprovider.registry.url": small_registry.url,
    }
    rows = check_equal(spark, tmp_path, "AvroKafkaSource", options)
    assert [row["new"] for row in rows] == [None, 5]


def test_topic_with_a_schema_goes_on_after_a_message_that_cannot_be_read(
    spark: Any, broker: Broker, tmp_path: Path
) -> None:
    topic, schema = broker.new_topic(partitions=2), pa.schema([("id", pa.int64()), ("ts", pa.int32())])
    options, path = {"bootstrap.servers": broker.servers, TOPIC: topic}, tmp_path / "on_spark"
    broker.send(topic, [{"id": 1, "ts": 1, "unknown": 1}])
    check_equal(spark, tmp_path, "JsonKafkaSource", options, schema=schema)
    broker.send(topic, [{"id": 2, "ts": 1}])
    broker.send(topic, [{"id": 3, "ts": 1}, b"{"], partition=1)
    with pytest.raises(SourceError) as raised:
        run(path, "JsonKafkaSource", options, spark=spark, schema=schema)
    assert raised.value.context == {"topic": topic, "partition": 1, "offset": 1}
    assert len(stored(path)[1]) == 1
    past = {"checkpoint": f"{topic},0:1,1:2"}
    assert run(path, "JsonKafkaSource", options, spark=spark, schema=schema, **past).rows == 1
    assert [row["id"] for row in stored(path)[1]] == [1, 2]


def test_file_that_cannot_be_read_is_named_and_nothing_is_committed(spark: Any, tmp_path: Path) -> None:
    put(tmp_path / "landing", "1.json", [{"id": 1, "ts": 1}])
    (tmp_path / "landing" / "2.json").write_text("{")
    options = {ROOT_OF_FILES: str(tmp_path / "landing")}
    schema = pa.schema([("id", pa.int64()), ("ts", pa.int64())])
    for columns in (None, schema):
        with pytest.raises(SourceError) as raised:
            run(tmp_path / "t", "JsonDFSSource", options, spark=spark, schema=columns)
        assert raised.value.context["path"].endswith("/landing/2.json")
        assert not (tmp_path / "t" / ".hoodie").exists()


def test_task_that_dies_in_the_midst_of_its_rows_gives_each_row_once(tmp_path: Path) -> None:
    put(tmp_path / "landing", "1.json", [{"id": n, "ts": 1} for n in range(4)])
    put(tmp_path / "landing", "2.json", [{"id": n, "ts": 1} for n in range(4, 8)])
    told = told_by(PROGRAM, str(tmp_path), folder=tmp_path, seconds_max=120)
    rows = [[number, 2 * number] for number in range(8)]
    assert told == {"ids": list(range(8)), "deaths": ["FilePart"], "of a query": rows}


def test_error_of_a_part_is_found_behind_a_message_that_imitates_one() -> None:
    """What an error quotes comes from outside."""
    imitation = outcomes.RowsFailedError(ConfigError("of a message"))
    error = SourceError(f"a message cannot be read: {imitation}", topic="trips", offset=7)

    found = outcomes._explained(f"Traceback\nRowsFailedError: {outcomes.RowsFailedError(error)}\n SQLSTATE", "a step")

    assert type(found) is SourceError
    assert (found.message, found.context) == (error.message, error.context)
    assert outcomes._explained("Traceback\nRuntimeError: of a user's function", "a step") is None


REFUSED: dict[str, dict[str, Any]] = {
    "ordering fields behind SQL": {
        "source_ordering_fields": None,
        "transformer_class": "SqlQueryBasedTransformer",
        "hoodie_conf": {"hoodie.streamer.transformer.sql": "SELECT * FROM <SRC>"},
    },
    "this source": {
        "source_class": "SqlSource",
        "hoodie_conf": {"hoodie.streamer.source.sql.sql.query": "SELECT 1 AS id, 1 AS ts"},
    },
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_not_built_on_spark_is_refused_by_name(spark: Any, tmp_path: Path, what: str) -> None:
    put(tmp_path / "landing", "1.json", [{"id": 1, "ts": 1}])
    given = dict(REFUSED[what])
    conf = {ROOT_OF_FILES: str(tmp_path / "landing"), TOPIC: "none", **given.pop("hoodie_conf", {})}
    with pytest.raises(UnsupportedFeatureError, match=what):
        run(tmp_path / "t", options=conf, spark=spark, **{"source_class": "JsonDFSSource", **given})
    assert not (tmp_path / "t").exists()


def test_block_of_the_page_ingests_files_on_spark(spark: Any, tmp_path: Path) -> None:
    put(tmp_path / "landing", "1.json", [{"id": 1, "ts": 1, "city": "oslo"}])
    (block,) = (block for block in blocks(ROOT / "docs/ingestion.md") if "/tmp/trips_on_spark" in block.code)
    run_block(block, {"pyhudi": pyhudi, "spark": spark}, folder=tmp_path)
    assert [row["city"] for row in stored(tmp_path / "trips_on_spark")[1]] == ["oslo"]


@pytest.mark.parametrize("many", [False, True])
def test_command_with_a_master_runs_in_tasks_of_spark(
    spark: Any, tmp_path: Path, many: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    put(tmp_path / "landing", "1.json", [{"id": 1, "ts": 1}, {"id": 2, "ts": 1}])
    props = tmp_path / "conf" / "common.properties"
    props.parent.mkdir()
    props.write_text(f"{ROOT_OF_FILES}={tmp_path / 'landing'}\nhoodie.datasource.write.recordkey.field=id\n")
    where = ["--target-base-path", str(tmp_path / "shop" / "t")]
    if many:
        with props.open("a") as file:
            file.write("hoodie.streamer.ingestion.tablesToBeIngested=shop.t\n")
        (props.parent / "shop_t_config.properties").touch()
        where = ["--config-folder", str(props.parent), "--base-path-prefix", str(tmp_path)]
    spark.sparkContext.setJobGroup(f"command {many}", "")

    assert main(["streamer", *where, "--props", str(props), "--spark-master", "local[2]"]) == 0

    assert "2 inserted" in capsys.readouterr().out
    assert spark.sparkContext.statusTracker().getJobIdsForGroup(f"command {many}")
    assert pyhudi.HudiTable.for_path(tmp_path / "shop" / "t").scan().count() == 2


def test_command_with_a_master_of_connect_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["streamer", "--target-base-path", str(tmp_path / "t"), "--spark-master", "sc://host"]) == 2
    assert "Spark Connect" in capsys.readouterr().err
