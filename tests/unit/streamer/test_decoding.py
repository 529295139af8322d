"""Messages that are decoded in threads while the next ones are read, without a broker."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyhudi.config.options_streamer import KafkaOptions
from pyhudi.errors import SourceDataLostError, SourceError
from pyhudi.streamer.checkpoints import Checkpoint
from pyhudi.streamer.schemas import group_of
from pyhudi.streamer.sources import decoding
from pyhudi.streamer.sources.decoding import DECODERS, Messages, decoded
from pyhudi.streamer.sources.json_rows import rows_of_json_piece
from pyhudi.streamer.sources.routed import Range
from pyhudi.streamer.sources.schema_registry import SchemaRegistry

pytest.importorskip("confluent_kafka")

from tests.support.message_parts import MessagesPart

from pyhudi.streamer.sources import kafka, kafka_client
from pyhudi.streamer.sources.kafka import AVRO, JSON, KafkaSource, kafka_source
from pyhudi.streamer.sources.kafka_client import MESSAGES, read_messages

PARTITION, BEGIN = 3, 100


def messages_of(values: Sequence[Any]) -> pa.Table:
    """Messages of one partition, whose offsets begin at `BEGIN`."""
    texts = [value if isinstance(value, bytes) else json.dumps(value).encode() for value in values]
    count = len(texts)
    columns = [[PARTITION] * count, list(range(BEGIN, BEGIN + count)), [5] * count, texts]
    return pa.table([pa.array(column, field.type) for column, field in zip(columns, MESSAGES, strict=True)], MESSAGES)


def one_by_one(values: Sequence[Any]) -> Messages:
    yield from messages_of(values).to_batches(max_chunksize=1)


def topic_source(kind: str, **options: str) -> KafkaSource:
    """A source whose broker is never asked, and which appends offsets."""
    given = {"hoodie.streamer.source.kafka.topic": "t", "hoodie.streamer.source.kafka.append.offsets": "true"}
    group = group_of(KafkaOptions, {**given, **options})
    return kafka_source(kind, group, "http://127.0.0.1:1", {"bootstrap.servers": "127.0.0.1:1"})


def rows_read(source: KafkaSource, values: Sequence[Any], piece_bytes: int, topic_id: str | None = None) -> pa.Table:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(decoding, "PIECE_BYTES", piece_bytes)
        return source.rows(topic_id, lambda: one_by_one(values), None, None)


def decoders() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("pyhudi decoder")]


@pytest.fixture
def of_one_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "PIECE_BYTES", 1)


@settings(deadline=None)
@given(sizes=st.lists(st.integers(0, 60), max_size=12), piece_bytes=st.integers(1, 300))
def test_pieces_are_all_messages_in_their_order_though_decoded_at_once(sizes: list[int], piece_bytes: int):
    values = [b"x" * size for size in sizes]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(decoding, "PIECE_BYTES", piece_bytes)
        found = decoded(one_by_one(values), lambda piece: piece["value"].to_pylist())
    assert [value for piece in found for value in piece] == values


@pytest.mark.usefixtures("of_one_message")
def test_tombstones_alone_make_no_piece():
    def read() -> Messages:
        for batch in one_by_one([{}] * 3):
            yield batch
            yield batch.slice(0, 0)

    assert decoded(read(), len) == [1, 1, 1]


@pytest.mark.usefixtures("of_one_message")
def test_messages_that_are_in_memory_are_those_of_a_piece_for_each_decoder_and_one_more():
    lock, left, most = threading.Lock(), [0], [0]

    def changed(by: int) -> None:
        with lock:
            left[0] += by
            most[0] = max(most[0], left[0])

    def read() -> Messages:
        for batch in one_by_one([{}] * 30):
            changed(1)
            yield batch

    def decode(_: pa.Table) -> None:
        time.sleep(0.005)
        changed(-1)

    decoded(read(), decode)
    assert most[0] == DECODERS + 2  # that which is read, and the first message behind it


@pytest.mark.usefixtures("of_one_message")
def test_piece_that_cannot_be_decoded_ends_reading_and_leaves_no_thread():
    read: list[str] = []

    def reading() -> Messages:
        try:
            for batch in one_by_one([{}] * 30):
                read.append("message")
                yield batch
        finally:
            read.append("closed")

    def decode(piece: pa.Table) -> None:
        if piece["offset"][0].as_py() == BEGIN + 2:
            raise ValueError("no row")

    with pytest.raises(ValueError, match="no row"):
        decoded(reading(), decode)
    assert read[-1] == "closed"
    assert read.count("message") <= 2 + DECODERS + 3
    assert decoders() == []


@pytest.mark.usefixtures("of_one_message")
def test_broker_that_fails_while_pieces_are_decoded_is_the_error_and_no_thread_is_left():
    def reading() -> Messages:
        yield from one_by_one([{}] * 3)
        raise SourceError("no broker", topic="t")

    with pytest.raises(SourceError, match="no broker"):
        decoded(reading(), lambda _: time.sleep(0.02))
    assert decoders() == []


@pytest.mark.usefixtures("of_one_message")
@pytest.mark.parametrize("count", range(2, DECODERS + 3))
def test_error_of_the_first_piece_comes_first_though_later_ones_fail_before(count: int):
    def decode(piece: pa.Table) -> None:
        offset = piece["offset"][0].as_py()
        time.sleep(0.03 if offset == BEGIN else 0)
        raise ValueError(offset)

    with pytest.raises(ValueError, match=f"^{BEGIN}$"):
        decoded(one_by_one([{}] * count), decode)


def test_messages_of_a_single_piece_are_decoded_by_the_caller():
    assert decoded(one_by_one([{}] * 30), lambda _: threading.current_thread()) == [threading.current_thread()]


VALUES: dict[str, Callable[[], st.SearchStrategy[Any]]] = {
    "n": lambda: st.integers(-(2**70), 2**70) | st.none(),
    "text": lambda: st.sampled_from(["", "2026-11-22", "ü", None]),
    "inner": lambda: st.fixed_dictionaries({}, optional={"x": st.integers(0, 9), "y": st.text(max_size=2)}),
    "list": lambda: st.lists(st.integers(0, 9), max_size=2),
}


@settings(max_examples=40, deadline=None)
@given(
    rows=st.lists(st.fixed_dictionaries({}, optional={name: of() for name, of in VALUES.items()}), min_size=1),
    piece_bytes=st.integers(1, 200),
)
def test_rows_of_pieces_are_those_of_all_messages_together(rows: list[dict[str, Any]], piece_bytes: int):
    def read(size: int) -> Any:
        try:
            found = rows_read(topic_source(JSON), rows, size)
        except SourceError as error:
            return error.message
        return found.to_pylist()

    assert read(piece_bytes) == read(1 << 20)


SCHEMAS = {
    1: '{"type": "record", "name": "r", "fields": [{"name": "id", "type": "int"}]}',
    2: '{"type": "record", "name": "r", "fields": [{"name": "id", "type": "long"}, {"name": "n", "type": "long"}]}',
}


@pytest.mark.parametrize("piece_bytes", [1, 1 << 20])
def test_avro_of_several_schemas_in_several_pieces_has_the_columns_of_all(
    piece_bytes: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(SchemaRegistry, "schema", lambda _, number: SCHEMAS[number])
    values = [b"\0\0\0\0\1\2", b"\0\0\0\0\2\4\10", b"\0\0\0\0\1\6"]
    found = rows_read(topic_source(AVRO), values, piece_bytes)
    assert found.schema.types[:2] == [pa.int64(), pa.int64()]
    assert [field.nullable for field in found.schema][:2] == [False, True]
    assert found.select(["id", "n"]).to_pylist() == [{"id": 1, "n": None}, {"id": 2, "n": 4}, {"id": 3, "n": None}]
    assert found["_hoodie_kafka_source_offset"].to_pylist() == [BEGIN, BEGIN + 1, BEGIN + 2]


@pytest.mark.parametrize("piece_bytes", [1, 40, 1 << 20])
@pytest.mark.parametrize(
    ("poison", "reason"),
    [(b"{bad", "it is not a JSON object"), (b"{,}", "it is not JSON: "), (b'{"id": \xff}', "it is not UTF-8")],
)
def test_message_that_cannot_be_read_is_named_by_its_offset_in_whatever_piece(
    piece_bytes: int, poison: bytes, reason: str
):
    values = [*({"id": number} for number in range(20)), poison, *({"id": number} for number in range(20))]
    with pytest.raises(SourceError, match=f"a message cannot be read: {reason}") as raised:
        rows_read(topic_source(JSON), values, piece_bytes)
    assert raised.value.context == {"topic": "t", "partition": PARTITION, "offset": BEGIN + 20}
    assert decoders() == []


def test_message_of_a_topic_made_anew_while_it_is_read_is_not_called_unreadable(monkeypatch: pytest.MonkeyPatch):
    def is_another(*_: Any) -> None:
        raise SourceDataLostError("the topic was deleted and made anew", topic="t")

    monkeypatch.setattr(kafka, "check_is_same", is_another)
    with pytest.raises(SourceDataLostError, match="made anew"):
        rows_read(topic_source(JSON), [{"id": 1}, b"{bad", {"id": 2}], 1, topic_id="first")


def test_messages_for_a_table_of_several_are_read_apart_from_the_unreadable_ones():
    messages = messages_of([{"id": 1}, b"{bad", {"id": 2}])
    messages = messages.append_column("value of the route", pa.array(["a"] * 3))
    reached = Checkpoint(text=f"t,{PARTITION}:{BEGIN + 3}")
    some = Range(topic="t", topic_id=None, messages=messages, reached=reached, behind=3)
    pull = topic_source(JSON).pull_of(some, messages)
    assert pull.read_apart is not None
    apart = pull.read_apart(None, None, fits=False)
    assert apart.rows["id"].to_pylist() == [1, 2]
    assert [origin.position for origin in apart.origins([1])] == [f"{PARTITION}:{BEGIN + 1}"]


@pytest.mark.usefixtures("of_one_message")
def test_task_of_an_engine_decodes_its_messages_by_itself(monkeypatch: pytest.MonkeyPatch):
    threads: list[threading.Thread] = []

    def decode(values: pa.BinaryArray, wanted: pa.Schema | None, stored: pa.Schema | None) -> pa.Table:
        threads.append(threading.current_thread())
        return rows_of_json_piece(values, wanted, stored)

    monkeypatch.setattr(kafka, "rows_of_json_piece", decode)
    part = MessagesPart(topic_source(JSON), None, PARTITION, BEGIN, BEGIN + 3, ({"id": 1}, {"id": 2}, {"id": 3}))
    rows = pa.Table.from_batches(part.batches(pa.schema([("id", pa.int64())]), None, None))
    assert rows["id"].to_pylist() == [1, 2, 3]
    assert threads == [threading.current_thread()]


class Message:
    """What the client gives, without its errors."""

    def __init__(self, offset: int) -> None:
        self._offset = offset

    def error(self) -> None:
        return None

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return self._offset

    def timestamp(self) -> tuple[int, int]:
        return 1, 5

    def value(self) -> bytes:
        return b'{"id": 1}'


class Client:
    """A consumer that has a message for each call."""

    closed = False

    def __init__(self, *_: Any, **__: Any) -> None:
        self._offsets: Iterator[int] = iter(range(1000))

    def assign(self, _: Any) -> None:
        pass

    def consume(self, _: int, timeout: float) -> list[Message]:
        del timeout
        return [Message(next(self._offsets))]

    def close(self) -> None:
        Client.closed = True


def test_consumer_is_closed_where_a_message_cannot_be_decoded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(kafka_client, "Consumer", Client)
    monkeypatch.setattr(Client, "closed", False)
    monkeypatch.setattr(decoding, "PIECE_BYTES", 1)

    def decode(_: pa.Table) -> None:
        raise ValueError("no row")

    with pytest.raises(ValueError, match="no row") as raised:
        decoded(read_messages({}, "t", {0: 0}, {0: 1000}), decode)
    assert Client.closed
    assert raised.value.__context__ is None
