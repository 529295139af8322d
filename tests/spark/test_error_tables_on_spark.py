"""Error tables of streamers on Spark: both tables are those of a run without Spark, whatever happens to the tasks."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.support.kafka import Broker
from tests.support.programs import told_by
from tests.support.spark_streamers import ROOT_OF_FILES, TOPIC, put, run, stored

import pyhudi
import pyhudi.streamer
from pyhudi.errors import ConfigError, InvalidRequestError, SourceError
from pyhudi.spark import outcomes
from pyhudi.streamer import ingest

pytestmark = [pytest.mark.xdist_group("kafka"), pytest.mark.timeout(300)]

PROGRAM = Path(__file__).with_name("streamer_retry_program.py")
ERRORS = {"hoodie.errortable.enable": "true"}
TYPES = {"hoodie.errortable.validate.targetschema.enable": "true"}
PATH = "hoodie.errortable.base.path"
Failed = list[dict[str, Any]]


def failed_in(path: Path) -> Failed:
    """The rows of an error table, but for the name of the table that they should have been in."""
    rows = pyhudi.HudiTable.for_path(path).scan().to_arrow().to_pylist()
    kept = ("error_id", "source", "position", "reason", "message", "_corrupt_record")
    found = [{name: row[name] for name in kept} for row in rows]
    for row, whole in zip(found, rows, strict=True):
        assert row["error_id"].startswith(f"{whole['target']}|")
        row["error_id"] = row["error_id"].removeprefix(whole["target"])
    return sorted(found, key=lambda row: row["error_id"])


def check_errors(
    spark: Any, folder: Path, source_class: str, options: dict[str, str], **given: Any
) -> tuple[list[Any], Failed]:
    """As `check_equal`, with error tables, which are equal, too. Gives the rows of both tables."""
    counts, places = [], {"on_spark": spark, "local": None}
    for name, session in places.items():
        with_errors = {**ERRORS, PATH: str(folder / f"errors {name}"), **options}
        done = run(folder / name, source_class, with_errors, spark=session, **given)
        counts.append((done.checkpoint, done.items, done.rows, done.failed))
    assert counts[0] == counts[1]
    (columns, rows), (local_columns, local_rows) = stored(folder / "on_spark"), stored(folder / "local")
    assert (sorted(columns, key=str), rows) == (sorted(local_columns, key=str), local_rows)
    failed, local_failed = (failed_in(folder / f"errors {name}") for name in places)
    assert failed == local_failed
    return rows, failed


def payloads(failed: Failed) -> set[bytes]:
    return {row["_corrupt_record"] for row in failed}


def test_lines_and_rows_that_fail_are_in_the_error_table_of_a_run_without_spark(spark: Any, tmp_path: Path) -> None:
    landing = tmp_path / "landing"
    put(landing, "1.json", [{"id": 1, "ts": 1, "x": 1}, {"id": 2, "ts": 1}])
    put(landing, "2.json", [{"note": "no key"}, {"note": "none, either"}])
    (landing / "3.json").write_text('{"id": 3, "ts": 1, "x": 0.5}\n\n{bad\n[4]\n{"id": null, "note": "null"}\n{}')
    (landing / "4.json").write_text("{bad 4")
    rows, failed = check_errors(spark, tmp_path, "JsonDFSSource", {ROOT_OF_FILES: str(landing)})
    assert [(row["id"], row["x"]) for row in rows] == [(1, 1.0), (2, None), (3, 0.5)]
    assert len(failed) == 7
    assert payloads(failed) >= {b'{"note": "none, either"}', b"{bad", b"[4]", b"{}", b"{bad 4"}
    (landing / "5.json").write_text('{"id": 3, "ts": 2, "new": [1]}')
    rows, again = check_errors(spark, tmp_path, "JsonDFSSource", {ROOT_OF_FILES: str(landing)})
    assert (rows[2]["new"], again) == ([1], failed)


def test_files_that_cannot_be_read_and_rows_without_text_are_in_the_error_table(spark: Any, tmp_path: Path) -> None:
    landing = tmp_path / "landing"
    put(landing, "1.parquet", [{"id": 1, "ts": 1}, {"id": None, "ts": 2}])
    put(landing, "2.parquet", [{"ts": 3, "note": "no key"}])
    (landing / "3.parquet").write_bytes(b"PAR1 is none")
    rows, failed = check_errors(spark, tmp_path, "ParquetDFSSource", {ROOT_OF_FILES: str(landing)})
    assert [row["id"] for row in rows] == [1]
    lost = [json.loads(row["_corrupt_record"]) for row in failed if row["_corrupt_record"] is not None]
    assert lost == [{"id": None, "ts": 2, "note": None}, {"id": None, "ts": 3, "note": "no key"}]
    assert [row["position"] for row in failed].count(None) == 1


def test_rows_of_csv_with_other_numbers_of_values_are_in_the_error_table(spark: Any, tmp_path: Path) -> None:
    landing = tmp_path / "landing"
    landing.mkdir()
    (landing / "1.csv").write_text("id,ts\n1,1\n2\n3,1\n,1\n")
    options = {ROOT_OF_FILES: str(landing), "hoodie.streamer.csv.header": "true"}
    rows, failed = check_errors(spark, tmp_path, "CsvDFSSource", options)
    assert ([row["id"] for row in rows], payloads(failed)) == (["1", "3"], {b"2", b'{"id": null, "ts": "1"}'})


@pytest.mark.parametrize(
    ("checked", "schema"),
    [({}, None), (TYPES, None), (TYPES, pa.schema([("id", pa.int64()), ("ts", pa.int64()), ("x", pa.float64())]))],
    ids=["any type", "types of the table", "schema"],
)
def test_messages_that_fail_in_parts_of_a_topic_are_in_the_error_table(
    spark: Any, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, checked: Any, schema: Any
) -> None:
    monkeypatch.setattr("pyhudi.streamer.sources.topic_parts.MESSAGES_OF_A_PART", 3)
    monkeypatch.setattr("pyhudi.spark.engine.IN_PROCESS_BYTES_MAX", 0)
    topic = broker.new_topic(partitions=2)
    options = {
        "bootstrap.servers": broker.servers,
        TOPIC: topic,
        "hoodie.streamer.source.kafka.append.offsets": "true",
        **checked,
    }
    broker.send(topic, [{"id": n, "ts": 1, "x": n, "note": "a"} for n in range(4)], partition=0)
    broker.send(topic, [b"{bad", {"id": 9, "ts": 1}, None, b"[1]", {"x": 1}, {"ts": 1}], partition=1)
    rows, failed = check_errors(spark, tmp_path, "JsonKafkaSource", options, schema=schema)
    assert ([row["id"] for row in rows], len(failed)) == ([0, 1, 2, 3, 9], 4)
    # The table has whole numbers in x, and texts in note: a number becomes a text where all numbers do.
    broker.send(topic, [{"id": 0, "ts": 5, "x": 0.5 if checked else 7}, {"id": 1, "ts": 5}], partition=0)
    broker.send(topic, [{"id": 10, "ts": "late"} if checked else {"id": 10, "ts": 1, "note": 5}], partition=1)
    rows, failed = check_errors(spark, tmp_path, "JsonKafkaSource", options, schema=schema)
    is_lost = bool(checked) and schema is None
    assert rows[0]["x"] == (0 if is_lost else 0.5 if checked else 7)
    assert len(failed) == 4 + is_lost + bool(checked)
    assert [row.get("note") for row in rows if row["id"] == 10] == ([] if checked else ["5"])


@pytest.mark.parametrize("source_class", ["JsonKafkaSource", "JsonDFSSource"])
def test_large_whole_numbers_and_fractions_in_other_parts_are_those_of_a_run_without_spark(
    spark: Any, broker: Broker, tmp_path: Path, source_class: str
) -> None:
    large = [2**64 - 1, 9_340_128_741_287_412_345, 10**30 + 7]
    portions = [[{"id": n, "ts": 1, "x": x} for n, x in enumerate(large)], [{"id": 9, "ts": 1, "x": 0.5}, {"x": 1}]]
    topic = broker.new_topic(partitions=2)
    options = {"bootstrap.servers": broker.servers, TOPIC: topic}
    if source_class == "JsonDFSSource":
        options = {ROOT_OF_FILES: str(tmp_path / "landing")}
    for number, messages in enumerate(portions):
        broker.send(topic, messages, partition=number)
        put(tmp_path / "landing", f"{number}.json", messages)
    rows, failed = check_errors(spark, tmp_path, source_class, options)
    assert ([row["x"] for row in rows], len(failed)) == ([*map(float, large), 0.5], 1)


SQL = "hoodie.streamer.transformer.sql"
KEYLESS = "SELECT nullif(id, 5) AS id, ts, x, 2 * id AS twice, _source_record FROM <SRC> WHERE ts < 9"


def without_five(rows: pa.Table) -> pa.Table:
    ids = pc.if_else(pc.equal(rows["id"], 5), pa.scalar(None, pa.int64()), rows["id"])
    return rows.set_column(rows.column_names.index("id"), "id", ids)


@pytest.mark.parametrize(
    ("transformer", "source_class"),
    [
        ("SqlQueryBasedTransformer", "JsonKafkaSource"),
        ("SqlQueryBasedTransformer", "ParquetDFSSource"),
        (pyhudi.streamer.RowWise(without_five), "JsonKafkaSource"),
    ],
    ids=["query and topic", "query and files", "row-wise"],
)
def test_rows_that_transformers_leave_without_a_key_are_in_the_error_table(
    spark: Any, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, transformer: Any, source_class: str
) -> None:
    monkeypatch.setattr("pyhudi.streamer.sources.topic_parts.MESSAGES_OF_A_PART", 3)
    topic, landing = broker.new_topic(partitions=2), tmp_path / "landing"
    options = {"bootstrap.servers": broker.servers, TOPIC: topic, SQL: KEYLESS}
    if source_class == "ParquetDFSSource":
        options = {ROOT_OF_FILES: str(landing), SQL: KEYLESS}
    portions = [
        [{"id": 3, "ts": 1, "x": 1.5}, {"id": 5, "ts": 1, "x": 2.5}, {"id": None, "ts": 1, "x": 0.0}],
        [{"id": 4, "ts": 1, "x": 1.5}, {"id": 5, "ts": 2, "x": 2.5}, {"id": 6, "ts": 8, "x": 0.5}],
        [{"id": 3, "ts": 2, "x": 4.0}, {"id": 7, "ts": 8, "x": None}],
    ]
    for number, messages in enumerate(portions):
        broker.send(topic, [*messages, b"{bad"], partition=number % 2)
        put(landing, f"{number}.parquet", messages)
        (landing / f"{number}b.parquet").write_bytes(b"PAR1 is none")
        for name in (f"{number}.parquet", f"{number}b.parquet"):
            os.utime(landing / name, (1_700_000_000 + number, 1_700_000_000 + number))
        if number:
            rows, failed = check_errors(spark, tmp_path, source_class, options, transformer_class=transformer)
    assert [row["id"] for row in rows] == [3, 4, 6, 7]
    assert len(failed) == 6
    reasons = [row["reason"] for row in failed]
    assert reasons.count("RECORD_CREATION") == 3


def test_rows_whose_record_a_query_drops_are_not_checked_and_one_that_it_changes_is_refused(
    spark: Any, tmp_path: Path
) -> None:
    put(tmp_path / "landing", "1.json", [{"id": 1, "ts": 1}, {"id": 2, "ts": 1}])
    (tmp_path / "landing" / "2.json").write_text("{bad")
    options = {ROOT_OF_FILES: str(tmp_path / "landing"), SQL: "SELECT id, ts FROM <SRC>"}
    query = "SqlQueryBasedTransformer"
    rows, failed = check_errors(spark, tmp_path, "JsonDFSSource", options, transformer_class=query)
    assert (len(rows), len(failed)) == (2, 1)
    options |= {**ERRORS, PATH: str(tmp_path / "errors"), SQL: "SELECT id, ts, 'x' AS _source_record FROM <SRC>"}
    with pytest.raises(InvalidRequestError, match="leave this column as it is"):
        run(tmp_path / "t", "JsonDFSSource", options, spark=spark, transformer_class=query)


def test_first_batch_without_a_record_that_can_be_read_is_refused_for_want_of_columns(
    spark: Any, tmp_path: Path
) -> None:
    landing, errors = tmp_path / "landing", {**ERRORS, PATH: str(tmp_path / "errors")}
    landing.mkdir()
    (landing / "1.json").write_text("{bad\n{worse")
    with pytest.raises(ConfigError, match="no record of the first batch") as raised:
        run(tmp_path / "t", "JsonDFSSource", {ROOT_OF_FILES: str(landing), **errors}, spark=spark)
    assert raised.value.context["records"] == 2
    schema = pa.schema([("id", pa.int64()), ("ts", pa.int64())])
    rows, failed = check_errors(spark, tmp_path, "JsonDFSSource", {ROOT_OF_FILES: str(landing)}, schema=schema)
    assert (rows, len(failed)) == ([], 2)


def test_message_that_imitates_an_error_of_tasks_is_a_record_as_others(spark: Any, tmp_path: Path) -> None:
    landing = tmp_path / "landing"
    landing.mkdir()
    imitation = f"{{{outcomes.RowsFailedError(SourceError('of a message'))}"
    (landing / "1.json").write_text(f'{{"id": 1, "ts": 1}}\n{imitation}')
    rows, failed = check_errors(spark, tmp_path, "JsonDFSSource", {ROOT_OF_FILES: str(landing)})
    assert (len(rows), payloads(failed)) == (1, {imitation.encode()})


def test_tasks_that_die_in_each_stage_leave_each_record_and_each_change_once(tmp_path: Path) -> None:
    put(tmp_path / "landing", "1.json", [{"id": n, "ts": 1} for n in range(4)])
    (tmp_path / "landing" / "2.json").write_text('{"id": 4, "ts": 1}\n{bad\n{"ts": 1}\n{"id": 5, "ts": 1}')
    told = told_by(PROGRAM, str(tmp_path), "errors", folder=tmp_path, seconds_max=120)
    assert (told["ids"], told["errors"]) == (list(range(6)), ['{"ts": 1}', "{bad"])
    assert told["followed"] == told["database"]
    assert (told["deaths"].count("FilePart"), told["deaths"].count("MessagesPart")) >= (2, 1)


@pytest.mark.parametrize("step", ["write_errors", "write"])
def test_process_that_ends_after_one_of_the_two_commits_leaves_each_record_once(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    put(tmp_path / "landing", "1.json", [{"id": 1, "ts": 1}, {"note": "no key"}])
    options = {ROOT_OF_FILES: str(tmp_path / "landing"), **ERRORS, PATH: str(tmp_path / "errors")}
    done = getattr(ingest, step)

    def ends(*arguments: Any, **named: Any) -> Any:
        done(*arguments, **named)
        raise KeyboardInterrupt

    monkeypatch.setattr(ingest, step, ends)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "t", "JsonDFSSource", options, spark=spark, op="INSERT")
    monkeypatch.undo()
    again = run(tmp_path / "t", "JsonDFSSource", options, spark=spark, op="INSERT")
    assert again.batches == (1 if step == "write_errors" else 0)
    assert (len(stored(tmp_path / "t")[1]), len(failed_in(tmp_path / "errors"))) == (1, 1)


def test_source_that_fails_while_errors_are_written_is_no_failure_of_the_error_table(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    landing = tmp_path / "landing"
    put(landing, "1.json", [{"id": 1, "ts": 1}, {"note": "no key"}])
    options = {
        ROOT_OF_FILES: str(landing),
        **ERRORS,
        PATH: str(tmp_path / "errors"),
        "hoodie.errortable.write.failure.strategy": "LOG_ERROR",
    }
    write = ingest.write_errors

    def changed(*arguments: Any) -> None:
        (landing / "1.json").write_text('{"id": 1, "ts": 1, "note": "longer"}\n{"note": "no key"}')
        write(*arguments)

    monkeypatch.setattr(ingest, "write_errors", changed)
    with pytest.raises(SourceError, match="removed or changed"):
        run(tmp_path / "t", "JsonDFSSource", options, spark=spark)
    assert not (tmp_path / "t").exists()
