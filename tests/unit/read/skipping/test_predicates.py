"""What is known of the columns of files leaves out those without a matching row, and no other."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyhudi.format.metadata_table.bounds import ColumnBounds
from pyhudi.read.skipping.comparisons import Comparison
from pyhudi.read.skipping.predicates import AllOf, AnyOf, NullTest, Predicate, TextTest, may_match

INT, TEXT = pa.int64(), pa.string()
VALUES = [-1, 0, 1, 2, 3]
TEXTS = ["", "a", "ab", "b", "bab", "é", "\uffff", "\U00010000"]
Rows = list[dict[str, Any]]


def known(name: str, files: list[Rows], kind: pa.DataType, *, is_wide: bool = False) -> ColumnBounds:
    """The bounds of a column; `is_wide`: of some files nothing is known."""
    values = [[row[name] for row in rows if row[name] is not None] for rows in files]
    unknown = [is_wide and number % 3 == 2 for number in range(len(files))]
    return ColumnBounds.of(
        pa.array([min(each) if each and not no else None for each, no in zip(values, unknown, strict=True)], kind),
        pa.array([max(each) if each and not no else None for each, no in zip(values, unknown, strict=True)], kind),
        ~np.array([no or len(each) < len(rows) for each, rows, no in zip(values, files, unknown, strict=True)], bool),
        ~np.array([no or bool(each) for each, no in zip(values, unknown, strict=True)], bool),
    )


def holds(predicate: Predicate, row: dict[str, Any]) -> bool:
    """The meaning of a predicate for one row."""
    if isinstance(predicate, AllOf):
        return all(holds(part, row) for part in predicate.parts)
    if isinstance(predicate, AnyOf):
        return any(holds(part, row) for part in predicate.parts)
    value = row[predicate.column]
    if isinstance(predicate, NullTest):
        return (value is None) == predicate.is_null
    if value is None:
        return False
    if isinstance(predicate, TextTest):
        return predicate.text in value if predicate.operator == "contains" else value.endswith(predicate.text)
    wanted = predicate.value
    values = [each.as_py() for each in wanted] if isinstance(wanted, tuple) else [wanted.as_py()]
    first = values[0]
    return {
        "==": value == first,
        "!=": value != first,
        "<": value < first,
        "<=": value <= first,
        ">": value > first,
        ">=": value >= first,
        "in": value in values,
        "not in": value not in values,
    }[predicate.operator]


def comparisons(name: str, values: list[Any], kind: pa.DataType) -> st.SearchStrategy[Predicate]:
    scalars = st.sampled_from([pa.scalar(value, kind) for value in values])
    one = st.builds(Comparison, st.just(name), st.sampled_from(["==", "!=", "<", "<=", ">", ">="]), scalars)
    lists = st.lists(scalars, min_size=1, max_size=3).map(tuple)
    return one | st.builds(Comparison, st.just(name), st.sampled_from(["in", "not in"]), lists)


LEAVES = (
    comparisons("n", VALUES, INT)
    | comparisons("s", TEXTS, TEXT)
    | st.builds(NullTest, st.sampled_from(["n", "s"]), st.booleans())
    | st.builds(TextTest, st.just("s"), st.sampled_from(["contains", "ends with"]), st.sampled_from(TEXTS))
)
PREDICATES = st.recursive(
    LEAVES,
    lambda parts: (
        st.builds(AllOf, st.lists(parts, max_size=3).map(tuple))
        | st.builds(AnyOf, st.lists(parts, min_size=1, max_size=3).map(tuple))
    ),
    max_leaves=5,
)
ROWS = st.lists(
    st.fixed_dictionaries(
        {"n": st.none() | st.sampled_from(VALUES), "s": st.none() | st.sampled_from(sorted(TEXTS, key=str.encode))}
    ),
    min_size=1,
    max_size=3,
)


@given(st.lists(ROWS, min_size=1, max_size=6), PREDICATES, st.booleans())
def test_files_with_a_matching_row_are_never_left_out(files: list[Rows], predicate: Predicate, is_wide: bool) -> None:
    ranges = {"n": known("n", files, INT, is_wide=is_wide), "s": known("s", files, TEXT, is_wide=is_wide)}

    mask = may_match(predicate, ranges, len(files))

    assert mask.dtype == bool
    for may, rows in zip(mask.tolist(), files, strict=True):
        assert may or not any(holds(predicate, row) for row in rows)


@given(st.lists(ROWS.map(lambda rows: rows[:1]), min_size=1, max_size=6), LEAVES)
def test_files_of_one_known_row_are_left_out_exactly(files: list[Rows], predicate: Predicate) -> None:
    ranges = {"n": known("n", files, INT), "s": known("s", files, TEXT)}

    assert may_match(predicate, ranges, len(files)).tolist() == [holds(predicate, rows[0]) for rows in files]


@pytest.mark.parametrize(
    ("kind", "low", "high", "value"),
    [
        (pa.bool_(), True, True, False),
        (pa.date32(), dt.date(2024, 1, 1), dt.date(2024, 2, 1), dt.date(2024, 2, 2)),
        (pa.timestamp("us"), dt.datetime(2024, 1, 1), dt.datetime(2024, 2, 1), dt.datetime(2023, 2, 2)),
        (pa.decimal128(9, 2), Decimal("1.00"), Decimal("2.00"), Decimal("2.01")),
        (pa.float32(), -0.0, 0.5, 0.75),
        (pa.string(), "b", "c", "\U0001f600"),
    ],
    ids=str,
)
def test_bounds_of_all_types_are_compared(kind: pa.DataType, low: object, high: object, value: object) -> None:
    one = ColumnBounds.of(pa.array([low], kind), pa.array([high], kind), np.array([True]))

    assert may_match(Comparison("c", "==", pa.scalar(low, kind)), {"c": one}, 1).tolist() == [True]
    assert may_match(Comparison("c", "==", pa.scalar(value, kind)), {"c": one}, 1).tolist() == [False]


def test_a_list_that_is_too_long_is_compared_by_its_ends() -> None:
    bounds = ColumnBounds.of(pa.array([0, 5000]), pa.array([9, 5009]), np.ones(2, bool))
    wanted = tuple(pa.scalar(number) for number in range(4000, 9000, 2))

    assert may_match(Comparison("n", "in", wanted), {"n": bounds}, 2).tolist() == [False, True]


def test_both_zeros_are_equal() -> None:
    zeros = ColumnBounds.of(pa.array([0.0]), pa.array([0.0]), np.array([True]))

    assert may_match(Comparison("f", "==", pa.scalar(-0.0)), {"f": zeros}, 1).tolist() == [True]
    assert may_match(Comparison("f", "in", (pa.scalar(-0.0),)), {"f": zeros}, 1).tolist() == [True]
