"""Partition columns: what is shown of them, and that a condition on them finds what is shown."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import hypothesis
import hypothesis.strategies as st
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from tests.interop.compare import assert_same_rows
from tests.support.golden import unpacked

import pyhudi
from pyhudi.errors import UnsafePathError
from pyhudi.storage.memory import MemoryStorage

NAMES = ["v9-slash-dates", "v9-by-time-updated-by-sql", "v9-dropped-column", "v9-bulk-timestamp-key"]


@pytest.mark.parametrize("name", NAMES)
def test_partition_columns_of_a_table_of_jvm_hudi_are_what_it_shows(name: str, tmp_path: Path) -> None:
    folder = unpacked(f"keys/{name}", tmp_path)

    rows = pyhudi.HudiTable.for_path(str(folder / "table")).scan().to_arrow()

    assert_same_rows(pq.read_table(folder / "read.parquet"), rows)


@pytest.mark.parametrize(
    ("name", "where", "ids"),
    [
        ("v9-slash-dates", [("day", "==", "2024/01/31")], ["a"]),
        ("v9-slash-dates", [("day", "!=", "2024/01/31")], ["b"]),
        ("v9-slash-dates", [("day", "==", "2024-01-31")], []),
        ("v9-slash-dates", pc.field("day").is_null(), ["c"]),
        ("v9-by-time-updated-by-sql", [("p", "==", "1706695200500")], ["a"]),
        ("v9-by-time-updated-by-sql", [("p", "==", "1704067199000")], ["b"]),
        ("v9-by-time-updated-by-sql", pc.field("p").is_null(), ["c"]),
        ("v9-dropped-column", [("p", "==", "5")], ["a"]),
        ("v9-dropped-column", [("p", "not in", ["5"])], ["b"]),
        ("v9-dropped-column", pc.field("p").is_null(), ["c"]),
    ],
)
def test_condition_finds_the_partition_values_that_are_shown(
    name: str, where: Any, ids: list[str], tmp_path: Path
) -> None:
    table = pyhudi.HudiTable.for_path(str(unpacked(f"keys/{name}", tmp_path) / "table"))

    assert sorted(table.scan(["id"], where).to_arrow()["id"].to_pylist()) == ids


# -- pruning loses no row ----------------------------------------------------------------------------------------------

TEXTS = st.one_of(
    st.sampled_from(["", "a", "b", "a/b", "a/b=1", "b=1", "%2F", "a%20b", "1", "2024-01-31", "2024/01/31", " a ", "é"]),
    st.text(alphabet="ab/=%0 ,", max_size=5),
)
DAYS = st.dates(dt.date(1, 1, 1), dt.date(9999, 12, 31))
TYPES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "text": (pa.string(), TEXTS),
    "int": (pa.int64(), st.integers(-3, 3)),
    "day": (pa.date32(), DAYS),
    "flag": (pa.bool_(), st.booleans()),
    "float": (pa.float64(), st.floats(allow_nan=False)),
    "at": (pa.timestamp("us"), st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2200, 1, 1))),
}
OPERATORS = st.sampled_from(["==", "!=", "<", "<=", ">", ">=", "in", "not in"])


@st.composite
def questions(draw: st.DrawFn) -> tuple[pa.Table, list[str], dict[str, str], list[Any]]:
    """Rows, their partition columns, the options of the table, and a condition on those columns."""
    kinds = draw(st.lists(st.sampled_from(sorted(TYPES)), min_size=1, max_size=2))
    names = [chr(ord("a") + number) for number in range(len(kinds))]
    values = {name: st.one_of(st.none(), TYPES[kind][1]) for name, kind in zip(names, kinds, strict=True)}
    rows = draw(st.lists(st.fixed_dictionaries(values), min_size=1, max_size=6))
    schema = pa.schema([("id", pa.int64()), *((n, TYPES[k][0]) for n, k in zip(names, kinds, strict=True))])
    table = pa.Table.from_pylist([{"id": number, **row} for number, row in enumerate(rows)], schema=schema)
    flags = draw(st.tuples(st.booleans(), st.booleans()))
    options = dict(
        zip(
            ("hoodie.datasource.write.hive_style_partitioning", "hoodie.datasource.write.partitionpath.urlencode"),
            (str(flag).lower() for flag in flags),
            strict=True,
        )
    )
    name = draw(st.sampled_from(names))
    stored = [value for value in table[name].to_pylist() if value is not None]
    anything = TYPES[kinds[names.index(name)]][1]
    value = draw(st.one_of(st.sampled_from(stored), anything) if stored else anything)
    operator = draw(OPERATORS)
    return table, names, options, [(name, operator, [value] if "in" in operator else value)]


@hypothesis.settings(max_examples=60, deadline=None)
@hypothesis.given(questions())
def test_condition_on_partition_columns_finds_the_rows_that_it_finds_among_all_rows(
    question: tuple[pa.Table, list[str], dict[str, str], list[Any]],
) -> None:
    rows, partition_by, options, where = question
    storage = MemoryStorage()
    table = pyhudi.HudiTable.create(
        storage.uri, schema=rows.schema, record_key="id", partition_by=partition_by, hudi_options=options
    )
    try:
        table.insert(rows)
    except UnsafePathError:
        hypothesis.reject()
    table = table.refresh()
    ((name, operator, value),) = where

    found = table.scan(["id"], where).to_arrow()

    shown = table.scan().to_arrow()
    tests = {"==": pc.equal, "!=": pc.not_equal, "<": pc.less, "<=": pc.less_equal, ">": pc.greater}
    tests[">="] = pc.greater_equal
    if operator in tests:
        holds = tests[operator](shown[name], pa.scalar(value, shown.schema.field(name).type))
    else:
        within = pc.is_in(shown[name], pa.array(value, shown.schema.field(name).type))
        holds = within if operator == "in" else pc.and_not(pc.is_valid(shown[name]), within)
    assert sorted(found["id"].to_pylist()) == sorted(shown.filter(holds)["id"].to_pylist())
