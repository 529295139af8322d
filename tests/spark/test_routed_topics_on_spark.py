"""One topic for many tables on Spark: tables, checkpoints and errors are those of a run without Spark."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.support.change_data import Database
from tests.support.change_streamers import CLASSES, MAXWELL
from tests.support.kafka import Broker
from tests.support.message_parts import topic_source
from tests.support.pages import ROOT, blocks, run_block
from tests.support.spark_streamers import TOPIC, stored

import pyhudi
from pyhudi.errors import HudiError, SourceDataLostError, SourceError
from pyhudi.spark.kept import kept_rows
from pyhudi.streamer import StreamerConfig, TableResult, run, run_many
from pyhudi.streamer.sources import routed
from pyhudi.streamer.sources.kafka_client import MESSAGES
from pyhudi.streamer.sources.routed import REST
from pyhudi.streamer.sources.routed_in_parts import RoutedPart

pytestmark = [pytest.mark.xdist_group("kafka"), pytest.mark.timeout(300)]
VALUES, FIELD = "hoodie.streamer.source.kafka.route.values", "hoodie.streamer.source.kafka.route.field"
OFFSETS = "hoodie.streamer.source.kafka.append.offsets"
PLACES = ("on_spark", "local")


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyhudi.streamer.sources.topic_parts.MESSAGES_OF_A_PART", 3)


def table(broker: Broker, path: Path, topic: str, options: dict[str, str], **given: Any) -> StreamerConfig:
    conf = {
        "bootstrap.servers": broker.servers,
        TOPIC: topic,
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.table.name": path.name,
        **options,
    }
    return StreamerConfig(
        path, hoodie_conf=conf, **{"source_class": "JsonKafkaSource", "source_ordering_fields": "ts", **given}
    )


def both(spark: Any, folder: Path, tables: dict[str, Any], **given: Any) -> list[tuple[TableResult, ...]]:
    """A round of tables on Spark, and one of the same without it. `tables`: the arguments of `table`."""
    return [
        run_many(
            [
                table(path=folder / place / name, spark=spark if place == "on_spark" else None, **{**given, **own})
                for name, own in tables.items()
            ]
        )
        for place in PLACES
    ]


def kept_by(spark: Any) -> set[int]:
    """The numbers of what Spark keeps, for earlier tests, too: they do not come again."""
    return set(spark.sparkContext._jsc.getPersistentRDDs())


def said(results: Sequence[TableResult]) -> list[Any]:
    """What results say, but for what differs between two runs of the same."""
    found = []
    for each in results:
        error: Any = each.error
        if error is not None and not isinstance(error, HudiError):
            error = type(error)
        elif error is not None:
            error = (type(error), error.message, error.context)
        write = None if each.result.last is None else each.result.last.write
        counts = None if write is None else (write.inserted, write.updated, write.deleted)
        found.append((each.result.checkpoint, each.result.items, each.result.failed, counts, error))
    return found


def check_tables(folder: Path, names: Sequence[str]) -> dict[str, list[Any]]:
    """The ids in each table, which is the same on Spark and without it; None for one that is not there."""
    ids = {}
    for name in names:
        are_there = [(folder / place / name / ".hoodie").exists() for place in PLACES]
        assert are_there[0] == are_there[1], name
        if are_there[0]:
            (columns, rows), (local_columns, local_rows) = (stored(folder / place / name) for place in PLACES)
            assert (sorted(map(str, columns)), rows) == (sorted(map(str, local_columns)), local_rows)
            ids[name] = [row["id"] for row in rows]
    return ids


def test_tables_of_a_topic_are_those_of_a_run_without_spark_in_each_round(
    spark: Any, broker: Broker, tmp_path: Path
) -> None:
    before = kept_by(spark)
    topic = broker.new_topic(partitions=2)
    kinds = {"a": "a", "bc": "b,c", "none": "none", "rest": REST}
    tables = {name: {"options": {VALUES: values, FIELD: "of.kind", OFFSETS: "true"}} for name, values in kinds.items()}
    tables["bc"]["transformer_class"] = "SqlQueryBasedTransformer"  # type: ignore[assignment]
    tables["bc"]["options"]["hoodie.streamer.transformer.sql"] = "SELECT *, id * 2 AS twice FROM <SRC>"
    given = {"broker": broker, "topic": topic, "source_limit": 9}
    kind_of = {number: {"kind": "abcd"[number % 4]} for number in range(20)}
    broker.send(topic, [{"id": number, "ts": 1, "of": kind_of[number], "x": number} for number in range(10)])
    broker.send(topic, [{"id": 1, "ts": 2, "of": {"kind": "a"}}, None, {"id": 50, "ts": 1}, b"[]"], partition=1)
    for _ in range(2):
        on_spark, local = both(spark, tmp_path, tables, **given)
        assert said(on_spark) == said(local)
    assert [type(found.error) for found in local] == [type(None)] * 3 + [SourceError]
    assert check_tables(tmp_path, list(kinds)) == {"a": [0, 1, 4, 8], "bc": [1, 2, 5, 6, 9]}
    tables["rest"]["options"] |= {
        "hoodie.errortable.enable": "true",
        "hoodie.errortable.base.path": str(tmp_path / "errors"),
    }
    broker.send(topic, [{"id": 5, "ts": 3, "of": {"kind": "c"}}, {"id": 7, "ts": 3, "of": {"kind": "none"}, "new": 1}])
    for _ in range(2):
        on_spark, local = both(spark, tmp_path, tables, **given)
        assert said(on_spark) == said(local)
    assert not [found.error for found in local if found.error is not None]
    ids = check_tables(tmp_path, list(kinds))
    assert ids == {"a": [0, 1, 4, 8], "bc": [1, 2, 5, 6, 9], "none": [7], "rest": [3, 7, 50]}
    errors = pyhudi.HudiTable.for_path(tmp_path / "errors").scan(["target", "position"]).to_arrow().to_pylist()
    assert sorted(row["position"] for row in errors) == ["1:3", "1:3"]
    assert kept_by(spark) <= before


@pytest.mark.parametrize("kind", ["postgresql", "maxwell"])
def test_changes_of_two_tables_in_one_topic_give_the_tables_of_the_database(
    spark: Any, broker: Broker, tmp_path: Path, kind: str
) -> None:
    space = "public" if kind == "postgresql" else "shop"
    databases = [Database(kind, seed=3, table="orders"), Database(kind, seed=4, table="items")]
    topic, order = broker.new_topic(), random.Random(7)
    own = MAXWELL if kind == "maxwell" else {}
    tables = {found.table: {"options": {VALUES: f"{space}.{found.table}", **own}} for found in databases}
    given = {"broker": broker, "topic": topic, "source_class": CLASSES[kind], "source_ordering_fields": None}
    for _ in range(2):
        sent: list[Any] = []
        for _ in range(20):
            database = order.choice(databases)
            database.change()
            while database.messages:
                sent += database.messages.pop(0)
        broker.send(topic, [None if message is None else json.dumps(message).encode() for message in sent])
        for _ in range(2):  # a delete at the end is in the next batch
            on_spark, local = both(spark, tmp_path, tables, **given)
            assert said(on_spark) == said(local)
    for database in databases:
        (_, rows), (_, local_rows) = (stored(tmp_path / place / database.table) for place in PLACES)
        found = [{name: row[name] for name in ("id", "city", "big")} for row in rows]
        assert rows == local_rows
        assert found == [database.rows[key] for key in sorted(database.rows)] != []


def test_message_that_says_no_table_stops_tables_as_without_spark(spark: Any, broker: Broker, tmp_path: Path) -> None:
    topic = broker.new_topic()
    broker.send(topic, [*({"id": n, "ts": 1, "kind": "a"} for n in range(4)), b"{poison", {"id": 9, "kind": "b"}, b"{"])
    tables = {name: {"options": {VALUES: name, FIELD: "kind"}} for name in ("a", "b")}
    on_spark, local = both(spark, tmp_path, tables, broker=broker, topic=topic)
    assert said(on_spark) == said(local)
    context = {"topic": topic, "partition": 0, "offset": 4, "field": "kind"}
    assert [found.error.context for found in on_spark] == [context, context]  # type: ignore[union-attr]
    assert not list(tmp_path.rglob(".hoodie"))


def test_table_that_fails_is_behind_and_takes_its_messages_by_their_keys_later(
    spark: Any, broker: Broker, tmp_path: Path
) -> None:
    def fails(_: Any) -> Any:
        raise ValueError("not now")

    topic = broker.new_topic()
    for number in range(8):
        broker.send(topic, [{"id": number, "ts": 1}], key="ab"[number % 2])
    given = {"broker": broker, "topic": topic, "source_limit": 3}
    good = {name: {"options": {VALUES: name}} for name in "ab"}
    bad = {**good, "b": {**good["b"], "transformer_class": fails}}
    for _ in range(2):
        on_spark, local = both(spark, tmp_path, bad, **given)
        assert said(on_spark) == said(local)
        assert [type(found.error) for found in on_spark] == [type(None), ValueError]
    assert check_tables(tmp_path, ["a", "b"]) == {"a": [0, 2, 4]}
    for _ in range(3):
        on_spark, local = both(spark, tmp_path, good, **given)
        assert said(on_spark) == said(local)
    assert check_tables(tmp_path, ["a", "b"]) == {"a": [0, 2, 4, 6], "b": [1, 3, 5, 7]}


def test_one_table_of_a_topic_alone_goes_on_where_a_run_without_spark_stopped(
    spark: Any, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = kept_by(spark)
    topic = broker.new_topic()
    conf = {
        "bootstrap.servers": broker.servers,
        TOPIC: topic,
        "hoodie.datasource.write.recordkey.field": "id",
        VALUES: "a",
        FIELD: "kind",
    }
    given: dict[str, Any] = {"source_class": "JsonKafkaSource", "source_ordering_fields": "ts", "hoodie_conf": conf}
    broker.send(topic, [{"id": 1, "ts": 1, "kind": "a"}])
    assert run(tmp_path / "t", **given).rows == 1
    broker.send(topic, [{"id": 2, "ts": 1, "kind": "a"}, {"id": 3, "ts": 1, "kind": "b"}])
    done = run(tmp_path / "t", spark=spark, **given)
    assert (done.rows, done.items, done.checkpoint) == (1, 1, f"{topic},0:3")
    broker.send(topic, [{"id": 4, "ts": 1, "kind": "b"}])
    assert run(tmp_path / "t", spark=spark, **given).batches == 0
    monkeypatch.setattr(routed, "COMMIT_SECONDS", 0.0)
    done = run(tmp_path / "t", spark=spark, **given)
    assert (done.batches, done.rows, done.checkpoint) == (1, 0, f"{topic},0:4")
    assert kept_by(spark) <= before


def test_block_of_the_page_ingests_a_topic_into_many_tables_on_spark(
    spark: Any, broker: Broker, tmp_path: Path
) -> None:
    topic = broker.new_topic(name="clicks")
    broker.send(topic, [{"id": number, "ts": 1, "kind": ["view", "buy"][number % 2]} for number in range(3)])
    (block,) = (block for block in blocks(ROOT / "docs" / "ingestion.md") if 'topic": "clicks"' in block.code)
    here = type(block)(block.code.replace("localhost:9092", broker.servers), block.note)
    run_block(here, {"pyhudi": pyhudi, "spark": spark}, folder=tmp_path)
    found = {name: [row["id"] for row in stored(tmp_path / name)[1]] for name in ("views", "other_clicks")}
    assert found == {"views": [0, 2], "other_clicks": [1]}


def test_messages_that_are_gone_when_they_are_read_again_are_lost_data() -> None:
    part = RoutedPart(topic_source(), "id", 0, 5, 9, number=0, count=2, kept_bytes=10)
    with pytest.raises(SourceDataLostError, match="while they were being read") as raised:
        part.with_rows(MESSAGES.empty_table()).fetched()
    assert raised.value.context == {"topic": "t", "partition": 0, "begin": 5, "end": 9}


class _Divide:
    """Gives each of some takers a row of each part, and writes down which parts it was given."""

    def __init__(self, log: Path) -> None:
        self.log = log

    def __call__(self, part: int) -> Iterator[tuple[int, pa.Table]]:
        with self.log.open("a") as file:
            file.write(f"{part}\n")
        if part == 9:
            raise SourceDataLostError("gone", topic="t")
        for taker in range(3):
            yield taker, pa.table({"text": [f"{taker}:{part}"] * (taker * 1000)})


class _Task:
    """A task that is given rows."""

    def __init__(self, number: int, rows: pa.Table | None = None) -> None:
        self.number = number
        self.rows = rows

    def with_rows(self, rows: pa.Table) -> _Task:
        return _Task(self.number, rows)


def _texts(task: _Task) -> tuple[int, list[str], int]:
    assert task.rows is not None
    return task.number, task.rows["text"].unique().to_pylist(), task.rows.num_rows


def test_kept_rows_are_made_once_for_all_takers_and_again_when_they_are_released(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyhudi.spark.kept.BLOCK_BYTES", 500)
    log = tmp_path / "log"
    kept = kept_rows(spark, [0, 1, 2], np.array([0, 0, 1]), _Divide(log), "keep rows")
    assert {taker: {part: piece.rows for part, piece in found.items()} for taker, found in kept.counts.items()} == {
        taker: dict.fromkeys(range(3), taker * 1000) for taker in (1, 2)
    }
    for taker in (1, 2):
        told = kept.told(taker, [_Task(number) for number in range(3)], _texts)
        assert told == [(part, [f"{taker}:{part}"], taker * 1000) for part in range(3)]
    assert sorted(log.read_text().split()) == ["0", "1", "2"]
    with pytest.raises(SourceDataLostError, match="not all there"):
        kept.told(1, [_Task(7)], _texts)
    kept.release()
    assert len(kept.told(1, [_Task(number) for number in range(3)], _texts)) == 3
    assert len(log.read_text().split()) > 3


def test_error_of_a_part_that_is_kept_is_raised_and_nothing_is_kept(spark: Any, tmp_path: Path) -> None:
    before = kept_by(spark)
    with pytest.raises(SourceDataLostError, match="gone"):
        kept_rows(spark, [0, 9], np.array([0, 1]), _Divide(tmp_path / "log"), "keep rows")
    assert kept_by(spark) <= before
