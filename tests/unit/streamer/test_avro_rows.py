"""Avro messages, each by its writer's schema, and the registry that has these."""

from __future__ import annotations

import http.server
import io
import json
import threading
from collections.abc import Iterator
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from pyhudi.errors import ConfigError, SchemaMismatchError, SourceError, UnsupportedFeatureError
from pyhudi.streamer.sources.apart import UnreadableError
from pyhudi.streamer.sources.avro_rows import rows_of_avro
from pyhudi.streamer.sources.schema_registry import SchemaRegistry

ID = {"name": "id", "type": "long"}
NOTE = {"name": "note", "type": ["null", "string"], "default": None}
SCHEMAS: dict[int, dict[str, Any]] = {
    1: {"type": "record", "name": "r", "fields": [ID]},
    2: {"type": "record", "name": "r", "fields": [NOTE, ID]},
    2**31: {"type": "record", "name": "r", "fields": [ID, {"name": "x", "type": "double"}]},
    5: {"type": "record", "name": "r", "fields": [{"name": "id", "type": {"type": "array", "items": "long"}}]},
}


def message(number: int, row: dict[str, Any]) -> bytes:
    body = io.BytesIO()
    fastavro.schemaless_writer(body, SCHEMAS[number], row)
    return b"\0" + number.to_bytes(4, "big") + body.getvalue()


def rows(*messages: bytes, wanted: pa.Schema | None = None, stored: pa.Schema | None = None) -> pa.Table:
    return rows_of_avro(pa.array(messages, pa.binary()), lambda number: json.dumps(SCHEMAS[number]), wanted, stored)


def test_messages_of_two_schemas_have_the_values_of_their_own():
    found = rows(
        message(1, {"id": 1}),
        message(2, {"id": 2, "note": "b"}),
        message(1, {"id": 3}),
        message(2**31, {"id": 4, "x": 0.5}),
    )
    assert found.to_pylist() == [
        {"id": 1, "note": None, "x": None},
        {"id": 2, "note": "b", "x": None},
        {"id": 3, "note": None, "x": None},
        {"id": 4, "note": None, "x": 0.5},
    ]


def test_column_that_the_table_lacks_may_be_null():
    stored = pa.schema([pa.field("id", pa.int64(), nullable=False)])
    found = rows(message(2**31, {"id": 4, "x": 0.5}), stored=stored).schema
    assert [field.nullable for field in found] == [False, True]


@hypothesis_settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from([1, 2]), st.integers(-(2**63), 2**63 - 1)), max_size=30))
def test_order_of_messages_is_kept(given_rows: list[tuple[int, int]]):
    found = rows(*(message(number, {"id": value, "note": None}) for number, value in given_rows))
    assert [row["id"] for row in found.to_pylist()] == [value for _, value in given_rows]


def test_slice_of_messages_is_read_from_its_own_begin():
    values = pa.array([message(1, {"id": number}) for number in range(9)], pa.binary()).slice(4, 3)
    found = rows_of_avro(values, lambda number: json.dumps(SCHEMAS[number]), None, None)
    assert found["id"].to_pylist() == [4, 5, 6]


def test_columns_that_are_wanted_are_those_of_the_rows():
    wanted = pa.schema([("note", pa.string()), ("late", pa.int64())])
    assert rows(message(2, {"id": 1, "note": "a"}), wanted=wanted).to_pylist() == [{"note": "a", "late": None}]


@pytest.mark.parametrize(
    ("bad", "reason"), [(b"\0\0\0", "too short"), (b"\1\0\0\0\1\2", "zero"), (b"\0\0\0\0\2\2\10ab", ".")]
)
def test_message_that_cannot_be_read_is_found_by_its_row(bad: bytes, reason: str):
    with pytest.raises(UnreadableError, match=reason) as raised:
        rows(message(1, {"id": 1}), message(2, {"id": 2, "note": "x"}), bad)
    assert raised.value.row == 2


def test_schemas_that_do_not_fit_together_are_refused():
    with pytest.raises(SchemaMismatchError):
        rows(message(1, {"id": 1}), message(5, {"id": [1]}))


class _Answers(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.server.asked.append((self.path, self.headers.get("Authorization")))  # type: ignore[attr-defined]
        answers = {
            "/ccompat/v7/schemas/ids/1": {"schema": json.dumps(SCHEMAS[1])},
            "/ccompat/v7/schemas/ids/3": {"schema": "message X {}", "schemaType": "PROTOBUF"},
        }
        found = answers.get(self.path)
        self.send_response(200 if found else 404)
        self.end_headers()
        self.wfile.write(json.dumps(found or {}).encode())

    def log_message(self, *_: Any) -> None:
        """Quiet."""


@pytest.fixture
def server() -> Iterator[Any]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Answers) as found:
        found.asked = []  # type: ignore[attr-defined]
        thread = threading.Thread(target=found.serve_forever)
        thread.start()
        yield found
        found.shutdown()
        thread.join()


def test_registry_is_asked_once_for_a_schema_whatever_version_its_url_names(server: Any):
    address = f"127.0.0.1:{server.server_port}"
    registry = SchemaRegistry.of(f"http://me:p%40ss@{address}/ccompat/v7/subjects/t-value/versions/latest")
    assert "p@ss" not in repr(registry)
    assert [json.loads(registry.schema(1)) for _ in range(3)] == [SCHEMAS[1]] * 3
    assert server.asked == [("/ccompat/v7/schemas/ids/1", "Basic bWU6cEBzcw==")]
    assert [registry.of_a_batch().schema(1) for _ in range(2)] == [registry.schema(1)] * 2
    assert len(server.asked) == 3


def test_schema_that_is_not_there_is_an_error_of_the_source(server: Any):
    registry = SchemaRegistry.of(f"http://127.0.0.1:{server.server_port}/ccompat/v7/")
    with pytest.raises(SourceError, match="404") as raised:
        registry.schema(2)
    assert raised.value.context["schema_id"] == 2
    with pytest.raises(UnsupportedFeatureError, match="only Avro"):
        registry.schema(3)


def test_registry_of_another_scheme_is_refused():
    with pytest.raises(ConfigError, match="http"):
        SchemaRegistry.of("file:///etc/passwd")
