"""One topic for many tables, with a real broker."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from tests.support.kafka import Broker

import pyhudi
from pyhudi.errors import ConfigError, SourceError, UnsupportedFeatureError
from pyhudi.streamer import StreamerConfig, TableResult, run, run_many
from pyhudi.streamer.checkpoints import BEGIN, Checkpoint
from pyhudi.streamer.sources import kafka, routed
from pyhudi.streamer.sources.decoding import Messages
from pyhudi.streamer.sources.routed import REST, Range, Ranges, Route, Topic

pytestmark = [pytest.mark.xdist_group("kafka"), pytest.mark.timeout(300)]
VALUES, FIELD = "hoodie.streamer.source.kafka.route.values", "hoodie.streamer.source.kafka.route.field"


def table(broker: Broker, path: Path, topic: str, options: dict[str, str], **given: Any) -> StreamerConfig:
    """A table of a topic; `op` is INSERT, by which a message that is read twice is there twice."""
    conf = {
        "bootstrap.servers": broker.servers,
        "hoodie.streamer.source.kafka.topic": topic,
        "hoodie.datasource.write.recordkey.field": "id",
        **options,
    }
    return StreamerConfig(path, "JsonKafkaSource", hoodie_conf=conf, **{"op": "INSERT", **given})


def by_kind(broker: Broker, folder: Path, topic: str, *values: str, **given: Any) -> list[StreamerConfig]:
    """A table for each of these values, or several with commas between them, of the field `kind`."""
    return [
        table(broker, folder / value.replace(REST, "rest"), topic, {VALUES: value, FIELD: "kind"}, **given)
        for value in values
    ]


def ids(path: Path) -> list[int]:
    return sorted(pyhudi.HudiTable.for_path(path).scan(["id"]).to_arrow()["id"].to_pylist())


def errors(results: tuple[TableResult, ...]) -> list[Exception]:
    return [found.error for found in results if found.error is not None]


def offsets(route: Route, messages: pa.Table) -> list[int]:
    """Where those of the messages are that are for a table."""
    topic = cast("Topic", None)  # the values are in the messages
    some = Range(topic="t", topic_id=None, messages=route.with_values(messages, topic), reached=BEGIN, behind=0)
    found: list[int] = route.chosen(some)["offset"].to_pylist()
    return found


def test_each_table_takes_its_messages_once_and_the_topic_is_read_once_for_all(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    reads: list[Any] = []

    def counted(client: Any, topic: str, begin: Any, end: Any, **given: Any) -> Messages:
        reads.append((begin, end))
        return read(client, topic, begin, end, **given)

    read = kafka.read_messages
    monkeypatch.setattr(kafka, "read_messages", counted)
    topic = broker.new_topic(partitions=2)
    tables = by_kind(broker, tmp_path, topic, "a", "b,c", "none", REST)
    broker.send(topic, [{"id": 1, "kind": "a", "of_a": 1.5}, {"id": 2, "kind": "b"}, {"id": 3, "kind": "d"}])
    broker.send(topic, [{"id": 4, "kind": "c"}, {"id": 5}, None], partition=1)
    assert not errors(run_many(tables))
    assert len(reads) == 1
    assert [ids(tmp_path / name) for name in ("a", "b,c", "rest")] == [[1], [2, 4], [3, 5]]
    assert not (tmp_path / "none").exists()
    broker.send(topic, [{"id": 6, "kind": "a", "of_a": 2.5}, {"id": 7, "kind": "none"}])
    for _ in range(2):
        assert not errors(run_many(tables))
    assert [ids(tmp_path / name) for name in ("a", "b,c", "none", "rest")] == [[1, 6], [2, 4], [7], [3, 5]]
    columns = {name: pyhudi.HudiTable.for_path(tmp_path / name).schema.names for name in ("a", "rest")}
    assert columns == {"a": ["id", "kind", "of_a"], "rest": ["id", "kind"]}


def test_messages_are_told_apart_by_their_keys_where_no_field_is_named(broker: Broker, tmp_path: Path):
    topic = broker.new_topic()
    broker.send(topic, [{"id": 1}], key="a")
    broker.send(topic, [{"id": 2}], key="b")
    broker.send(topic, [{"id": 3}])
    tables = [table(broker, tmp_path / name, topic, {VALUES: value}) for name, value in {"a": "a", "r": REST}.items()]
    assert not errors(run_many(tables))
    assert (ids(tmp_path / "a"), ids(tmp_path / "r")) == ([1], [2, 3])


def test_table_that_fails_takes_its_messages_later_and_holds_up_no_other(broker: Broker, tmp_path: Path):
    def fails(_: pa.Table) -> pa.Table:
        raise ValueError("not now")

    topic = broker.new_topic()
    good = by_kind(broker, tmp_path, topic, "a", "b", source_limit=2)
    bad = by_kind(broker, tmp_path, topic, "b", source_limit=2, transformer_class=fails)
    broker.send(topic, [{"id": number, "kind": "ab"[number % 2]} for number in range(6)])
    for _ in range(3):
        assert [str(error) for error in errors(run_many([good[0], *bad]))] == ["not now"]
    assert ids(tmp_path / "a") == [0, 2, 4]
    assert not (tmp_path / "b").exists()
    for _ in range(3):
        assert not errors(run_many(good))
    assert (ids(tmp_path / "a"), ids(tmp_path / "b")) == ([0, 2, 4], [1, 3, 5])


def test_continuous_run_goes_on_behind_messages_of_other_tables(broker: Broker, tmp_path: Path):
    topic = broker.new_topic()
    broker.send(topic, [{"id": 0, "kind": "b"}, *({"id": number, "kind": "a"} for number in range(1, 8))])

    sent: list[bool] = []

    def ends(results: Any) -> bool:
        if not sent and [found.result.rows for found in results] == [7, 1]:
            broker.send(topic, [{"id": 8, "kind": "b"}])
            sent.append(True)
        return sum(found.result.rows for found in results) >= 9

    results = run_many(
        by_kind(broker, tmp_path, topic, "a", "b", source_limit=3), continuous=True, post_write_termination=ends
    )
    assert not errors(results)
    assert (ids(tmp_path / "a"), ids(tmp_path / "b")) == (list(range(1, 8)), [0, 8])
    assert results[1].result.batches == 2  # the messages of the other table made no commits in this one


def test_message_that_says_no_table_stops_tables_without_one_for_the_rest(broker: Broker, tmp_path: Path):
    topic = broker.new_topic()
    broker.send(topic, [{"id": 1, "kind": "a"}, b"{poison", {"id": 2, "kind": "b"}])
    found = errors(run_many(by_kind(broker, tmp_path, topic, "a", "b")))
    assert [type(error) for error in found] == [SourceError, SourceError]
    assert found[0].context == {"topic": topic, "partition": 0, "offset": 1, "field": "kind"}  # type: ignore[attr-defined]
    assert list(tmp_path.iterdir()) == []


def test_commit_keeps_how_far_a_topic_has_nothing_for_a_table_after_an_hour(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    topic = broker.new_topic()
    broker.send(topic, [{"id": 1, "kind": "a"}])
    (given,) = run_many(by_kind(broker, tmp_path, topic, "a"))
    assert given.result.checkpoint == f"{topic},0:1"
    broker.send(topic, [{"id": 2, "kind": "b"}])
    (given,) = run_many(by_kind(broker, tmp_path, topic, "a"))
    assert given.result.batches == 0
    monkeypatch.setattr(routed, "COMMIT_SECONDS", 0.0)
    (given,) = run_many(by_kind(broker, tmp_path, topic, "a"))
    assert (given.result.batches, given.result.rows, given.result.checkpoint) == (1, 0, f"{topic},0:2")
    assert ids(tmp_path / "a") == [1]


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({VALUES: "a,,b"}, ConfigError),
        ({VALUES: f"a,{REST}"}, ConfigError),
        ({FIELD: "kind"}, ConfigError),
        ({VALUES: "a", "auto.offset.reset": "latest"}, UnsupportedFeatureError),
    ],
    ids=["empty value", "rest and a value", "field alone", "latest"],
)
def test_wrong_options_of_a_topic_for_many_tables_are_refused(
    tmp_path: Path, options: dict[str, str], error: type[Exception]
):
    with pytest.raises(error):
        run_many([table(Broker("x:1"), tmp_path, "t", options)])


def test_field_of_avro_is_refused_as_it_cannot_tell_messages_apart(tmp_path: Path):
    conf = {
        "bootstrap.servers": "x:1",
        "hoodie.streamer.source.kafka.topic": "t",
        "hoodie.streamer.schemaprovider.registry.url": "http://x/",
        "hoodie.datasource.write.recordkey.field": "id",
        VALUES: "a",
        FIELD: "kind",
    }
    with pytest.raises(UnsupportedFeatureError):
        run(tmp_path, source_class="AvroKafkaSource", hoodie_conf=conf)


@pytest.mark.parametrize(
    ("values", "chosen"),
    [
        (['{"x": {"kind": "7"}}', '{"x": {"kind": "8"}}'], [0]),
        (['{"x": {"kind": 7}}', '{"x": {"kind": 8}}'], [0]),
        (['{"x": {"kind": 7}}', '{"x": {"kind": "7"}}', '{"x": {"kind": [7]}}', "{"], [0, 1]),
        (['{"x": {"kind": "7", "other": [1]}}', '{"x": null}', "{}"], [0]),
        (['{"x": {"kind": "2026-01-01"}}', '{"x": {"kind": "7"}}{"x": {"kind": "7"}}'], []),
    ],
    ids=["texts", "numbers", "both and others", "without a value", "two objects in a message"],
)
def test_values_of_a_nested_field_are_found_in_messages_of_any_form(values: list[str], chosen: list[int]):
    count = len(values)
    messages = pa.table(
        {"partition": [0] * count, "offset": list(range(count)), "value": [value.encode() for value in values]}
    )
    ours = Route(values=frozenset({"7"}), field="x.kind", others=frozenset({REST}))
    assert offsets(ours, messages) == chosen
    rest = Route(values=frozenset({REST}), field="x.kind", others=frozenset({"7"}))
    assert sorted([*offsets(rest, messages), *chosen]) == list(range(count))


def test_key_that_is_no_text_is_for_the_table_of_the_rest():
    messages = pa.table({"partition": [0, 0], "offset": [0, 1], "value": [b"{}", b"{}"], "key": [b"a", b"\xff"]})
    assert offsets(Route(values=frozenset({REST}), others=frozenset({"a"})), messages) == [1]


def test_json_of_an_own_message_that_cannot_be_read_names_its_place(broker: Broker, tmp_path: Path):
    topic = broker.new_topic()
    broker.send(topic, [{"id": 1}], key="a")
    broker.send(topic, [b"{"], key="b")
    broker.send(topic, [json.dumps([1]).encode()], key="a")
    (given,) = run_many([table(broker, tmp_path / "a", topic, {VALUES: "a"})])
    assert isinstance(given.error, SourceError)
    assert given.error.context == {"topic": topic, "partition": 0, "offset": 2}


def test_range_that_was_read_is_not_taken_for_that_of_another_topic_of_the_name():
    ranges, read = Ranges(), list[str]()

    def read_range(name: str) -> Range:
        read.append(name)
        return Range(topic="t", topic_id=name, messages=pa.table({}), reached=BEGIN, behind=0)

    for name in ("old", "new", "old"):
        some = ranges.after(Checkpoint(text="t,0:3", state=name), None, partial(read_range, name), user=1)
        assert isinstance(some, Range)
        assert some.topic_id == name
    assert read == ["old", "new"]
