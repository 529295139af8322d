"""Reading versions in turn, held against a plain loop over each record's versions, as Hudi's releases have it."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyhudi.config.enums import PartialUpdateMode
from pyhudi.errors import SchemaMismatchError
from pyhudi.merge.control_columns import BY_COMMIT_TIME, COLUMNS, DELETED
from pyhudi.merge.log_merge import LogMergeRule, apply_log_merge_rule
from pyhudi.merge.rules import MergeRules
from pyhudi.merge.versions import merge_versions

KEY = "_hoodie_record_key"
COMMIT = "_hoodie_commit_time"
WHOLE = MergeRules(ordering_fields=("ts",))
PARTIAL = replace(WHOLE, partial_updates=PartialUpdateMode.IGNORE_DEFAULTS)
FOLDS = [
    pytest.param(LogMergeRule(deletes_compare=False), WHOLE, id="1.0.2"),
    pytest.param(
        LogMergeRule(deletes_compare=False, rows_follow_deletes=True, lower_rows_show=False, late_rows_show=False),
        WHOLE,
        id="0.15.0",
    ),
    pytest.param(
        LogMergeRule(deletes_compare=False, rows_follow_deletes=True, latest_write=True),
        PARTIAL,
        id="0.15.0-PartialUpdate",
    ),
    pytest.param(LogMergeRule(deletes_compare=False, latest_write=True), PARTIAL, id="1.0.2-PartialUpdate"),
    pytest.param(
        LogMergeRule(deletes_compare=False, rows_compare=False, late_rows_show=False), PARTIAL, id="1.0.2-NonDefaults"
    ),
    pytest.param(LogMergeRule(deletes_compare=False, late_rows_show=False), PARTIAL, id="1.0.2-Debezium"),
    pytest.param(LogMergeRule(), PARTIAL, id="1.2.0-PartialUpdate"),
]


@dataclass(frozen=True, kw_only=True)
class Version:
    """A version of the record `key`; a delete without `ts` takes effect whatever it meets."""

    key: str = "k"
    commit: str = "c"
    ts: Any = None
    text: str | None = None
    deleted: bool = False

    @property
    def barrier(self) -> bool:
        return self.deleted and self.ts is None


def row(ts: Any, text: str | None = None, commit: str = "c") -> Version:
    return Version(ts=ts, text=text, commit=commit)


def delete(ts: Any = None) -> Version:
    return Version(ts=ts, deleted=True)


def table_of(versions: list[Version], kind: pa.DataType | None = None) -> pa.Table:
    return pa.table(
        {
            KEY: pa.array([one.key for one in versions], pa.string()),
            COMMIT: pa.array([one.commit for one in versions], pa.string()),
            "ts": pa.array([one.ts for one in versions], kind or pa.int64()),
            "text": pa.array([one.text for one in versions], pa.string()),
            DELETED: pa.array([one.deleted for one in versions], pa.bool_()),
            BY_COMMIT_TIME: pa.array([one.barrier for one in versions], pa.bool_()),
            COLUMNS: pa.nulls(len(versions), pa.int32()),
        }
    )


def merged(
    log_rule: LogMergeRule, rules: MergeRules, versions: list[Version], kind: pa.DataType | None = None
) -> list[Version]:
    counted = apply_log_merge_rule(log_rule, rules, table_of(versions, kind))
    rows = merge_versions(replace(rules, ordering_fields=()), counted, [KEY]).to_pylist()
    return [Version(key=r[KEY], commit=r[COMMIT], ts=r["ts"], text=r["text"], deleted=r[DELETED]) for r in rows]


def read_in_turn(
    log_rule: LogMergeRule, rules: MergeRules, versions: list[Version], *, unlike: bool = False
) -> Version:
    """What one record's versions come to; `unlike`: values of deletes and rows do not compare below version 9."""
    shown: list[Version] = []
    top = latest = versions[0]
    for new in versions:
        if not shown:
            takes_place = True
        elif new.deleted:
            compares = log_rule.deletes_compare or not unlike
            takes_place = new.barrier or (not top.barrier and (not compares or new.ts >= top.ts))
        elif top.deleted:
            takes_place = top.barrier or log_rule.rows_follow_deletes or new.ts >= top.ts
        else:
            takes_place = not log_rule.rows_compare or new.ts >= top.ts
        if takes_place:
            shown = [*([] if new.deleted or top.deleted or not log_rule.lower_rows_show else shown), new]
            top = latest = new
        elif log_rule.late_rows_show and not new.deleted and not top.deleted:
            shown = [new, *shown]
            latest = new
    text = top.text
    if not rules.selects and not top.deleted:
        text = next((one.text for one in reversed(shown) if one.text is not None), None)
    return replace(top, text=text, commit=latest.commit if log_rule.latest_write else top.commit)


@st.composite
def histories(draw: st.DrawFn) -> list[Version]:
    versions = []
    for number in range(draw(st.integers(0, 10))):
        deleted = draw(st.sampled_from([False, False, True]))
        versions.append(
            Version(
                key=draw(st.sampled_from("xyz")),
                commit=f"c{number:02}",
                ts=draw(st.sampled_from([1, 2, 3, 4] + [None] * deleted)),
                text=None if deleted else draw(st.sampled_from([None, f"t{number}"])),
                deleted=deleted,
            )
        )
    return versions


@pytest.mark.parametrize(("log_rule", "rules"), FOLDS)
@settings(max_examples=20, deadline=None)
@given(history=histories(), unlike=st.booleans())
def test_records_come_out_as_if_their_versions_were_read_one_by_one(
    log_rule: LogMergeRule, rules: MergeRules, history: list[Version], unlike: bool
):
    kind = pa.decimal128(5, 2) if unlike else pa.int64()
    if unlike:
        history = [one if one.ts is None else replace(one, ts=Decimal(one.ts)) for one in history]
    keys = list(dict.fromkeys(one.key for one in history))
    expected = [
        read_in_turn(log_rule, rules, [one for one in history if one.key == key], unlike=unlike) for key in keys
    ]

    assert merged(log_rule, rules, history, kind) == expected


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.string(), ("015", "020")),
        (pa.date32(), (dt.date(2024, 1, 1), dt.date(2024, 1, 2))),
        (pa.decimal128(9, 2), (Decimal(1), Decimal(2))),
        (pa.binary(), (b"a", b"b")),
    ],
    ids=str,
)
def test_lower_delete_of_a_type_that_does_not_compare_takes_effect_up_to_1_0_2_only(
    kind: pa.DataType, values: tuple[Any, Any]
):
    lower, higher = values
    history = [row(higher, "row"), delete(lower)]
    assert merged(LogMergeRule(deletes_compare=False), WHOLE, history, kind)[0].deleted
    assert not merged(LogMergeRule(), WHOLE, history, kind)[0].deleted


def test_lower_delete_by_date_does_nothing_where_dates_are_numbers():
    history = [row(dt.date(2024, 1, 2), "row"), delete(dt.date(2024, 1, 1))]
    assert not merged(LogMergeRule(deletes_compare=False, dates_compare=True), WHOLE, history, pa.date32())[0].deleted


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.int32(), (1, 2)),
        (pa.float32(), (1.5, 2.5)),
        (pa.bool_(), (False, True)),
        (pa.timestamp("us", "UTC"), (dt.datetime(2024, 1, 1, tzinfo=dt.UTC), dt.datetime(2024, 1, 2, tzinfo=dt.UTC))),
    ],
    ids=str,
)
def test_lower_delete_of_a_type_that_compares_does_nothing(kind: pa.DataType, values: tuple[Any, Any]):
    lower, higher = values
    assert not merged(LogMergeRule(deletes_compare=False), WHOLE, [row(higher), delete(lower)], kind)[0].deleted


def test_rows_after_a_delete_of_unlike_type_compare_with_the_delete_alone():
    history = [row("9", "before"), delete("3"), row("5", "after")]
    (record,) = merged(LogMergeRule(deletes_compare=False), WHOLE, history, pa.string())
    assert record.text == "after"


def test_late_row_is_below_late_rows_before_it():
    history = [row(20, "second"), row(30), row(25, "late")]
    (record,) = merged(LogMergeRule(), PARTIAL, history)
    assert (record.ts, record.text) == (30, "second")
    by_order = merge_versions(PARTIAL, table_of(history), [KEY])
    assert by_order.column("text").to_pylist() == ["late"]  # which is why plain order does not do


def test_delete_that_did_nothing_hides_nothing_that_comes_later():
    (record,) = merged(LogMergeRule(), PARTIAL, [row(30), delete(25), row(20, "late")])
    assert record.text == "late"


def test_row_written_again_after_a_delete_is_filled_by_late_rows_since_then():
    history = [row(10, "before"), delete(20), row(30), row(25, "late")]
    assert merged(LogMergeRule(), PARTIAL, history)[0].text == "late"
    assert merged(LogMergeRule(), PARTIAL, history[:3])[0].text is None


def test_delete_without_an_ordering_value_stays_one_whatever_delete_follows():
    for history in ([row(1), delete(), delete(9)], [row(1), delete(9), delete()]):
        (record,) = merged(LogMergeRule(), WHOLE, history)
        assert record == delete()
    assert merged(LogMergeRule(), WHOLE, [delete(), delete(9), row(5, "after")])[0].text == "after"


def test_any_row_takes_the_place_of_a_delete_without_an_ordering_value():
    (record,) = merged(LogMergeRule(), replace(WHOLE, null_is_zero=True), [row(1), delete(), row(-5, "below zero")])
    assert record.text == "below zero"


def test_missing_ordering_value_counts_as_the_rules_say():
    history = [row(None, "none"), row(-5, "below zero")]
    assert merged(LogMergeRule(), WHOLE, history)[0].text == "below zero"
    assert merged(LogMergeRule(), replace(WHOLE, null_is_zero=True), history)[0].text == "none"


def test_several_ordering_fields_compare_from_left_to_right():
    rules = MergeRules(ordering_fields=("ts", "text"), partial_updates=PartialUpdateMode.IGNORE_DEFAULTS)
    history = [row(1, "b", "c1"), row(2, "a", "c2"), row(1, "c", "c3"), row(2, "b", "c4"), row(2, "a", "c5")]
    assert merged(LogMergeRule(), rules, history)[0].commit == "c4"


def test_versions_of_records_that_occur_once_are_left_as_they_are():
    versions = table_of([Version(key="x", ts=1), Version(key="y", deleted=True)])
    assert apply_log_merge_rule(LogMergeRule(), PARTIAL, versions) is versions


def test_ordering_column_without_an_order_is_refused():
    with pytest.raises(SchemaMismatchError, match="no order"):
        merged(LogMergeRule(), WHOLE, [row([1]), row([2])], pa.list_(pa.int64()))


@pytest.mark.parametrize(
    ("log_rule", "rules", "history", "matters"),
    [
        (LogMergeRule(), WHOLE, [row(1), delete(1)], True),
        (LogMergeRule(), WHOLE, [row(1), row(2)], False),
        (LogMergeRule(), PARTIAL, [row(1)], True),
        (LogMergeRule(rows_compare=False), WHOLE, [row(1)], True),
    ],
)
def test_fold_matters_where_plain_order_may_differ(
    log_rule: LogMergeRule, rules: MergeRules, history: list[Version], matters: bool
):
    assert log_rule.matters(rules, table_of(history)) is matters


def test_fold_matters_where_rows_say_some_columns_only():
    versions = table_of([row(1)])
    assert not LogMergeRule().matters(WHOLE, versions)
    partial = versions.set_column(versions.schema.get_field_index(COLUMNS), COLUMNS, pa.array([0], pa.int32()))
    assert LogMergeRule().matters(WHOLE, partial)
