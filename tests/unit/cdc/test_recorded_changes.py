"""The table that is made of what Debezium really sent equals the table of the database."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from tests.support.change_data import MARKER, decoded, in_windows
from tests.support.recorded_changes import as_text, lines

import pyhudi
from pyhudi.cdc import flatten, table_options

COLUMNS = ["id", "city", "amount", "big", "seen", "day", "note"]
TYPES = pa.schema([("amount", pa.decimal128(10, 2)), ("seen", pa.timestamp("us")), ("day", pa.date32())])


@pytest.mark.parametrize(("size", "seed"), [(40, 1), (10_000, 2)])
def test_table_of_recorded_changes_of_postgresql_equals_the_source(tmp_path: Path, size: int, seed: int):
    messages = [line["value"] for line in lines("postgres.jsonl.xz") if line["value"] is not None]
    moved = [message for message in messages if message["op"] == "c" and message["after"].get("big") == MARKER]
    assert len(moved) > 5  # rows whose key changed, and whose large value was not sent
    options = {
        "hoodie.table.name": "orders",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.table.type": "MERGE_ON_READ",
        "hoodie.write.set.null.for.missing.columns": "true",
        **table_options("postgresql"),
    }
    path = tmp_path / "orders"

    def stored(keys: pa.Table) -> pa.Table:
        return pyhudi.HudiTable.for_path(path).scan(where=[("id", "in", keys["id"].to_pylist())]).to_arrow()

    for window in in_windows(messages, size, seed):
        pyhudi.save(flatten(decoded(window), keys=["id"], schema=TYPES, stored=stored), path, hudi_options=options)
    rows = pyhudi.HudiTable.for_path(path).scan(COLUMNS).to_arrow().sort_by("id").to_pylist()
    assert as_text(rows) == lines("postgres.final.jsonl.xz")


@pytest.mark.parametrize(("size", "seed"), [(40, 1), (10_000, 2)])
def test_table_of_recorded_changes_of_mariadb_equals_the_source(tmp_path: Path, size: int, seed: int):
    messages = [line["value"] for line in lines("mariadb.jsonl.xz") if line["value"] is not None]
    assert {message["source"]["connector"] for message in messages} == {"mariadb"}
    options = {
        "hoodie.table.name": "orders",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.table.type": "MERGE_ON_READ",
        "hoodie.write.set.null.for.missing.columns": "true",
        **table_options("mariadb"),
    }
    types = TYPES.set(TYPES.get_field_index("seen"), pa.field("seen", pa.timestamp("ms")))
    path = tmp_path / "orders"
    for window in in_windows(messages, size, seed):
        pyhudi.save(flatten(decoded(window), keys=["id"], schema=types), path, hudi_options=options)
    rows = pyhudi.HudiTable.for_path(path).scan(COLUMNS).to_arrow().sort_by("id").to_pylist()
    assert as_text(rows) == lines("mariadb.final.jsonl.xz")
