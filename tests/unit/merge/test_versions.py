"""Merging versions, held against a plain loop over each record's versions, and the laws that it must keep."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyhudi.config.enums import PartialUpdateMode
from pyhudi.errors import InternalError, InvalidRequestError, SchemaMismatchError, UnsupportedFeatureError
from pyhudi.merge.control_columns import (
    BY_COMMIT_TIME,
    COLUMNS,
    CONTROL_COLUMNS,
    DELETED,
    FRESH,
    HIDES,
    declared_columns,
)
from pyhudi.merge.rules import MergeRules
from pyhudi.merge.versions import merge_pairs, merge_versions

KEY = "_hoodie_record_key"
COMMIT = "_hoodie_commit_time"
MARKER = "?"
SETS = (frozenset({KEY, COMMIT, "ts", "a"}), frozenset({KEY, COMMIT, "ts", "b"}))
SCHEMA = pa.schema(
    [
        (KEY, pa.string()),
        (COMMIT, pa.string()),
        ("ts", pa.int64()),
        ("a", pa.string()),
        ("b", pa.list_(pa.string())),
        (DELETED, pa.bool_()),
        (BY_COMMIT_TIME, pa.bool_()),
        (COLUMNS, pa.int32()),
    ]
)
COMMIT_TIME = MergeRules()
EVENT_TIME = MergeRules(ordering_fields=("ts",))
IGNORE = PartialUpdateMode.IGNORE_DEFAULTS
FILL = PartialUpdateMode.FILL_UNAVAILABLE
FOLDS = [
    MergeRules(ordering_fields=fields, partial_updates=mode, unavailable_value=MARKER)
    for fields in ((), ("ts",))
    for mode in PartialUpdateMode
]
BY_WRITE = [rules for rules in FOLDS if not rules.ordering_fields]


@dataclass(frozen=True)
class Version:
    key: str = "k"
    ts: int | None = None
    a: str | None = None
    b: list[str] | None = None
    deleted: bool = False
    by_commit_time: bool = False
    columns: int | None = None


def table(versions: Sequence[Version]) -> pa.Table:
    """The versions as rows, each with its place as commit time; unsaid columns are null, as readers leave them."""
    rows = []
    for number, version in enumerate(versions):
        says = None if version.columns is None else SETS[version.columns]
        rows.append(
            {
                KEY: version.key,
                COMMIT: f"{number:03d}",
                "ts": version.ts,
                "a": version.a if says is None or "a" in says else None,
                "b": version.b if says is None or "b" in says else None,
                DELETED: version.deleted,
                BY_COMMIT_TIME: version.by_commit_time,
                COLUMNS: version.columns,
            }
        )
    return pa.Table.from_pylist(rows, SCHEMA)


def merge(rules: MergeRules, *parts: pa.Table) -> pa.Table:
    versions = pa.concat_tables(parts, promote_options="permissive")
    return merge_versions(rules, versions, [KEY], column_sets=SETS)


def rows_of(merged: pa.Table) -> list[dict[str, Any]]:
    return merged.select([name for name in merged.schema.names if name != HIDES]).to_pylist()


def live(merged: pa.Table) -> list[dict[str, Any]]:
    """The data of the records that are there."""
    data = merged.filter(pc.invert(merged.column(DELETED)))
    return data.drop_columns([name for name in CONTROL_COLUMNS if name in data.schema.names]).to_pylist()


# --- the reference ---------------------------------------------------------------------------------------


def has_value(rules: MergeRules, value: Any) -> bool:
    if rules.partial_updates is IGNORE:
        return value is not None
    return rules.partial_updates is not FILL or value != MARKER


def is_barrier(rules: MergeRules, row: dict[str, Any]) -> bool:
    return row[DELETED] and (row[BY_COMMIT_TIME] or not rules.ordering_fields or row["ts"] is None)


def fold(rules: MergeRules, rows: list[dict[str, Any]]) -> dict[str, Any] | None:
    """One record from its versions, oldest first; None where it is deleted."""
    for place in reversed(range(len(rows))):
        if is_barrier(rules, rows[place]):
            rows = rows[place + 1 :]
            break
    if rules.ordering_fields:
        rows = sorted(rows, key=lambda row: (row["ts"] is not None, row["ts"] or 0))
    for place in reversed(range(len(rows))):
        if rows[place][DELETED]:
            rows = rows[place + 1 :]
            break
    if not rows:
        return None
    of_topmost = (KEY, COMMIT, *rules.ordering_fields)
    record = {name: rows[-1][name] for name in of_topmost}
    for name in ("ts", "a", "b"):
        if name in of_topmost:
            continue
        saying = [row for row in rows if row[COLUMNS] is None or name in SETS[row[COLUMNS]]]
        valued = [row for row in saying if has_value(rules, row[name])]
        record[name] = (valued or saying or rows)[-1][name]
    return record


def reference(rules: MergeRules, versions: pa.Table) -> list[dict[str, Any]]:
    rows = versions.to_pylist()
    keys = dict.fromkeys(row[KEY] for row in rows)
    folded = [fold(rules, [row for row in rows if row[KEY] == key]) for key in keys]
    return [record for record in folded if record is not None]


TEXT = st.sampled_from([None, "", "x", "y", MARKER])
VERSION = st.builds(
    Version,
    key=st.sampled_from("kl"),
    ts=st.one_of(st.none(), st.integers(-1, 3)),
    a=TEXT,
    b=st.one_of(st.none(), st.lists(TEXT, max_size=2)),
    deleted=st.sampled_from([False, False, True]),
    by_commit_time=st.booleans(),
    columns=st.sampled_from([None, None, 0, 1]),
)
VERSIONS = st.lists(VERSION, max_size=9)


@settings(max_examples=60, deadline=None)
@given(VERSIONS, st.sampled_from(FOLDS))
def test_merged_records_are_those_of_a_loop_over_each_record(versions, rules):
    rows = table(versions)
    assert live(merge(rules, rows)) == reference(rules, rows)


@settings(max_examples=30, deadline=None)
@given(VERSIONS, st.sampled_from(FOLDS))
def test_pairs_have_the_outcome_of_merging_both_sides_as_versions(versions, rules):
    stored = table([Version(key=key, ts=1, a="x", b=["s"]) for key in "lk"])
    changes = merge(rules, table(versions))
    at = pc.index_in(changes.column(KEY), value_set=pa.array(["l", "k"]))
    stored_rows, incoming = (rows.combine_chunks().to_batches() for rows in (stored.take(at), changes))
    if not incoming:
        return
    outcome = merge_pairs(rules, stored_rows[0], incoming[0], column_sets=SETS)

    expected = {row[KEY]: row for row in live(merge(rules, stored, changes))}
    before = {row[KEY]: row for row in live(stored)}
    keys = changes.column(KEY).to_pylist()
    stays = [key for key, is_so in zip(keys, outcome.stays, strict=True) if is_so]
    assert [key for key, is_gone in zip(keys, outcome.deleted, strict=True) if is_gone] == [
        key for key in keys if key not in expected
    ]
    assert [before[key] for key in stays] == [expected[key] for key in stays]
    assert outcome.rows.to_pylist() == [expected[key] for key in keys if key in expected and key not in stays]


# --- laws ------------------------------------------------------------------------------------------------


def parts_of(versions: Sequence[Version], cuts: tuple[int, int]) -> list[pa.Table]:
    rows = table(versions)
    first, second = sorted(min(cut, len(versions)) for cut in cuts)
    return [rows.slice(0, first), rows.slice(first, second - first), rows.slice(second)]


CUTS = st.tuples(st.integers(0, 9), st.integers(0, 9))


@settings(max_examples=30, deadline=None)
@given(VERSIONS, CUTS, st.sampled_from([EVENT_TIME, *BY_WRITE]))
def test_merging_in_steps_is_merging_at_once(versions, cuts, rules):
    if rules is EVENT_TIME:
        versions = [Version(v.key, v.ts, v.a, v.b, v.deleted, v.by_commit_time) for v in versions]
    a, b, c = parts_of(versions, cuts)
    at_once = rows_of(merge(rules, a, b, c))

    assert rows_of(merge(rules, merge(rules, a, b), c)) == at_once
    assert rows_of(merge(rules, a, merge(rules, b, c))) == at_once


@settings(max_examples=30, deadline=None)
@given(VERSIONS, CUTS, st.sampled_from(FOLDS))
def test_partial_updates_that_arrive_in_order_merge_in_steps_as_at_once(versions, cuts, rules):
    in_order = [Version(v.key, n, v.a, v.b, v.deleted, v.by_commit_time, v.columns) for n, v in enumerate(versions)]
    a, b, c = parts_of(in_order, cuts)
    at_once = live(merge(rules, a, b, c))

    assert live(merge(rules, merge(rules, a, b), c)) == at_once
    assert live(merge(rules, a, merge(rules, b, c))) == at_once


@settings(max_examples=30, deadline=None)
@given(st.lists(VERSION, max_size=7).flatmap(lambda versions: st.tuples(st.just(versions), st.permutations(versions))))
def test_by_event_time_the_order_of_arrival_is_no_matter(both):
    versions, _ = both
    numbered = {id(version): number for number, version in enumerate(versions)}
    plain = [[Version(v.key, numbered[id(v)], v.a, v.b, v.deleted, False, v.columns) for v in order] for order in both]
    for rules in FOLDS:
        if rules.ordering_fields:
            one, other = (
                sorted((row[KEY], row["ts"], row["a"], row["b"]) for row in live(merge(rules, table(order))))
                for order in plain
            )
            assert one == other


@settings(max_examples=30, deadline=None)
@given(VERSIONS, st.sampled_from(FOLDS))
def test_versions_that_come_twice_change_nothing(versions, rules):
    twice = [version for version in versions for _ in range(2)]
    once, doubled = (live(merge(rules, table(rows))) for rows in (versions, twice))

    assert [{**row, COMMIT: ""} for row in doubled] == [{**row, COMMIT: ""} for row in once]


# --- order and deletes -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("later", "lives"), [(6, False), (7, True), (8, True)])
def test_delete_with_an_ordering_value_gives_way_to_versions_not_below_it(later, lives):
    versions = [Version(ts=5), Version(ts=7, deleted=True), Version(ts=later)]
    assert len(live(merge(EVENT_TIME, table(versions)))) == lives


def test_delete_below_the_newest_version_changes_nothing():
    merged = merge(EVENT_TIME, table([Version(ts=5, a="x"), Version(ts=4, deleted=True)]))
    assert [row["a"] for row in live(merged)] == ["x"]


@pytest.mark.parametrize("delete", [Version(ts=9, deleted=True, by_commit_time=True), Version(deleted=True)])
def test_after_a_delete_without_an_ordering_value_any_version_lives(delete):
    merged = merge(EVENT_TIME, table([Version(ts=5, a="x"), delete, Version(ts=1, a="y")]))

    assert [(row["ts"], row["a"]) for row in live(merged)] == [(1, "y")]
    assert merged.column(FRESH).to_pylist() == [True]


def test_version_after_a_barrier_in_the_logs_replaces_a_stored_row_above_it():
    changes = merge(EVENT_TIME, table([Version(deleted=True), Version(ts=1, a="y")]))
    outcome = merge_pairs(EVENT_TIME, batch([Version(ts=5, a="x")]), changes.to_batches()[0])

    assert outcome.rows.column("a").to_pylist() == ["y"]


@pytest.mark.parametrize(("stored_ts", "b"), [(4, None), (5, None), (6, ["old"])])
def test_delete_below_a_partial_update_hides_stored_values_not_above_it(stored_ts, b):
    rules = MergeRules(ordering_fields=("ts",), partial_updates=IGNORE)
    changes = merge(rules, table([Version(ts=5, deleted=True), Version(ts=7, a="new")]))
    stored = batch([Version(ts=stored_ts, a="old", b=["old"])])
    outcome = merge_pairs(rules, stored, changes.combine_chunks().to_batches()[0])

    assert outcome.rows.select(["ts", "a", "b"]).to_pylist() == [{"ts": 7, "a": "new", "b": b}]


def test_row_with_the_delete_marker_deletes():
    rules = MergeRules(delete_marker=("a", "D"))
    versions = table([Version(a="I"), Version(key="l", a="D"), Version(a="D"), Version(key="l", a="I")])
    merged = merge(rules, versions.drop_columns([DELETED, BY_COMMIT_TIME, COLUMNS]))

    assert merged.select([KEY, DELETED]).to_pylist() == [{KEY: "k", DELETED: True}, {KEY: "l", DELETED: False}]


def test_numbers_as_delete_marker_are_compared_as_text():
    rows = pa.table({KEY: ["k", "l", "m"], "op": pa.array([1, 4, None])})
    merged = merge_versions(MergeRules(delete_marker=("op", "4")), rows, [KEY])

    assert merged.column(DELETED).to_pylist() == [False, True, False]


@pytest.mark.parametrize(
    ("low", "high", "kind"),
    [
        (None, -(2**63), pa.int64()),
        (-5, 3, pa.int32()),
        (2**63 - 1, 2**63, pa.uint64()),
        (-2.5, -1.5, pa.float64()),
        (-1.5, 0.5, pa.float32()),
        (-0.0, 0.0, pa.float64()),
        (float("inf"), float("nan"), pa.float64()),
        (None, float("-inf"), pa.float64()),
        (False, True, pa.bool_()),
        ("Z", "a", pa.string()),
        ("a", "ab", pa.large_string()),
        (None, "", pa.string()),
        (b"\x7f", b"\x80", pa.binary()),
        (Decimal("-2.10"), Decimal("-2.05"), pa.decimal128(20, 2)),
        (Decimal(9), Decimal(10), pa.decimal128(38, 0)),
        (-1, 2, pa.date32()),
        (-1, 2, pa.timestamp("us", "UTC")),
        (1, 2, pa.timestamp("ms")),
        (1, 2, pa.time64("us")),
        ("a", "b", pa.dictionary(pa.int32(), pa.string())),
    ],
)
def test_ordering_values_compare_as_in_java(low, high, kind):
    values = pa.array([high, low, low, high, low, low], kind)
    rows = pa.table({KEY: ["down", "down", "up", "up", "tie", "tie"], "ts": values, "n": range(6)})

    assert merge_versions(EVENT_TIME, rows, [KEY]).column("n").to_pylist() == [0, 3, 5]
    stored, incoming = ({KEY: ["k"] * 3, "ts": part} for part in (values[:3], values[3:]))
    outcome = merge_pairs(EVENT_TIME, pa.record_batch(stored), pa.record_batch(incoming))
    assert outcome.stays.tolist() == [False, False, False]
    assert merge_pairs(EVENT_TIME, pa.record_batch(stored), pa.record_batch(stored)).stays.tolist() == [False] * 3
    turned = merge_pairs(EVENT_TIME, pa.record_batch({"ts": values[:1]}), pa.record_batch({"ts": values[1:2]}))
    assert turned.stays.tolist() == [True]


def test_nan_with_a_sign_is_above_all_numbers():
    values = pa.array(np.array([1.0, -np.nan, 2.0]))
    rows = pa.table({KEY: ["k"] * 3, "ts": values, "n": range(3)})
    assert merge_versions(EVENT_TIME, rows, [KEY]).column("n").to_pylist() == [1]


def test_later_ordering_fields_decide_between_equal_ones():
    rules = MergeRules(ordering_fields=("file", "pos"))
    rows = pa.table({KEY: ["k"] * 4, "file": [1, 2, 2, 1], "pos": [9, 1, 0, 8], "n": range(4)})
    assert merge_versions(rules, rows, [KEY]).column("n").to_pylist() == [1]


def test_stored_ordering_of_a_narrower_type_is_compared_in_the_wider_one():
    stored = pa.record_batch({"ts": pa.array([3, 3], pa.int32())})
    incoming = pa.record_batch({"ts": pa.array([2**40, 2], pa.int64())})
    assert merge_pairs(EVENT_TIME, stored, incoming).stays.tolist() == [False, True]


@pytest.mark.parametrize("kind", [pa.int64(), pa.date32(), pa.timestamp("us")])
def test_ordering_values_of_another_kind_are_refused(kind):
    stored, incoming = pa.record_batch({"ts": ["1"]}), pa.record_batch({"ts": pa.array([1], kind)})
    with pytest.raises(SchemaMismatchError, match="do not compare"):
        merge_pairs(EVENT_TIME, stored, incoming)


def test_ordering_field_without_an_order_is_refused():
    rows = pa.table({KEY: ["k", "k"], "ts": pa.array([[1], [2]])})
    with pytest.raises(SchemaMismatchError, match="no order"):
        merge_versions(EVENT_TIME, rows, [KEY])


def test_stored_row_without_the_ordering_column_is_below_all():
    outcome = merge_pairs(EVENT_TIME, pa.record_batch({KEY: ["k"]}), pa.record_batch({KEY: ["k"], "ts": [-5]}))
    assert outcome.rows.num_rows == 1


def test_records_come_in_order_of_first_appearance():
    merged = merge(COMMIT_TIME, table([Version(key=key) for key in "cabca"]))
    assert merged.column(KEY).to_pylist() == ["c", "a", "b"]


def test_key_in_two_partitions_is_two_records():
    rows = pa.table(
        {KEY: ["k", "k", "k", None], "p": pa.array(["x", None, "x", None]).dictionary_encode(), "n": range(4)}
    )
    assert merge_versions(COMMIT_TIME, rows, [KEY, "p"]).column("n").to_pylist() == [2, 1, 3]


def test_no_versions_make_no_records():
    for rules in FOLDS:
        assert merge(rules, table([])).num_rows == 0


# --- partial updates -------------------------------------------------------------------------------------


def batch(versions: Sequence[Version]) -> pa.RecordBatch:
    return table(versions).drop_columns([DELETED, BY_COMMIT_TIME, COLUMNS]).to_batches()[0]


def test_marker_of_unavailable_values_counts_in_text_and_bytes():
    rules = MergeRules(partial_updates=FILL, unavailable_value=MARKER)
    versions = pa.table({KEY: ["k"] * 2, "t": ["x", MARKER], "b": [b"y", MARKER.encode()], "n": [1, None]})
    assert merge_versions(rules, versions, [KEY]).drop_columns([KEY, DELETED, FRESH]).to_pylist() == [
        {"t": "x", "b": b"y", "n": None}
    ]


def test_ordering_and_meta_columns_are_those_of_the_topmost_version():
    rules = MergeRules(ordering_fields=("ts", "seq"), partial_updates=IGNORE)
    rows = pa.table({KEY: ["k"] * 2, COMMIT: ["1", None], "ts": [3, 4], "seq": [9, None], "a": ["x", None]})
    merged = merge_versions(rules, rows, [KEY]).select([COMMIT, "ts", "seq", "a"])
    assert merged.to_pylist() == [{COMMIT: None, "ts": 4, "seq": None, "a": "x"}]


def test_rows_that_say_other_columns_make_their_union():
    versions = table([Version(ts=1, a="x", columns=0), Version(ts=2, b=["y"], columns=1), Version(key="l", columns=1)])
    merged = merge(EVENT_TIME, versions)
    numbers = merged.column(COLUMNS).to_pylist()

    assert [declared_columns(number, SETS) for number in numbers] == [SETS[0] | SETS[1], SETS[1]]
    assert [(row["a"], row["b"]) for row in live(merged)] == [("x", ["y"]), (None, None)]
    assert numbers[1] == 1


def test_row_with_all_columns_below_makes_the_union_complete():
    merged = merge(COMMIT_TIME, table([Version(a="x", b=["x"]), Version(a=None, columns=0)]))
    assert [(row["a"], row["b"], row[COLUMNS]) for row in rows_of(merged)] == [(None, ["x"], None)]


def test_columns_said_below_a_delete_are_not_said():
    versions = [Version(ts=1, a="x", columns=0), Version(ts=2, deleted=True), Version(ts=3, columns=1)]
    assert merge(EVENT_TIME, table(versions)).column(COLUMNS).to_pylist() == [1]


@pytest.mark.parametrize("value", ["x", MARKER])
@pytest.mark.parametrize("rules", [rules for rules in FOLDS if rules.partial_updates is FILL])
def test_undeclared_column_keeps_the_older_value_although_null_is_a_value(rules, value):
    below, above = [Version(ts=1, a=value)], [Version(ts=2, b=["y"], columns=1)]
    incoming = table(above).to_batches()[0]

    assert [row["a"] for row in live(merge(rules, table(below + above)))] == [value]
    assert merge_pairs(rules, batch(below), incoming, column_sets=SETS).rows.column("a").to_pylist() == [value]


def test_sets_that_are_named_twice_are_one():
    sets = [frozenset({"a"})] * 40 + [frozenset({"b"})]
    rows = pa.table({KEY: ["k", "k"], "a": ["x", None], "b": [None, "y"], COLUMNS: pa.array([39, 40], pa.int32())})
    merged = merge_versions(COMMIT_TIME, rows, [KEY], column_sets=sets)

    assert merged.select(["a", "b"]).to_pylist() == [{"a": "x", "b": "y"}]
    assert declared_columns(merged.column(COLUMNS)[0].as_py(), sets) == {"a", "b"}


def test_more_sets_of_columns_than_can_be_united_are_refused():
    sets = [frozenset({str(number)}) for number in range(32)]
    rows = pa.table({KEY: ["k"], COLUMNS: pa.array([0], pa.int32())})
    with pytest.raises(UnsupportedFeatureError, match="31"):
        merge_versions(COMMIT_TIME, rows, [KEY], column_sets=sets)


def test_number_of_a_set_that_is_not_there_is_an_error_of_ours():
    rows = pa.table({KEY: ["k"], COLUMNS: pa.array([2], pa.int32())})
    with pytest.raises(InternalError):
        merge_versions(COMMIT_TIME, rows, [KEY], column_sets=SETS)


def test_late_partial_update_that_changes_nothing_lets_the_stored_row_stay():
    rules = MergeRules(ordering_fields=("ts",), partial_updates=IGNORE)
    stored = batch([Version(ts=5, a="x"), Version(ts=5, a="x")])
    incoming = table([Version(ts=4, a="y"), Version(ts=4, a="y", b=["z"])]).to_batches()[0]
    outcome = merge_pairs(rules, stored, incoming)

    assert outcome.stays.tolist() == [True, False]
    assert outcome.rows.select(["ts", "a", "b"]).to_pylist() == [{"ts": 5, "a": "x", "b": ["z"]}]


def test_stored_column_that_the_table_gained_since_is_null():
    rules = MergeRules(partial_updates=IGNORE)
    stored = pa.record_batch({KEY: ["k"], "n": pa.array([1], pa.int32())})
    incoming = pa.record_batch({KEY: ["k"], "n": pa.array([None], pa.int64()), "new": pa.array([None], pa.string())})
    rows = merge_pairs(rules, stored, incoming).rows

    assert rows.schema == incoming.schema
    assert rows.to_pylist() == [{KEY: "k", "n": 1, "new": None}]


# --- mergers ---------------------------------------------------------------------------------------------


class Joined:
    """Joins the texts of all versions: associative, and sensitive to order, so that nothing can hide."""

    name = "joined"

    def __init__(self) -> None:
        self.calls: list[int] = []

    def merge(self, older: pa.Table, newer: pa.Table) -> pa.Table:
        self.calls.append(newer.num_rows)
        assert not set(newer.schema.names) & set(CONTROL_COLUMNS)
        text = pc.binary_join_element_wise(older["a"], newer["a"], "")
        return newer.set_column(newer.schema.get_field_index("a"), "a", text)


LETTERS = st.lists(
    st.builds(
        Version,
        key=st.sampled_from("kl"),
        a=st.sampled_from("xyz"),
        deleted=st.sampled_from([False] * 4 + [True]),
    ),
    max_size=9,
)


@settings(max_examples=30, deadline=None)
@given(LETTERS, CUTS)
def test_merger_gets_the_versions_after_the_last_delete_in_order(versions, cuts):
    rules = MergeRules(merger=Joined())
    expected: dict[str, str] = {}
    for version in versions:
        expected[version.key] = "" if version.deleted else expected.get(version.key, "") + (version.a or "")
    a, b, c = parts_of(versions, cuts)
    for merged in (
        merge(rules, a, b, c),
        merge(rules, merge(rules, a, b), c),
        merge(rules, a, merge(rules, b, c)),
    ):
        assert {row[KEY]: row["a"] for row in live(merged)} == {key: text for key, text in expected.items() if text}
        deleted_keys = {version.key for version in versions if version.deleted}
        assert [row[FRESH] for row in rows_of(merged)] == [row[KEY] in deleted_keys for row in rows_of(merged)]


def test_record_with_many_versions_is_merged_in_few_calls():
    merger = Joined()
    versions = table([Version(a="x") for _ in range(1000)] + [Version(key="l", a="y")] * 2 + [Version(key="m", a="z")])
    merged = merge(MergeRules(merger=merger), versions)

    assert merged.column("a").to_pylist() == ["x" * 1000, "yy", "z"]
    assert len(merger.calls) == 10
    assert sum(merger.calls) == 1000


def test_merger_meets_stored_rows_unless_they_were_deleted():
    rules = MergeRules(merger=Joined())
    keys = ["met", "fresh", "gone"]
    stored = batch([Version(key=key, a="s") for key in keys])
    changes = merge(
        rules,
        table(
            [
                Version(key="met", a="x"),
                Version(key="fresh", deleted=True),
                Version(key="gone", deleted=True),
                Version(key="fresh", a="y"),
            ]
        ),
    )
    outcome = merge_pairs(rules, stored, changes.combine_chunks().to_batches()[0])

    assert outcome.deleted.tolist() == [False, False, True]
    assert not outcome.stays.any()
    assert outcome.rows.select([KEY, "a"]).to_pylist() == [{KEY: "met", "a": "sx"}, {KEY: "fresh", "a": "y"}]


def test_rows_with_some_columns_are_refused_under_a_merger():
    with pytest.raises(UnsupportedFeatureError, match="joined"):
        merge(MergeRules(merger=Joined()), table([Version(columns=0)]))


def test_merger_that_changes_keys_is_refused_when_it_meets_stored_rows():
    class Renaming(Joined):
        def merge(self, _older: pa.Table, newer: pa.Table) -> pa.Table:
            return newer.set_column(0, KEY, pa.array(["other"] * newer.num_rows))

    row = batch([Version()])
    with pytest.raises(InvalidRequestError, match="joined"):
        merge_pairs(MergeRules(merger=Renaming()), row, row)


def test_versions_of_a_spilled_table_in_many_chunks_merge_alike():
    versions = [Version(key=str(n % 7), ts=n % 5, a=str(n)) for n in range(60)]
    chunks = pa.concat_tables([table([version]) for version in versions])
    one = table(versions)
    without_place = [name for name in SCHEMA.names if name != COMMIT]

    for rules in FOLDS:
        assert live(merge(rules, chunks.select(without_place))) == live(merge(rules, one.select(without_place)))
