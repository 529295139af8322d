"""Messages of Debezium and Maxwell as rows."""

from __future__ import annotations

import base64
import datetime
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from tests.support.change_data import MARKER, decoded

from pyhudi.cdc import flatten, table_options
from pyhudi.errors import InvalidRequestError, SchemaMismatchError, UnsupportedFeatureError


def postgres(op: str, lsn: int | None = 1, *, before: Any = None, after: Any = None, **source: Any) -> dict[str, Any]:
    place = {"connector": "postgresql", "name": "src", "db": "shop", "schema": "public", "table": "orders"}
    return {
        "op": op,
        "before": before,
        "after": after,
        "source": {**place, "lsn": lsn, "ts_ms": 5, **source},
        "ts_ms": 6,
    }


def mysql(op: str, file: str, pos: int, row: int = 0, *, before: Any = None, after: Any = None) -> dict[str, Any]:
    place = {"connector": "mysql", "name": "src", "db": "shop", "table": "orders", "file": file, "pos": pos, "row": row}
    return {"op": op, "before": before, "after": after, "source": place, "ts_ms": 6}


def maxwell(kind: str, position: str | None, data: Any, **more: Any) -> dict[str, Any]:
    return {"database": "shop", "table": "orders", "type": kind, "ts": 5, "position": position, "data": data, **more}


def rows(*messages: dict[str, Any] | None, **arguments: Any) -> list[dict[str, Any]]:
    return flatten(decoded(messages), **{"keys": ["id"], **arguments}).to_pylist()


def test_rows_are_what_is_after_a_change_and_before_a_delete():
    found = rows(
        postgres("r", 5, after={"id": 1, "city": "oslo"}),
        postgres("d", 9, before={"id": 2, "city": None}),
        None,
        postgres("c", 12, after={"id": 3, "city": "rome"}, txId=4),
    )
    assert [(row["id"], row["city"], row["_change_operation_type"], row["_event_lsn"]) for row in found] == [
        (1, "oslo", "r", 5),
        (2, None, "d", 9),
        (3, "rome", "c", 12),
    ]
    assert found[2] == {
        "id": 3,
        "city": "rome",
        "_change_operation_type": "c",
        "_upstream_event_processed_ts_ms": 6,
        "db_shard_source_partition": "src",
        "_event_origin_ts_ms": 5,
        "_event_tx_id": 4,
        "_event_lsn": 12,
        "_event_xmin": None,
    }


def test_snapshot_without_a_place_is_older_than_every_change():
    assert rows(postgres("r", None, after={"id": 1}))[0]["_event_lsn"] == 0
    with pytest.raises(InvalidRequestError, match="_event_lsn would be null"):
        rows(postgres("c", 3, after={"id": 1}), postgres("u", None, after={"id": 1}))


def test_column_that_comes_later_is_null_before():
    found = rows(postgres("c", 1, after={"id": 1}), postgres("c", 2, after={"id": 2, "note": "x"}))
    assert [row["note"] for row in found] == [None, "x"]


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        (("bin.000012", 99, 0), ("bin.000012", 100, 0)),
        (("bin.999999", 5, 0), ("bin.1000000", 4, 0)),
        (("bin.000012", 99, 3), ("bin.000012", 99, 12)),
        (("", 0, 0), ("bin.000001", 4, 0)),
    ],
)
def test_places_in_a_binlog_are_ordered_as_numbers(earlier: tuple[str, int, int], later: tuple[str, int, int]):
    fields = table_options("mysql")["hoodie.table.ordering.fields"].split(",")
    first, second = rows(mysql("r", *earlier, after={"id": 1}), mysql("u", *later, after={"id": 1}))
    assert [first[name] for name in fields] < [second[name] for name in fields]


def test_position_below_zero_is_refused_as_it_orders_nothing():
    with pytest.raises(InvalidRequestError, match="below 0") as raised:
        rows(mysql("c", "bin.000012", 99, after={"id": 1}), mysql("u", "bin.000012", -4558, after={"id": 1}))
    assert raised.value.context["row"] == 1


def test_binlog_columns_have_the_names_and_texts_of_jvm_hudi():
    (row,) = rows(mysql("c", "bin.000012", 99, 3, after={"id": 1}))
    wanted = {"_event_bin_file": "bin.000012", "_event_pos": 99, "_event_row": 3, "_event_seq": "000012.99"}
    assert {name: row[name] for name in wanted} == wanted


def test_row_that_moved_gets_the_large_value_of_its_old_key():
    found = rows(
        postgres("c", 1, after={"id": 1, "big": "large"}),
        postgres("u", 2, after={"id": 1, "big": MARKER}),
        postgres("d", 3, before={"id": 1}),
        postgres("c", 3, after={"id": 2, "big": MARKER}),
        postgres("d", 4, before={"id": 2}),
        postgres("c", 4, after={"id": 3, "big": MARKER}),
    )
    assert [row["big"] for row in found] == ["large", MARKER, None, "large", None, "large"]


def test_row_that_moved_gets_the_value_of_its_stored_row():
    asked = []

    def stored(keys: pa.Table) -> pa.Table:
        asked.append(keys.to_pylist())
        return pa.table({"id": pa.array([9, 1], pa.int32()), "big": ["other", "large"]})

    messages = [postgres("d", 3, before={"id": 1}), postgres("c", 3, after={"id": 2, "big": MARKER})]
    assert rows(*messages, stored=stored)[1]["big"] == "large"
    assert asked == [[{"id": 1}]]


def test_row_that_moved_without_a_stored_row_is_refused():
    messages = [postgres("d", 3, before={"id": 1}), postgres("c", 3, after={"id": 2, "big": MARKER})]
    with pytest.raises(InvalidRequestError, match="replica identity"):
        rows(*messages)
    with pytest.raises(InvalidRequestError, match="neither sent nor stored"):
        rows(messages[1], stored=lambda keys: keys.slice(0, 0))


def table_with(*stored: tuple[int, str, int]) -> Callable[[pa.Table], pa.Table]:
    """The stored rows with some ids, of these: the id, the large value, and the place in the log."""
    names = ["id", "big", "_event_lsn"]
    found = [dict(zip(names, row, strict=True)) for row in stored]
    schema = pa.schema([("id", pa.int64()), ("big", pa.string()), ("_event_lsn", pa.int64())])
    return lambda keys: pa.Table.from_pylist([row for row in found if row["id"] in keys["id"].to_pylist()], schema)


@pytest.mark.parametrize(
    "stored",
    [
        pytest.param([(2, "large", 3)], id="the old key is gone"),
        pytest.param([(2, "large", 3), (1, "of a later insert", 7)], id="the old key has come back"),
        pytest.param([(2, "large", 9), (1, "of a later insert", 7)], id="the row has changed since"),
    ],
)
def test_row_that_moved_and_is_sent_again_gets_the_value_that_it_has(stored: list[tuple[int, str, int]]):
    messages = [postgres("d", 3, before={"id": 1}), postgres("c", 3, after={"id": 2, "big": MARKER})]
    assert rows(*messages, stored=table_with(*stored))[1]["big"] == "large"


def test_row_that_moved_and_is_sent_again_does_not_get_the_value_of_a_later_insert():
    messages = [postgres("d", 3, before={"id": 1}), postgres("c", 3, after={"id": 2, "big": MARKER})]
    with pytest.raises(InvalidRequestError, match="neither sent nor stored"):
        rows(*messages, stored=table_with((1, "of a later insert", 7), (2, "of another row", 2)))


@pytest.mark.parametrize("later", [{"op": "d", "before": {"id": 2}}, {"op": "u", "after": {"id": 2, "big": "sent"}}])
def test_row_that_moved_needs_no_value_where_the_batch_says_what_became_of_it(later: dict[str, Any]):
    messages = [postgres("d", 3, before={"id": 1}), postgres("c", 3, after={"id": 2, "big": MARKER})]
    found = rows(*messages, postgres(lsn=4, **later), stored=table_with())
    assert [row["big"] for row in found[1:]] == [MARKER, None if later["op"] == "d" else "sent"]


def test_marker_of_bytes_is_that_of_text_and_one_in_a_list_is_refused():
    in_base64 = base64.b64encode(MARKER.encode()).decode()
    assert rows(postgres("u", after={"id": 1, "big": in_base64}))[0]["big"] == MARKER
    with pytest.raises(UnsupportedFeatureError, match="replica identity"):
        rows(postgres("u", after={"id": 1, "tags": [MARKER]}))


def base64_of(number: int, size: int) -> str:
    return base64.b64encode(number.to_bytes(size, "big", signed=True)).decode()


def test_values_get_the_types_of_the_schema():
    schema = pa.schema(
        [
            ("amount", pa.decimal128(10, 2)),
            ("day", pa.date32()),
            ("at", pa.timestamp("us")),
            ("zoned", pa.timestamp("us", "UTC")),
            ("raw", pa.binary()),
        ]
    )
    after = {
        "id": 1,
        "amount": base64_of(-150, 2),
        "day": 20_000,
        "at": 1_700_000_000_000_001,
        "zoned": "2026-11-22T09:00:00.5Z",
        "raw": base64.b64encode(b"\x00\xff").decode(),
    }
    (row,) = rows(postgres("c", after=after), schema=schema)
    assert row["amount"] == Decimal("-1.50")
    assert row["day"] == datetime.date(2024, 10, 4)
    assert row["at"] == datetime.datetime(2023, 11, 14, 22, 13, 20, 1)
    assert row["zoned"] == datetime.datetime(2026, 11, 22, 9, 0, 0, 500_000, datetime.UTC)
    assert row["raw"] == b"\x00\xff"


@pytest.mark.parametrize("size", range(1, 17))
def test_decimals_of_every_size_are_read_exactly(size: int):
    limit = min(2 ** (8 * size - 1) - 1, 10**38 - 1)
    numbers = [limit, -limit, 0, 1, -1, limit // 3]
    messages = [postgres("c", n, after={"id": n, "amount": base64_of(value, size)}) for n, value in enumerate(numbers)]
    messages.append(postgres("c", 99, after={"id": 99, "amount": None}))
    found = rows(*messages, schema=pa.schema([("amount", pa.decimal128(38, 0))]))
    assert [row["amount"] for row in found] == [*map(Decimal, numbers), None]


@pytest.mark.parametrize("text", ["A", "AAA", "A=AA", "AA*=", "====", "1.50"])
def test_text_that_is_no_base64_is_refused(text: str):
    with pytest.raises(SchemaMismatchError, match="'amount'"):
        rows(postgres("c", after={"id": 1, "amount": text}), schema=pa.schema([("amount", pa.decimal128(10, 2))]))


def test_decimals_as_text_are_read_where_debezium_sends_them_so():
    schema = pa.schema([("amount", pa.decimal128(10, 2))])
    assert rows(postgres("c", after={"id": 1, "amount": "2000"}), schema=schema, decimals="string")[0][
        "amount"
    ] == Decimal(2000)


def test_maxwell_rows_are_ordered_by_position_and_place_in_the_transaction():
    found = rows(
        maxwell("bootstrap-start", "bin.000003:4", {}),
        maxwell("bootstrap-insert", None, {"id": 1}),
        maxwell("insert", "bin.000003:99", {"id": 2}, xoffset=0),
        maxwell("delete", "bin.000003:99", {"id": 2}, commit=True),
        maxwell("table-alter", "bin.000003:120", None),
    )
    assert [row["_change_operation_type"] for row in found] == ["r", "c", "d"]
    places = [(row["_event_bin_number"], row["_event_pos"], row["_event_row"]) for row in found]
    assert places == [(0, 0, 0), (3, 99, 0), (3, 99, 2**31 - 1)]


def test_change_of_a_key_in_maxwell_deletes_the_old_key():
    found = rows(
        maxwell("update", "bin.000003:4", {"id": 2, "city": "oslo"}, old={"id": 1}),
        maxwell("update", "bin.000003:9", {"id": 2, "city": "rome"}, old={"city": "oslo"}),
    )
    assert [(row["id"], row["_change_operation_type"]) for row in found] == [(1, "d"), (2, "u"), (2, "u")]


@pytest.mark.parametrize(
    ("messages", "why"),
    [
        ([maxwell("insert", None, {"id": 1})], "output_binlog_position"),
        ([postgres("d")], "replica identity"),
        ([postgres("x", after={"id": 1})], "unknown"),
        ([postgres("c", after={"key": 1})], "record keys"),
        ([postgres("c", after={"id": 1, "_event_lsn": 3})], "names that say where"),
        ([{"id": 1}], "no messages of Debezium"),
        ([postgres("c", after={"id": 1}), {"id": 2}], "does not say in 'op' what changed"),
        ([maxwell("insert", "b.1:4", {"id": 1}), {"data": {"id": 2}}], "does not say in 'type' what changed"),
    ],
)
def test_messages_that_are_no_changes_are_refused(messages: list[dict[str, Any]], why: str):
    with pytest.raises(InvalidRequestError, match=why):
        rows(*messages)


@pytest.mark.parametrize(
    ("messages", "why"),
    [
        ([postgres("t")], "truncated"),
        ([postgres("c", after={"id": 1}, connector="mongodb")], "not read"),
        ([{"schema": {"type": "struct"}, "payload": {"op": "c"}}], "schemas.enable"),
        ([{**maxwell("insert", "b.1:4", {"id": 1}), "table": name} for name in ("a", "b")], "several tables"),
        ([postgres("c", after={"id": 1}, table=name) for name in ("a", "b")], "several tables"),
    ],
)
def test_messages_that_are_not_read_are_refused_by_name(messages: list[dict[str, Any]], why: str):
    with pytest.raises(UnsupportedFeatureError, match=why):
        rows(*messages)


def test_messages_of_a_program_in_the_log_are_no_rows():
    assert rows(postgres("m"), postgres("c", after={"id": 1}))[0]["id"] == 1


def test_polars_and_readers_are_read_like_arrow():
    table = decoded([postgres("c", after={"id": 1})])
    assert flatten(table.to_reader(), keys=["id"]).num_rows == 1


@pytest.mark.parametrize("arguments", [{"keys": []}, {"decimals": "exact"}])
def test_wrong_arguments_are_refused(arguments: dict[str, Any]):
    with pytest.raises(InvalidRequestError):
        rows(postgres("c", after={"id": 1}), **arguments)
    with pytest.raises(InvalidRequestError):
        table_options("oracle")
