"""Reads by expression indexes: the rows of a full scan, from few files, whatever time zone an index was made in."""

from __future__ import annotations

import datetime as dt
import operator
import random
from collections.abc import Callable
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.support.tables import MOR, new_table, open_table

from pyhudi.errors import MetadataTableWarning
from pyhudi.format.metadata_table.bounds import ColumnBounds
from pyhudi.read.skipping.comparisons import Comparison
from pyhudi.read.skipping.expression_conditions import predicate_of_calls
from pyhudi.read.skipping.expressions import IndexedExpression, certain
from pyhudi.read.skipping.predicates import AllOf, NullTest, Predicate, TextTest, may_match
from pyhudi.storage.memory import MemoryStorage
from pyhudi.testing.faults import FaultStorage

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("city", pa.string()),
        ("name", pa.string()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("number", pa.int64()),
    ]
)
OPTIONS = {"hoodie.parquet.small.file.limit": "0", "hoodie.clean.automatic": "false"}
STATISTICS = {
    "by_lower": ("name", {"expr": "lower"}),
    "by_length": ("name", {"expr": "length"}),
    "by_start": ("name", {"expr": "substring", "pos": "1", "len": "2"}),
    "by_year": ("day", {"expr": "year"}),
    "by_year_at": ("at", {"expr": "year"}),
    "by_day": ("number", {"expr": "from_unixtime", "format": "yyyy-MM-dd"}),
}


def batch(first: int, **values: Any) -> pa.Table:
    """Two rows, years apart from those of other batches."""
    ids = [first, first + 1]
    times = [dt.datetime(2000 + 2 * first, 6, 1, tzinfo=dt.UTC)] * 2
    columns = {
        "id": ids,
        "city": ["oslo"] * 2,
        "name": [f"Name{first}", f"Name{first}" + "x" * first],
        "day": [each.date() for each in times],
        "at": times,
        "number": [int(each.timestamp()) for each in times],
    }
    return pa.table({**columns, **values}, schema=SCHEMA)


def table_of(version: int, options: dict[str, str]) -> MemoryStorage:
    storage = MemoryStorage()
    table = new_table(storage, version=version, schema=SCHEMA, **{**options, "hoodie.table.ordering.fields": "number"})
    for first in range(0, 8, 2):
        open_table(storage, **OPTIONS).insert(batch(first))
    for name, (column, expression) in STATISTICS.items():
        open_table(storage, **OPTIONS).indexes.create(name, "expression", column, expression=expression)
    if not options:
        open_table(storage).indexes.create("filter", "expression", "name", using="bloom_filters")
        shown = {"expr": "upper"}
        open_table(storage).indexes.create("upper", "expression", "name", using="bloom_filters", expression=shown)
    open_table(storage, **OPTIONS).insert(batch(8))
    later = batch(2, number=[5_000_000_000] * 2, name=["Ünique", None])
    open_table(storage, **OPTIONS).upsert(later.slice(0, 1))
    del table
    return storage


_tables: dict[tuple[int, bool], MemoryStorage] = {}


def shared(version: int, options: dict[str, str]) -> MemoryStorage:
    """A table that no test changes."""
    key = version, bool(options)
    if key not in _tables:
        _tables[key] = table_of(version, options)
    return _tables[key]


FIELD = pc.field
CONDITIONS: list[tuple[Any, set[int], str | None]] = [
    (pc.year(FIELD("day")) == 2008, {4, 5}, "by_year"),
    ((pc.year(FIELD("day")) > 2009) & (FIELD("id") != 8), {6, 7, 9}, "by_year"),
    ((pc.year(FIELD("day")) == 2000) | (pc.year(FIELD("day")) == 2016), {0, 1, 8, 9}, "by_year"),
    ((pc.year(FIELD("day")) == 2000) | (FIELD("id") == 8), {0, 1, 8}, None),
    (pc.year(FIELD("at")) == 2012, {6, 7}, "by_year_at"),
    (pc.ascii_lower(FIELD("name")) == "name6", {6}, "by_lower"),
    (pc.utf8_lower(FIELD("name")) == "name6", {6}, "by_lower"),
    (pc.utf8_lower(FIELD("name")) == "ünique", {2}, None),
    (pc.utf8_slice_codeunits(FIELD("name"), 0, 2) == "Ün", {2}, "by_start"),
    (pc.utf8_length(FIELD("name")) == 11, {7}, "by_length"),
    ([("name", "==", "Name6")], {6}, "by_lower"),
    ([("name", "==", "Ünique")], {2}, "by_length"),
    ([("name", "in", ["Name6", "none"]), ("id", "<", 100)], {6}, "by_lower"),
    ([[("name", "==", "Name6")], [("id", "==", 1)]], {6, 1}, None),
    ([("name", "!=", "Name6"), ("id", "in", [6, 7])], {7}, None),
    (~(pc.year(FIELD("day")) == 2008) & (FIELD("id") > 5), {6, 7, 8, 9}, None),
]


@pytest.mark.parametrize(("where", "ids", "index"), CONDITIONS, ids=str)
@pytest.mark.parametrize(("version", "options"), [(9, {}), (9, MOR), (8, {}), (8, MOR)], ids=["9", "9m", "8", "8m"])
def test_condition_on_an_expression_gives_the_rows_of_a_scan(
    version: int, options: dict[str, str], where: Any, ids: set[int], index: str | None
) -> None:
    storage = FaultStorage(shared(version, options))
    table = open_table(storage)
    storage.operations.clear()
    scan = table.scan(["id"], where=where)
    assert set(scan.to_arrow()["id"].to_pylist()) == ids
    opened = {one.path for one in storage.operations if one.path.endswith(".parquet")}
    uses = {use.index: use.file_slices for use in scan.explain().indexes}
    if index is None:
        assert not any(uses.get(f"expr_index_{name}") for name in STATISTICS)
    else:
        assert sum(uses.get(f"expr_index_{name}", 0) for name in STATISTICS) >= 2
        assert f"expr_index_{index}" in uses
        assert len(opened) <= 3


def test_filters_of_a_column_and_of_an_expression_leave_files_out() -> None:
    storage = shared(9, {})
    explanation = open_table(storage).scan(where=[("name", "==", "Name2xx")]).explain()
    uses = {use.index: use for use in explanation.indexes}
    assert uses["expr_index_filter"].columns == ("identity(name)",)
    assert sum(use.file_slices for use in uses.values()) == explanation.base_files_of - 1
    assert "expr_index_by_length" in str(explanation)
    without = open_table(storage, **{"hoodie.enable.data.skipping": "false"}).scan(where=[("name", "==", "Name2xx")])
    assert "data.skipping=false" in str(without.explain())


def test_explain_says_why_an_expression_index_is_not_asked() -> None:
    storage = table_of(9, {})
    for info in storage.list_recursive(".hoodie/metadata/expr_index_by_year"):
        if info.size > 200:
            storage.put(info.path, storage.read(info.path)[:-700] + bytes(700))
    scan = open_table(storage).scan(["id"], where=pc.year(FIELD("day")) == 2008)
    with pytest.warns(MetadataTableWarning, match=r"indexes\.refresh\('expr_index_by_year'\)"):
        assert scan.count() == 2
    assert "expr_index_by_year: 0 file slices left out by year(day); the metadata table cannot be read" in str(
        scan.explain()
    )


def test_time_travel_and_changes_ask_what_indexes_know_of_their_files() -> None:
    storage = shared(9, {})
    table = open_table(storage)
    first = table.handle.state.timeline.completed_writes[1].requested_time
    where = pc.year(FIELD("day")) == 2004
    before = table.scan(["id"], where, as_of=first)
    assert before.count() == 2
    assert any(use.file_slices for use in before.explain().indexes)
    changed = table.changes(where=where)
    assert set(changed.to_arrow()["id"].to_pylist()) == {2, 3}
    assert any(use.index.startswith("expr_index_by_year") for use in changed.explain().indexes)


OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
PATTERNS = {"yyyy": "%Y", "yyyy-MM": "%Y-%m", "yyyy-MM-dd": "%Y-%m-%d", "yyyy/MM/dd HH:mm:ss": "%Y/%m/%d %H:%M:%S"}
ZONES = ("Pacific/Kiritimati", "Pacific/Niue", "UTC", "America/New_York", "Asia/Kathmandu")


@pytest.mark.parametrize("seed", range(4))
def test_what_holds_in_one_time_zone_is_demanded_in_no_other(seed: int) -> None:
    chance = random.Random(seed)
    decided = 0
    for _ in range(1_500):
        time = dt.datetime.fromtimestamp(chance.randrange(-25_000_000_000, 200_000_000_000), dt.UTC)
        other = time + dt.timedelta(seconds=int(chance.gauss(0, 10 ** chance.uniform(1, 8))))
        asked, made = (ZoneInfo(zone) for zone in chance.sample(ZONES, 2))
        pattern, form = chance.choice(list(PATTERNS.items()))
        expression = chance.choice(
            [
                IndexedExpression("year", "c", pa.timestamp("us", "UTC")),
                IndexedExpression("month", "c", pa.timestamp("us", "UTC")),
                IndexedExpression("from_unixtime", "c", pa.int64(), (("format", pattern),)),
                IndexedExpression("date_format", "c", pa.timestamp("us", "UTC"), (("format", pattern),)),
            ]
        )
        value, literal, stored = (_value(expression, moment, form) for moment in (
            time.astimezone(asked), other.astimezone(asked), time.astimezone(made)
        ))  # fmt: skip
        if isinstance(literal, str):
            literal = literal[: chance.choice([len(literal), 4, 7, 3])]
        sign = chance.choice([*OPERATORS, "in"])
        holds = value in (literal, "x") if sign == "in" else OPERATORS[sign](value, literal)
        scalar = pa.scalar(literal, expression.kind)
        test = Comparison(expression.name, sign, (scalar,) if sign == "in" else scalar)
        found = _may_match(certain(test, [expression]), expression, stored)
        assert found or not holds, (expression.label, value, sign, literal, stored)
        decided += not found
    assert decided > 100


def _value(expression: IndexedExpression, moment: dt.datetime, form: str) -> Any:
    return getattr(moment, expression.function) if expression.function in ("year", "month") else moment.strftime(form)


def _may_match(predicate: Predicate, expression: IndexedExpression, value: Any) -> bool:
    stored = pa.array([value], expression.kind)
    known = ColumnBounds.of(stored, stored, no_nulls=np.ones(1, np.bool_))
    return bool(may_match(predicate, {expression.name: known}, 1)[0])


LOWER = IndexedExpression("lower", "name", pa.string())
OF_DATE = IndexedExpression("date_format", "day", pa.date32(), (("format", "yyyy-MM"),))


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        (Comparison(LOWER.name, "==", pa.scalar("ä")), AllOf(())),
        (Comparison(LOWER.name, "==", pa.scalar("a")), Comparison(LOWER.name, "==", pa.scalar("a"))),
        (TextTest(LOWER.name, "contains", "b"), TextTest(LOWER.name, "contains", "b")),
        (NullTest(LOWER.name, is_null=True), NullTest(LOWER.name, is_null=True)),
        (Comparison(OF_DATE.name, "!=", pa.scalar("x")), Comparison(OF_DATE.name, "!=", pa.scalar("x"))),
    ],
)
def test_tests_stay_as_they_are_where_all_readers_agree(test: Any, expected: Predicate) -> None:
    assert certain(test, [LOWER, OF_DATE]) == expected


@pytest.mark.parametrize(
    "condition",
    [
        pc.year(FIELD("at")) == FIELD("id"),
        pc.add(pc.year(FIELD("day")), 1) == 2008,
        pc.ascii_lower(FIELD("name")) > "a",
        pc.utf8_lower(FIELD("name")) == "i",
        pc.ascii_lower(FIELD("name")) == "ä",
        pc.ascii_lower(FIELD("city")) == "a",
        pc.year(FIELD("day")).isin([2000]),
        pc.is_null(pc.year(FIELD("day"))),
        FIELD("name") == '(year(day) == 2000) and (ascii_lower(name) == "a")',
        pc.equal(pc.if_else(FIELD("x"), "(year(day)", "b"), "2000) or ("),
    ],
    ids=str,
)
def test_conditions_that_are_not_told_exactly_demand_nothing(condition: pc.Expression) -> None:
    year = IndexedExpression("year", "day", pa.date32())
    assert predicate_of_calls(condition, [LOWER, year]) == AllOf(())


def test_a_column_with_a_strange_name_is_not_told() -> None:
    strange = IndexedExpression("year", "a) == 1) and (b", pa.date32())
    assert predicate_of_calls(pc.year(FIELD("a) == 1) and (b")) == 2000, [strange]) == AllOf(())


def test_handle_of_a_table_without_indexes_reads_no_definitions() -> None:
    storage = FaultStorage(MemoryStorage())
    new_table(storage, schema=SCHEMA, **{"hoodie.table.ordering.fields": "number"}).insert(batch(0))
    storage.operations.clear()
    assert open_table(storage).scan(where=pc.year(FIELD("day")) == 2000).count() == 2
    assert not any("index_defs" in one.path for one in storage.operations)
