"""Messages as the pages of Debezium and Maxwell show them, in their words: rows, or an error that names the message.

https://debezium.io/documentation/reference/stable/connectors/postgresql.html, https://maxwells-daemon.io/dataformat
"""

from __future__ import annotations

import base64
import json
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from tests.support.change_data import decoded

from pyhudi.cdc import flatten
from pyhudi.errors import HudiError, InvalidRequestError, SchemaMismatchError, UnsupportedFeatureError

MARKER = "__debezium_unavailable_value"
CREATE = """
{"before": null, "after": {"id": 1, "first_name": "Anne", "last_name": "Kretchmar", "email": "annek@noanswer.org"},
"source": {"version": "3.3.0.Final", "connector": "postgresql", "name": "PostgreSQL_server", "ts_ms": 1559033904863,
"ts_us": 1559033904863123, "ts_ns": 1559033904863123000, "snapshot": "true", "db": "postgres",
"sequence": "[\\"24023119\\",\\"24023128\\"]", "schema": "public", "table": "customers", "txId": 555, "lsn": 24023128,
"xmin": null}, "transaction": {"id": "555:24023128", "total_order": 1, "data_collection_order": 1}, "op": "c",
"ts_ms": 1559033904863, "ts_us": 1559033904863841, "ts_ns": 1559033904863841257}"""
UPDATE = """
{"op": "u", "ts_ms": 1465584025523, "source": {"lsn": 24023130, "txId": 556, "table": "customers", "schema": "public",
"db": "postgres", "snapshot": "false", "ts_ms": 1559033904864, "name": "PostgreSQL_server", "connector": "postgresql",
"version": "3.3.0.Final"}, "after": {"id": 1, "first_name": "Anne Marie", "last_name": "Kretchmar",
"email": "annek@noanswer.org"}}"""
DELETE = """{"before": {"id": 1}, "after": null, "source": {"version": "3.3.0.Final", "connector": "postgresql",
"name": "PostgreSQL_server", "ts_ms": 1559033904865, "snapshot": "false", "db": "postgres", "schema": "public",
"table": "customers", "txId": 557, "lsn": 46523128, "xmin": null}, "op": "d", "ts_ms": 1465581902461}"""
MESSAGE = """
{"source": {"version": "3.3.0.Final", "connector": "postgresql", "name": "PostgreSQL_server", "ts_ms": 1559033904863,
"snapshot": "false", "db": "postgres", "schema": "", "table": "", "lsn": 46523128, "xmin": null}, "op": "m",
"ts_ms": 1559033904961, "message": {"prefix": "foo", "content": "Ymfy"}}"""
TRUNCATE = """
{"source": {"version": "3.3.0.Final", "connector": "postgresql", "name": "PostgreSQL_server", "ts_ms": 1559033904863,
"snapshot": "false", "db": "postgres", "schema": "public", "table": "customers", "txId": 556, "lsn": 46523128,
"xmin": null}, "op": "t", "ts_ms": 1559033904961}"""
HEARTBEAT = '{"ts_ms": 1559033904961}'
TRANSACTION = """{"status": "END", "id": "571:53195832", "ts_ms": 1486500577691, "event_count": 2, "data_collections":
[{"data_collection": "s1.a", "event_count": 1}, {"data_collection": "s2.a", "event_count": 1}]}"""
OF_MYSQL = """{"op": "c", "ts_ms": 1465491411815, "before": null, "after": {"id": 1004, "first_name": "Anne"}, "source":
{"version": "3.3.0.Final", "connector": "mysql", "name": "mysql-server-1", "ts_ms": 0, "snapshot": "false",
"db": "inventory", "table": "customers", "server_id": 0, "file": "mysql-bin.000003", "pos": 154, "row": 0}}"""
SCHEMA_CHANGE = """{"source": {"version": "3.3.0.Final", "connector": "mysql", "name": "mysql", "ts_ms": 1651535750218,
"snapshot": "false", "db": "inventory", "sequence": null, "table": "customers", "server_id": 223344, "gtid": null,
"file": "mysql-bin.000003", "pos": 570, "row": 0, "thread": null, "query": null}, "ts_ms": 1651535750219,
"databaseName": "inventory", "schemaName": null, "ddl": "ALTER TABLE customers ADD middle_name varchar(255)",
"tableChanges": [{"type": "ALTER", "id": "inventory.customers", "table": {"primaryKeyColumnNames": ["id"]}}]}"""
INSERT_OF_MAXWELL = """
{"database": "test", "table": "e", "type": "insert", "ts": 1477053217, "xid": 23396, "commit": true,
"position": "master.000006:800911", "server_id": 23042, "thread_id": 108, "primary_key": [1],
"primary_key_columns": ["id"], "data": {"id": 1, "m": 4.2341, "c": "2016-10-21 05:33:37.523000",
"comment": "I am a creature of light."}}"""
UPDATE_OF_MAXWELL = """
{"database": "test", "table": "e", "type": "update", "ts": 1477053234, "xid": 23397, "xoffset": 0,
"position": "master.000006:801142", "data": {"id": 1, "m": 5.444, "c": "2016-10-21 05:33:54.631000",
"comment": "I am a creature of light."}, "old": {"m": 4.2341, "c": "2016-10-21 05:33:37.523000"}}"""
DELETE_OF_MAXWELL = """
{"database": "test", "table": "e", "type": "delete", "ts": 1477053240, "xid": 23400, "commit": true,
"position": "master.000006:801397", "data": {"id": 1, "m": 5.444, "c": "2016-10-21 05:33:54.631000",
"comment": "I am a creature of light."}}"""
ALTER_OF_MAXWELL = """
{"type": "table-alter", "database": "test", "table": "e", "old": {"database": "test", "charset": "utf8mb4",
"table": "e", "columns": [{"type": "int", "name": "id", "signed": true}], "primary-key": ["id"]}, "def": {"database":
"test", "charset": "utf8mb4", "table": "e", "columns": [{"type": "int", "name": "id", "signed": true}, {"type":
"timestamp", "name": "c", "column-length": 6}], "primary-key": ["id"]}, "ts": 1477053308000,
"sql": "alter table test.e add column torvalds bigint unsigned after m", "position": "master.000006:804398"}"""
DATABASE_OF_MAXWELL = """{"type": "database-create", "database": "test", "charset": "utf8mb4", "ts": 1477053126000,
"sql": "create database test", "position": "master.000006:800001"}"""
BOOTSTRAP = [
    '{"database": "foo", "table": "bar", "type": "bootstrap-start", "ts": 1450557744, "data": {}}',
    """{"database": "foo", "table": "bar", "type": "bootstrap-insert", "ts": 1450557744,
    "data": {"id": 1, "txt": "hello"}}""",
    '{"database": "foo", "table": "bar", "type": "bootstrap-complete", "ts": 1450557744, "data": {}}',
]


def rows(*messages: str, **given: Any) -> list[dict[str, Any]]:
    return flatten(decoded([json.loads(message) for message in messages]), keys=["id"], **given).to_pylist()


def value(sent: Any, wanted: pa.DataType | None = None, **given: Any) -> Any:
    """What becomes of the value of a column that a message of PostgreSQL has."""
    message = json.loads(UPDATE)
    message["after"]["v"] = sent
    schema = None if wanted is None else pa.schema([("v", wanted)])
    return rows(json.dumps(message), schema=schema, **given)[0]["v"]


@pytest.mark.parametrize(
    ("messages", "wanted"),
    [
        ((CREATE, UPDATE, DELETE), [(1, "c", 24023128), (1, "u", 24023130), (1, "d", 46523128)]),
        ((MESSAGE, CREATE), [(1, "c", 24023128)]),
        ((MESSAGE,), []),
    ],
)
def test_documented_messages_of_postgresql_are_rows(messages: tuple[str, ...], wanted: list[tuple[Any, ...]]):
    found = rows(*messages)
    assert [(row["id"], row["_change_operation_type"], row["_event_lsn"]) for row in found] == wanted


def test_documented_message_of_mysql_without_a_gtid_is_a_row():
    (row,) = rows(OF_MYSQL)
    assert (row["id"], row["_event_bin_number"], row["_event_pos"], row["_event_row"]) == (1004, 3, 154, 0)


@pytest.mark.parametrize(
    ("messages", "wanted"),
    [
        ((INSERT_OF_MAXWELL, UPDATE_OF_MAXWELL, DELETE_OF_MAXWELL), [(1, "c"), (1, "u"), (1, "d")]),
        ((DATABASE_OF_MAXWELL, INSERT_OF_MAXWELL, ALTER_OF_MAXWELL), [(1, "c")]),
        (tuple(BOOTSTRAP), [(1, "r")]),
        ((BOOTSTRAP[0],), []),
        ((ALTER_OF_MAXWELL,), []),
        ((DATABASE_OF_MAXWELL,), []),
    ],
)
def test_documented_messages_of_maxwell_are_rows(messages: tuple[str, ...], wanted: list[tuple[Any, ...]]):
    assert [(row["id"], row["_change_operation_type"]) for row in rows(*messages)] == wanted


@pytest.mark.parametrize(
    ("messages", "error", "why"),
    [
        ((TRUNCATE,), UnsupportedFeatureError, "truncated"),
        ((CREATE, HEARTBEAT), InvalidRequestError, "does not say in 'op'"),
        ((HEARTBEAT,), InvalidRequestError, "no messages of Debezium"),
        ((CREATE, TRANSACTION), InvalidRequestError, "does not say in 'op'"),
        ((SCHEMA_CHANGE,), InvalidRequestError, "no messages of Debezium"),
        (('{"schema": {"type": "struct"}, "payload": ' + CREATE + "}",), UnsupportedFeatureError, "schemas.enable"),
        ((INSERT_OF_MAXWELL.replace('"insert"', '"replace"'),), InvalidRequestError, "does not send"),
    ],
)
def test_documented_messages_that_are_no_rows_are_refused_by_name(
    messages: tuple[str, ...], error: type[HudiError], why: str
):
    with pytest.raises(error, match=why):
        rows(*messages)


@pytest.mark.parametrize(
    ("sent", "wanted", "expected"),
    [
        pytest.param(17702, pa.date32(), date(2018, 6, 20), id="Date"),
        pytest.param(54796945, pa.time32("ms"), time(15, 13, 16, 945000), id="Time"),
        pytest.param(54796945104, pa.time64("us"), time(15, 13, 16, 945104), id="MicroTime"),
        pytest.param("15:13:16.945104Z", pa.time64("us"), time(15, 13, 16, 945104), id="ZonedTime"),
        pytest.param("05:33:37", pa.time64("us"), time(5, 33, 37), id="time of Maxwell"),
        pytest.param(1529507596945, pa.timestamp("ms"), datetime(2018, 6, 20, 15, 13, 16, 945000), id="Timestamp"),
        pytest.param(1529507596945104, pa.timestamp("us"), datetime(2018, 6, 20, 15, 13, 16, 945104), id="Micro"),
        pytest.param("P1Y2M3DT4H5M6.78S", None, "P1Y2M3DT4H5M6.78S", id="Interval"),
        pytest.param("AJY=", pa.decimal128(10, 2), Decimal("1.50"), id="Decimal"),
        pytest.param({"scale": 3, "value": "BeI="}, pa.decimal128(10, 3), Decimal("1.506"), id="VariableScaleDecimal"),
        pytest.param({"scale": 0, "value": "/w=="}, pa.decimal128(10, 3), Decimal(-1), id="VariableScale without"),
        pytest.param(["AJY=", None], pa.list_(pa.decimal128(10, 2)), [Decimal("1.50"), None], id="array of Decimal"),
        pytest.param([17702], pa.list_(pa.date32()), [date(2018, 6, 20)], id="array of Date"),
        pytest.param("Bg==", pa.binary(), b"\x06", id="Bits"),
        pytest.param(["AP8="], pa.list_(pa.binary()), [b"\x00\xff"], id="array of bytes"),
        pytest.param(
            {"srid": 4326, "wkb": "AQE="},
            pa.struct([("wkb", pa.binary()), ("srid", pa.int32())]),
            {"wkb": b"\x01\x01", "srid": 4326},
            id="Geometry",
        ),
        pytest.param(4.2341, pa.decimal128(10, 4), Decimal("4.2341"), id="number of Maxwell"),
    ],
)
def test_documented_types_become_those_of_the_schema(sent: Any, wanted: pa.DataType | None, expected: Any):
    assert value(sent, wanted) == expected


@pytest.mark.parametrize(
    ("sent", "wanted"),
    [
        pytest.param(-1, pa.time64("us"), id="time below 0"),
        pytest.param(86_400_000_000, pa.time64("us"), id="time of a day"),
        pytest.param({"scale": 3, "value": "BeI="}, pa.decimal128(10, 2), id="decimal with more digits"),
        pytest.param(12345678901234.5678, pa.decimal128(20, 4), id="number with more digits than a double"),
        pytest.param(1.234, pa.decimal128(10, 2), id="number that would be rounded"),
        pytest.param("NAN", pa.decimal128(10, 2), id="NaN"),
        pytest.param("0000-00-00 00:00:00", pa.timestamp("us"), id="zero date of MySQL"),
        pytest.param({"x": 1.0, "y": 2.0}, pa.struct([("x", pa.float64())]), id="field that the type lacks"),
    ],
)
def test_values_that_the_schema_cannot_keep_are_refused(sent: Any, wanted: pa.DataType):
    with pytest.raises(SchemaMismatchError, match="column 'v'"):
        value(sent, wanted)


CODES = list(MARKER.encode())
DECIMALS = [base64.b64encode(bytes([code])).decode() for code in CODES]


@pytest.mark.parametrize(
    ("sent", "wanted"),
    [
        pytest.param([MARKER], None, id="text[]"),
        pytest.param(["X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="], pa.list_(pa.binary()), id="bytea[]"),
        pytest.param(["b68a35a7-17ad-35b3-af2a-ae46edb4545a"], None, id="uuid[]"),
        pytest.param(CODES, None, id="integer[]"),
        pytest.param([float(code) for code in CODES], None, id="float8[]"),
        pytest.param([True] * len(CODES), None, id="boolean[]"),
        pytest.param(CODES, pa.list_(pa.int16()), id="smallint[]"),
        pytest.param(DECIMALS, pa.list_(pa.decimal128(10, 2)), id="numeric(10, 2)[]"),
        pytest.param([{"scale": 0, "value": text} for text in DECIMALS], None, id="numeric[]"),
        pytest.param({MARKER: MARKER}, None, id="hstore"),
    ],
)
def test_markers_of_columns_that_are_no_text_are_refused(sent: Any, wanted: pa.DataType | None):
    with pytest.raises(UnsupportedFeatureError, match="only columns of text can keep their stored value"):
        value(sent, wanted)
