"""What becomes of stored rows that the logs of their slice change, by the rules of tables of every version."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pyhudi.config.table_config import TableConfig
from pyhudi.format.schema.meta_columns import with_meta_columns
from pyhudi.io.log.records import LogVersions, version_schema
from pyhudi.io.slices.files import SliceFiles
from pyhudi.io.slices.merged import MergedRows, MergeSettings, merge_base
from pyhudi.merge.control_columns import BY_COMMIT_TIME, DELETED
from pyhudi.merge.table_rules import TableRules, table_rules_of
from pyhudi.storage.memory import MemoryStorage

PAYLOADS = "org.apache.hudi.common.model."
PARTIAL_UPDATE = f"{PAYLOADS}PartialUpdateAvroPayload"
NON_DEFAULTS = f"{PAYLOADS}OverwriteNonDefaultsWithLatestAvroPayload"
DMS = f"{PAYLOADS}AWSDmsAvroPayload"
DEBEZIUM = f"{PAYLOADS}debezium.PostgresDebeziumAvroPayload"
EVENT_TIME = f"{PAYLOADS}DefaultHoodieRecordPayload"
LATEST = f"{PAYLOADS}OverwriteWithLatestAvroPayload"
KEPT = "__debezium_unavailable_value"

Row = tuple[str, int | None, str | None]
"""The instant of its write, its ordering value, its text."""


def rules_of(version: int, payload: str, ordering: str = "ts") -> TableRules:
    properties = {
        "hoodie.table.name": "t",
        "hoodie.table.version": str(version),
        "hoodie.table.precombine.field": ordering,
        "hoodie.compaction.payload.class": payload,
    }
    if version == 8:
        mode = {EVENT_TIME: "EVENT_TIME_ORDERING", LATEST: "COMMIT_TIME_ORDERING"}.get(payload, "CUSTOM")
        properties["hoodie.record.merge.mode"] = mode
        if mode == "CUSTOM":
            properties["hoodie.record.merge.strategy.id"] = "00000000-0000-0000-0000-000000000000"
    return table_rules_of(TableConfig.from_properties(properties, path="hoodie.properties"))


def merged(rules: TableRules, stored: list[Row], *logs: Row, ordering: str = "ts") -> list[MergedRows]:
    """The pieces of a slice with one record, `k`, whose stored row is there or not."""
    schema = with_meta_columns(pa.schema([(ordering, pa.int32()), ("text", pa.string())]))
    storage = MemoryStorage()
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist([_values(row, ordering) for row in stored], schema), sink)
    storage.put("base", sink.getvalue().to_pybytes())
    control = [{DELETED: row[2] == "D", BY_COMMIT_TIME: row[2] == "D" and row[1] is None} for row in logs]
    versions = [{**_values(row, ordering), **more} for row, more in zip(logs, control, strict=True)]
    found = LogVersions(rows=pa.Table.from_pylist(versions, version_schema(schema)))
    settings = MergeSettings(schema=schema, rules=rules)
    names = ["_hoodie_commit_time", ordering, "text"]
    return list(merge_base(storage, SliceFiles("base", ()), found, settings, settings.needed_for(names), names))


def _values(row: Row, ordering: str) -> dict[str, Any]:
    instant, value, text = row
    return {"_hoodie_record_key": "k", "_hoodie_commit_time": instant, ordering: value, "text": text}


def rows(pieces: list[MergedRows]) -> list[Row]:
    found = [
        one for piece in pieces for part in (piece.stored, piece.updated, piece.inserted) for one in part.to_pylist()
    ]
    return [tuple(row.values()) for row in found]


def outcome(version: int, payload: str, *versions: Row) -> list[Row]:
    """The record whose first version is stored."""
    ordering = "_event_lsn" if payload == DEBEZIUM else "ts"
    stored, *logs = versions
    return rows(merged(rules_of(version, payload, ordering), [stored], *logs, ordering=ordering))


BASE = ("1", 10, "base")


@pytest.mark.parametrize("version", [6, 8])
def test_late_partial_update_gives_its_write_and_fills_what_the_stored_row_lacks(version: int):
    assert outcome(version, PARTIAL_UPDATE, ("1", 10, None), ("2", 5, "late")) == [("2", 10, "late")]
    assert outcome(version, PARTIAL_UPDATE, BASE, ("2", 5, "late")) == [("2", 10, "base")]


def test_late_partial_update_in_version_9_leaves_the_write_of_the_stored_row():
    rules = table_rules_of(
        TableConfig.from_properties(
            {
                "hoodie.table.name": "t",
                "hoodie.table.version": "9",
                "hoodie.table.ordering.fields": "ts",
                "hoodie.record.merge.mode": "EVENT_TIME_ORDERING",
                "hoodie.table.partial.update.mode": "IGNORE_DEFAULTS",
            },
            path="hoodie.properties",
        )
    )
    assert rows(merged(rules, [("1", 10, None)], ("2", 5, "late"))) == [("1", 10, "late")]
    assert rows(merged(rules, [BASE], ("2", 20, "second"), ("3", 30, None), ("4", 25, "late"))) == [("3", 30, "second")]


def test_row_with_the_write_of_its_late_change_counts_as_updated():
    (first,) = merged(rules_of(8, PARTIAL_UPDATE), [BASE], ("2", 5, "late"))
    assert (first.stored.num_rows, first.updated.num_rows, first.deleted) == (0, 1, 0)


@pytest.mark.parametrize("payload", [PARTIAL_UPDATE, NON_DEFAULTS, DMS, DEBEZIUM, EVENT_TIME])
def test_lower_delete_leaves_the_stored_row_as_it_is_in_version_8(payload: str):
    assert outcome(8, payload, BASE, ("2", 5, "D")) == [BASE]


@pytest.mark.parametrize("payload", [PARTIAL_UPDATE, NON_DEFAULTS, DMS, DEBEZIUM, EVENT_TIME, LATEST])
def test_lower_delete_deletes_the_stored_row_in_version_6(payload: str):
    assert outcome(6, payload, BASE, ("2", 5, "D")) == []


def test_deleted_stored_rows_are_counted_and_others_not():
    assert sum(piece.deleted for piece in merged(rules_of(6, DMS), [BASE], ("2", 5, "D"))) == 1
    assert sum(piece.deleted for piece in merged(rules_of(8, DMS), [BASE], ("2", 5, "D"))) == 0


@pytest.mark.parametrize("payload", [PARTIAL_UPDATE, NON_DEFAULTS, DMS, DEBEZIUM, EVENT_TIME, LATEST])
@pytest.mark.parametrize("version", [6, 8])
def test_delete_without_an_ordering_value_deletes_the_stored_row(version: int, payload: str):
    assert outcome(version, payload, BASE, ("2", None, "D")) == []


@pytest.mark.parametrize("payload", [NON_DEFAULTS, DMS])
def test_rows_of_version_8_go_by_time_of_arrival_and_deletes_by_ordering_values(payload: str):
    assert outcome(8, payload, BASE, ("2", 5, "later")) == [("2", 5, "later")]
    assert outcome(8, payload, BASE, ("2", 20, "row"), ("3", 15, "D"), ("4", 5, "last")) == [("4", 5, "last")]
    assert outcome(8, payload, BASE, ("2", 25, "D"), ("3", 15, "lower than the delete")) == []


@pytest.mark.parametrize("payload", [NON_DEFAULTS, DMS, DEBEZIUM, LATEST, EVENT_TIME])
def test_rows_in_logs_of_version_6_go_by_ordering_values_as_whole_rows(payload: str):
    assert outcome(6, payload, ("1", 1, "base"), ("2", 20, "second"), ("3", 15, "late")) == [("2", 20, "second")]


def test_values_that_a_payload_of_version_6_fills_are_those_of_the_stored_row():
    assert outcome(6, NON_DEFAULTS, BASE, ("2", 20, "second"), ("3", 30, None)) == [("3", 30, "base")]
    assert outcome(8, NON_DEFAULTS, BASE, ("2", 20, "second"), ("3", 30, None)) == [("3", 30, "second")]
    assert outcome(6, DEBEZIUM, BASE, ("2", 20, "second"), ("3", 30, KEPT)) == [("3", 30, "base")]
    assert outcome(8, DEBEZIUM, BASE, ("2", 20, "second"), ("3", 30, KEPT)) == [("3", 30, "second")]


def test_payload_of_version_6_fills_from_the_stored_row_also_without_ordering():
    rules = rules_of(6, NON_DEFAULTS, ordering="")
    assert rows(merged(rules, [BASE], ("2", 20, "second"), ("3", 15, None))) == [("3", 15, "base")]


@pytest.mark.parametrize("version", [6, 8])
def test_late_row_of_debezium_fills_nothing(version: int):
    assert outcome(version, DEBEZIUM, ("1", 10, KEPT), ("2", 5, "late")) == [("1", 10, KEPT)]
    assert outcome(version, DEBEZIUM, ("1", 1, "base"), ("2", 10, KEPT), ("3", 5, "late")) == [("2", 10, "base")]


def test_rows_written_again_after_a_delete_meet_the_stored_row_as_if_there_had_been_none():
    versions = BASE, ("2", None, "D"), ("3", 5, "again")
    assert outcome(6, LATEST, *versions) == [("3", 5, "again")]
    assert outcome(6, EVENT_TIME, *versions) == [BASE]
    assert outcome(8, EVENT_TIME, *versions) == [BASE]


@pytest.mark.parametrize(("version", "expected"), [(6, ("2", -5, "new")), (8, ("1", None, "base"))])
def test_missing_ordering_value_counts_as_zero_since_version_8(version: int, expected: Row):
    assert outcome(version, EVENT_TIME, ("1", None, "base"), ("2", -5, "new")) == [expected]
