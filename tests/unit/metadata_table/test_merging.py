"""Versions of a record of the metadata table become one."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyhudi.format.metadata_table.records import records_schema
from pyhudi.format.metadata_table.schema import COLUMN_STATS_COLUMN, FILES_COLUMN, SECONDARY_INDEX_COLUMN
from pyhudi.format.timeline.table_version import NEWEST
from pyhudi.metadata_table.merging import REMOVED, joined_records, merged_records

Version = tuple[str, Any]
"""A key, and a payload; None where a delete block removes the record."""


def versions_of(payload: str, versions: list[Version], kind: int) -> pa.Table:
    schema = records_schema(NEWEST, payload)
    columns = [
        pa.array([key for key, _ in versions], pa.string()),
        pa.array([kind] * len(versions), pa.int32()),
        pa.array([value for _, value in versions], schema.field(payload).type),
    ]
    removed = pa.array([value is None for _, value in versions], pa.bool_())
    return pa.table(columns, schema=schema).append_column(REMOVED, removed)


def merged(payload: str, base: list[Version], later: list[Version], kind: int) -> dict[str, Any]:
    """What the versions come to, whether they are in several logs or in one that was made of them."""
    first = versions_of(payload, base, kind).drop([REMOVED])
    found = merged_records(first, versions_of(payload, later, kind), payload)
    found.validate(full=True)
    rows = found.to_pylist()
    assert len({row["key"] for row in rows}) == len(rows)
    told = {row["key"]: row[payload] for row in rows}
    for cut in {0, len(later) // 2}:
        again = merged_records(
            first, versions_of(payload, joined(payload, later[:cut], later[cut:], kind), kind), payload
        )
        assert without_deleted(payload, {row["key"]: row[payload] for row in again.to_pylist()}) == without_deleted(
            payload, told
        )
    return told


def joined(payload: str, before: list[Version], later: list[Version], kind: int) -> list[Version]:
    """Versions of which the later ones were joined, as the log of a log compaction has them."""
    if not later:
        return before
    one = joined_records(versions_of(payload, later, kind), payload)
    one.records.validate(full=True)
    rows = one.records.to_pylist()
    return [*before, *((key, None) for key in one.cleared.to_pylist()), *((row["key"], row[payload]) for row in rows)]


def without_deleted(payload: str, told: dict[str, Any]) -> dict[str, Any]:
    if payload != FILES_COLUMN:
        return told
    return {key: {name: info for name, info in entries if not info["isDeleted"]} for key, entries in told.items()}


ENTRIES = st.dictionaries(st.sampled_from("abc"), st.tuples(st.integers(0, 9), st.booleans()), max_size=3)
VERSIONS = st.lists(
    st.tuples(st.sampled_from(["p", "\ue000", "\U00010000", ""]), st.one_of(st.none(), ENTRIES)), max_size=8
)


def as_map(entries: dict[str, tuple[int, bool]] | None) -> list[tuple[str, dict[str, Any]]] | None:
    if entries is None:
        return None
    return [(name, {"size": size, "isDeleted": deleted}) for name, (size, deleted) in entries.items()]


def by_the_rule(base: list[Version], later: list[Version]) -> dict[str, dict[str, int]]:
    """One version after the other: a deletion takes a file out, otherwise the larger size holds."""
    known: dict[str, dict[str, int]] = {}
    for key, entries in [*base, *later]:
        if entries is None:
            known.pop(key, None)
            continue
        files = known.setdefault(key, {})
        for name, (size, deleted) in entries.items():
            if deleted:
                files.pop(name, None)
            else:
                files[name] = max(size, files.get(name, 0))
    return known


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(st.sampled_from(["p", "\U00010000", "\uffff"]), ENTRIES, max_size=3), VERSIONS)
def test_files_are_merged_entry_by_entry(base: dict[str, Any], later: list[Version]) -> None:
    found = merged(
        FILES_COLUMN,
        [(key, as_map(entries)) for key, entries in base.items()],
        [(key, as_map(entries)) for key, entries in later],
        2,
    )
    plain = {
        key: {name: info["size"] for name, info in entries if not info["isDeleted"]} for key, entries in found.items()
    }
    assert plain == by_the_rule([*base.items()], later)


def test_later_version_wins_and_a_delete_block_removes() -> None:
    yes, no = {"isDeleted": True}, {"isDeleted": False}
    later = [("b", yes), ("c", None), ("d", no), ("d", None), ("e", None), ("e", no)]
    found = merged(SECONDARY_INDEX_COLUMN, [("a", no), ("b", no), ("c", no)], later, 7)
    assert found == {"a": no, "b": yes, "e": no}


def stats(low: Any, high: Any, *, tight: bool = False, deleted: bool = False, ordinal: int = 4) -> dict[str, Any]:
    return {
        "fileName": "f",
        "columnName": "c",
        "minValue": low,
        "maxValue": high,
        "valueCount": 2,
        "nullCount": 1,
        "totalSize": 10,
        "totalUncompressedSize": 20,
        "isDeleted": deleted,
        "isTightBound": tight,
        "valueType": {"typeOrdinal": ordinal, "additionalInfo": None},
    }


def long(value: int) -> dict[str, Any]:
    return {"LongWrapper": {"value": value}}


def bounds(found: dict[str, Any], key: str = "k") -> tuple[Any, Any]:
    def inner(union: dict[str, Any] | None) -> Any:
        return None if union is None else next(one["value"] for one in union.values() if one is not None)

    return inner(found[key]["minValue"]), inner(found[key]["maxValue"])


def test_statistics_that_are_not_tight_widen_each_other() -> None:
    later = [("k", stats(long(5), long(9))), ("x", stats(long(1), long(1))), ("k", stats(long(-3), long(2)))]
    found = merged(COLUMN_STATS_COLUMN, [("k", stats(long(4), long(6)))], later, 6)
    assert bounds(found) == (-3, 9)
    assert (found["k"]["valueCount"], found["k"]["nullCount"], found["k"]["totalSize"]) == (6, 3, 30)
    assert bounds(found, "x") == (1, 1)
    assert found["x"]["valueCount"] == 2


def test_tight_and_deleted_statistics_forget_those_before() -> None:
    wide, narrow = stats(long(0), long(100)), stats(long(4), long(6), tight=True)
    assert bounds(merged(COLUMN_STATS_COLUMN, [("k", wide)], [("k", narrow)], 6)) == (4, 6)
    assert bounds(merged(COLUMN_STATS_COLUMN, [("k", wide)], [("k", narrow), ("k", stats(long(1), long(5)))], 6)) == (
        1,
        6,
    )
    gone = stats(None, None, deleted=True)
    assert merged(COLUMN_STATS_COLUMN, [("k", wide)], [("k", gone)], 3)["k"]["isDeleted"]
    assert bounds(merged(COLUMN_STATS_COLUMN, [("k", wide)], [("k", gone), ("k", stats(long(1), long(2)))], 3)) == (
        1,
        2,
    )
    assert bounds(merged(COLUMN_STATS_COLUMN, [("k", wide)], [("k", None), ("k", stats(long(1), long(2)))], 3)) == (
        1,
        2,
    )


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ({"StringWrapper": {"value": "b"}}, {"StringWrapper": {"value": "a"}}, ("a", "b")),
        ({"DoubleWrapper": {"value": 1.5}}, {"DoubleWrapper": {"value": -2.0}}, (-2.0, 1.5)),
        ({"BooleanWrapper": {"value": True}}, {"BooleanWrapper": {"value": False}}, (False, True)),
        ({"IntWrapper": {"value": 7}}, {"LongWrapper": {"value": 1 << 40}}, (7, 1 << 40)),
        (None, {"IntWrapper": {"value": 7}}, (7, 7)),
        (None, None, (None, None)),
    ],
)
def test_statistics_of_every_kind_widen_each_other(one: Any, other: Any, expected: tuple[Any, Any]) -> None:
    found = merged(COLUMN_STATS_COLUMN, [("k", stats(one, one))], [("k", stats(other, other))], 6)
    assert bounds(found) == expected


def test_decimals_in_bytes_compare_as_numbers() -> None:
    minus, plus = {"BytesWrapper": {"value": b"\xff\x38"}}, {"BytesWrapper": {"value": b"\x05"}}
    found = merged(
        COLUMN_STATS_COLUMN, [("k", stats(minus, minus, ordinal=10))], [("k", stats(plus, plus, ordinal=10))], 6
    )
    assert bounds(found) == (b"\xff\x38", b"\x05")
