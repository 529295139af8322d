"""The built-in mergers, against worked examples and against plain loops."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyhudi.config.options_merging import MERGER_KEY, MERGER_OPTIONS_KEY
from pyhudi.errors import ConfigError, InvalidRequestError, SchemaMismatchError, UnsupportedFeatureError
from pyhudi.merge.control_columns import DELETED, FRESH
from pyhudi.merge.mergers import RecordCount, Stitching, merger_from_properties, merger_to_properties
from pyhudi.merge.rules import Merger, MergeRules
from pyhudi.merge.versions import merge_pairs, merge_versions

KEY = "_hoodie_record_key"
COUNT = "hoodie_record_count"
Row = Mapping[str, Any]


def merged(merger: Merger, rows: pa.Table, identity: Sequence[str] = (KEY,)) -> pa.Table:
    return merge_versions(MergeRules(merger=merger), rows, identity).drop_columns([DELETED, FRESH])


# --- stitching -------------------------------------------------------------------------------------------

F8 = Stitching({"ts_a": ["b", "c"], "ts_b": ["d"], "ts_c": ["e"]})
WIDE = pa.schema(
    [
        (KEY, pa.string()),
        *((name, pa.string()) for name in "bcde"),
        *((name, pa.int64()) for name in F8.sources),
    ]
)


def wide(rows: Sequence[Row]) -> pa.Table:
    return pa.Table.from_pylist([dict(row) for row in rows], WIDE)


BASE = wide(
    [
        {KEY: "key1", "b": "b0", "c": "c0", "ts_a": 10, "d": "d0", "ts_b": 10, "e": "e0", "ts_c": 10},
        {KEY: "key2", "b": "b2", "c": "c2", "ts_a": 10, "d": "d2", "ts_b": 10, "e": "e2", "ts_c": 10},
    ]
)
LOGS = (
    wide([{KEY: "key1", "b": "b0_new", "c": "c0_new", "ts_a": 20}]),
    wide([{KEY: "key1", "d": "d0_new", "ts_b": 15}, {KEY: "key3", "d": "d3", "ts_b": 5}]),
    wide([{KEY: "key1", "b": "bad", "c": "bad", "ts_a": 12}]),
    wide([{KEY: "key1", "d": "bad", "ts_b": 8}]),
)
SNAPSHOT = wide(
    [
        {KEY: "key1", "b": "b0_new", "c": "c0_new", "ts_a": 20, "d": "d0_new", "ts_b": 15, "e": "e0", "ts_c": 10},
        {KEY: "key2", "b": "b2", "c": "c2", "ts_a": 10, "d": "d2", "ts_b": 10, "e": "e2", "ts_c": 10},
        {KEY: "key3", "d": "d3", "ts_b": 5},
    ]
)


@pytest.mark.parametrize("order", list(itertools.permutations(LOGS)))
def test_logs_in_any_order_stitch_to_the_missions_table(order: Sequence[pa.Table]):
    logs = merged(F8, pa.concat_tables(order))

    assert merged(F8, pa.concat_tables([BASE, logs])).sort_by(KEY).equals(SNAPSHOT)
    assert merged(F8, pa.concat_tables([BASE, *order])).sort_by(KEY).equals(SNAPSHOT)


def test_stored_row_is_stitched_with_the_logs_map():
    changes = merged(F8, pa.concat_tables(LOGS)).slice(0, 1)
    outcome = merge_pairs(MergeRules(merger=F8), BASE.to_batches()[0].slice(0, 1), changes.to_batches()[0])
    assert pa.Table.from_batches([outcome.rows]).equals(SNAPSHOT.slice(0, 1))


def test_one_ordering_column_for_all_sources_would_lose_columns():
    sales = {KEY: "key1", "b": "b0_new", "ts_a": 20}
    users = {KEY: "key1", "d": "d0_new", "ts_a": 15}
    stitched = merged(F8, wide([sales, {**users, "ts_a": None, "ts_b": 15}]))
    chosen = merge_versions(MergeRules(ordering_fields=("ts_a",)), wide([sales, users]), [KEY])

    assert stitched.column("d").to_pylist() == ["d0_new"]
    assert chosen.column("d").to_pylist() == [None]


def test_null_that_a_source_wrote_is_a_value():
    rows = wide([{KEY: "k", "b": "x", "ts_a": 1}, {KEY: "k", "b": None, "c": "y", "ts_a": 2}])
    assert merged(F8, rows).select(["b", "c"]).to_pylist() == [{"b": None, "c": "y"}]


def test_column_of_no_source_is_the_last_that_is_not_null():
    rows = pa.table({KEY: ["k"] * 3, "ts": [3, 1, 2], "a": ["x", "y", "z"], "free": ["1", "2", None]})
    assert merged(Stitching({"ts": ["a"]}), rows).to_pylist() == [{KEY: "k", "ts": 3, "a": "x", "free": "2"}]


def test_values_without_an_ordering_value_give_way_to_those_with_one_only():
    rows = wide([{KEY: "k", "b": "x"}, {KEY: "k", "c": "y"}, {KEY: "l", "d": "z", "ts_b": 1}, {KEY: "l", "d": "late"}])
    assert merged(F8, rows).select(["b", "c", "d"]).to_pylist() == [
        {"b": "x", "c": "y", "d": None},
        {"b": None, "c": None, "d": "z"},
    ]


VALUE = st.sampled_from([None, "x", "y"])
WIDE_ROWS = st.lists(
    st.fixed_dictionaries(
        {
            KEY: st.sampled_from("kl"),
            **dict.fromkeys("bcde", VALUE),
            **{name: st.one_of(st.none(), st.integers(0, 3)) for name in F8.sources},
        }
    ),
    min_size=1,
    max_size=8,
)


def stitched_by_loop(rows: Sequence[Row]) -> list[dict[str, Any]]:
    records: dict[str, dict[str, Any]] = {}
    for row in rows:
        record = records.setdefault(row[KEY], dict.fromkeys(WIDE.names) | {KEY: row[KEY]})
        for ordering, columns in F8.sources.items():
            stored, new = record[ordering], row[ordering]
            if new is not None and (stored is None or new >= stored):
                record |= {name: row[name] for name in (ordering, *columns)}
            elif new is None and stored is None:
                record |= {name: row[name] for name in columns if row[name] is not None}
    return list(records.values())


@settings(max_examples=30, deadline=None)
@given(WIDE_ROWS, st.integers(0, 8))
def test_stitching_is_a_loop_over_the_rows_however_they_are_grouped(rows: list[Row], cut: int):
    table = wide(rows)
    later = merged(F8, table.slice(cut)) if cut < len(rows) else table.slice(cut)

    assert merged(F8, table).to_pylist() == stitched_by_loop(rows)
    assert merged(F8, pa.concat_tables([table.slice(0, cut), later])).to_pylist() == stitched_by_loop(rows)


@settings(max_examples=20, deadline=None)
@given(WIDE_ROWS, st.randoms(use_true_random=False))
def test_stitching_without_ties_is_the_same_in_any_order_and_with_rows_twice(rows: list[Row], chance: Any):
    sources = list(F8.sources)
    # Each row is of one source, and every ordering value occurs once.
    distinct = [
        {name: row[name] if name in (KEY, *F8.sources[sources[n % 3]]) else None for name in row}
        | {source: n if source == sources[n % 3] else None for source in sources}
        for n, row in enumerate(rows)
    ]
    shuffled = distinct * 2
    chance.shuffle(shuffled)

    assert merged(F8, wide(shuffled)).sort_by(KEY).equals(merged(F8, wide(distinct)).sort_by(KEY))


def test_text_of_stitching_is_parsed_and_written():
    parsed = Stitching.parse(" _ts1 : a, b ;_ts2:c;_ts3:;")
    assert parsed == Stitching({"_ts1": ["a", "b"], "_ts2": ["c"], "_ts3": []})
    assert parsed.text == "_ts1:a,b;_ts2:c;_ts3:"
    assert Stitching.parse(parsed.text) == parsed


@pytest.mark.parametrize("text", ["", " ; ", "ts", "ts:a,,b", ":a", "t:a;t:b", "t:a;u:a", "t:a,a", "t:u;u:b", "t:a:b"])
def test_text_that_names_no_sources_is_refused(text: str):
    with pytest.raises(ConfigError):
        Stitching.parse(text)


def test_stitching_of_a_column_that_is_not_there_is_refused():
    with pytest.raises(SchemaMismatchError, match=r"missing.*'d'"):
        merged(F8, wide([{KEY: "k"}] * 2).drop_columns(["d"]))


# --- counting --------------------------------------------------------------------------------------------


def visits(rows: Sequence[str]) -> pa.Table:
    """Rows written as `page user day`."""
    parts = [row.split() for row in rows]
    return pa.table(
        {
            KEY: [f"{page}|{user}" for page, user, _ in parts],
            "day": [day for *_, day in parts],
            COUNT: pa.nulls(len(parts), pa.int64()),
        }
    )


FIRST = visits(["p1 u1 d1", "p1 u1 d1", "p1 u2 d1", "p2 u1 d1"])
SECOND = visits(["p1 u1 d1", "p1 u3 d1", "p1 u1 d0"])


@pytest.mark.parametrize("rows_per_batch", range(1, 8))
def test_page_views_and_visitors_are_those_of_the_mission_in_any_number_of_batches(rows_per_batch: int):
    rows = pa.concat_tables([FIRST, SECOND])
    stored = rows.slice(0, 0)
    for start in range(0, rows.num_rows, rows_per_batch):
        batch = merged(RecordCount(), rows.slice(start, rows_per_batch), [KEY, "day"])
        stored = merged(RecordCount(), pa.concat_tables([stored, batch]), [KEY, "day"])

    counts = stored.append_column("page", pc.list_element(pc.split_pattern(stored[KEY], "|"), 0))
    counts = counts.set_column(counts.schema.names.index(COUNT), COUNT, counts[COUNT].fill_null(1))
    by_page = counts.group_by(["day", "page"]).aggregate([(COUNT, "sum"), (KEY, "count")])
    found = {(row["day"], row["page"]): (row[f"{COUNT}_sum"], row[f"{KEY}_count"]) for row in by_page.to_pylist()}
    assert found == {("d1", "p1"): (5, 3), ("d1", "p2"): (1, 1), ("d0", "p1"): (1, 1)}


def test_other_columns_are_those_of_the_larger_ordering_value_or_of_the_newer():
    rows = pa.table(
        {
            KEY: ["down", "down", "tie", "tie"],
            "ts": [2, 1, 1, 1],
            "page": [["old"], ["late"], ["old"], None],
            COUNT: pa.array([5, None, 3, 4], pa.int32()),
        }
    )
    assert merged(RecordCount(ordering_fields=["ts"]), rows).to_pylist() == [
        {KEY: "down", "ts": 2, "page": ["old"], COUNT: 6},
        {KEY: "tie", "ts": 1, "page": None, COUNT: 7},
    ]


def test_count_column_that_is_missing_is_named():
    with pytest.raises(SchemaMismatchError, match=r"missing=\['hoodie_record_count'\]"):
        merged(RecordCount(), FIRST.drop_columns([COUNT]))


def test_count_column_without_integers_is_refused():
    rows = FIRST.set_column(2, COUNT, pa.nulls(4, pa.float64()))
    with pytest.raises(SchemaMismatchError, match="double"):
        merged(RecordCount(), rows)


def test_count_beyond_its_column_is_refused():
    rows = pa.table({KEY: ["k", "k"], COUNT: pa.array([127, 1], pa.int8())})
    with pytest.raises(InvalidRequestError, match="bigint"):
        merged(RecordCount(), rows)


# --- names -----------------------------------------------------------------------------------------------


class OwnMerger:
    name = "mine"

    def merge(self, _older: pa.Table, newer: pa.Table) -> pa.Table:
        return newer


class MergerWithABuiltInName(OwnMerger):
    name = "stitching"


@pytest.mark.parametrize(
    "merger", [RecordCount(), RecordCount("n", ("ts", "seq")), F8, Stitching.parse("t:a;u:b,c")], ids=lambda m: m.text
)
def test_built_in_merger_is_found_by_its_properties(merger: RecordCount | Stitching):
    properties = merger_to_properties(merger)

    assert merger_from_properties(properties, []) == merger
    assert merger_from_properties(properties, [OwnMerger(), merger]) == merger
    assert pickle.loads(pickle.dumps(merger)) == merger
    assert hash(pickle.loads(pickle.dumps(merger))) == hash(merger)


def test_record_count_without_options_has_its_defaults():
    assert merger_from_properties({MERGER_KEY: "record_count"}, []) == RecordCount()


def test_given_merger_is_found_by_its_name():
    mine = OwnMerger()
    assert merger_to_properties(mine) == {MERGER_KEY: "mine"}
    assert merger_from_properties(merger_to_properties(mine), [F8, mine]) is mine


def test_merger_that_is_not_at_hand_is_refused_with_the_way_to_give_it():
    with pytest.raises(UnsupportedFeatureError, match=r"merger=….*implementation\.classes.*merger='mine'"):
        merger_from_properties({MERGER_KEY: "mine"}, [F8])


def test_payload_class_of_the_jvm_is_refused_by_name():
    with pytest.raises(UnsupportedFeatureError, match=r"com\.example\.Payload"):
        merger_from_properties({"hoodie.compaction.payload.class": "com.example.Payload"}, [OwnMerger()])


def test_built_in_merger_with_other_options_than_the_tables_is_refused():
    properties = {MERGER_KEY: "stitching", MERGER_OPTIONS_KEY: "t:a"}
    with pytest.raises(ConfigError, match="t:a"):
        merger_from_properties(properties, [F8])


def test_name_of_a_built_in_merger_is_not_for_others():
    with pytest.raises(ConfigError, match="another"):
        merger_to_properties(MergerWithABuiltInName())
