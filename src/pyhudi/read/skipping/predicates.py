"""Predicates that leave out files without a row that a filter keeps, by what is known of their columns.

A predicate holds for every row that the filter keeps, and may hold for others: a file is left out only if it holds for
none of its rows. What is known of a column in several files is a `ColumnBounds`: of the values in a partition path, of
footers, or of an index. What is unknown leaves no file out. Conditions in Arrow, whose parts only Arrow knows, are
judged by the same bounds in `column_statistics`.

    predicate  := Comparison | NullTest | TextTest | AllOf | AnyOf
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_, or_
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.format.metadata_table.bounds import ColumnBounds
from pyhudi.read.skipping.comparisons import Comparison

Mask: TypeAlias = npt.NDArray[np.bool_]
"""One truth value per file."""

_VALUES_ONE_BY_ONE_MAX = 1000
"""The longest list of `in` whose values are compared one by one; of a longer one the smallest and greatest are."""
_EQUALITIES_MAX = 100
"""The longest list of `in` that Arrow gets as equalities."""


@dataclass(frozen=True, slots=True)
class NullTest:
    """Whether a column is null (`is_null`), or has a value."""

    column: str
    is_null: bool


@dataclass(frozen=True, slots=True)
class TextTest:
    """Whether a text "contains" another one, or "ends with" it."""

    column: str
    operator: str
    text: str


@dataclass(frozen=True, slots=True)
class AllOf:
    """All parts hold. Of no parts: true."""

    parts: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """One of the parts holds."""

    parts: tuple[Predicate, ...]


Predicate: TypeAlias = "Comparison | NullTest | TextTest | AllOf | AnyOf"
"""The values of comparisons are scalars of the column's type, never null. Of floating-point columns only `==`, `in`,
`<` and `<=` with numbers may be in it, which no NaN passes: bounds leave NaN out."""


def columns_of_predicate(predicate: Predicate) -> frozenset[str]:
    """The columns that a predicate asks about."""
    if isinstance(predicate, AllOf | AnyOf):
        return frozenset().union(*(columns_of_predicate(part) for part in predicate.parts))
    return frozenset({predicate.column})


def expression_of_predicate(predicate: Predicate, columns: Collection[str]) -> pc.Expression:
    """A predicate in Arrow. Tests of other columns than these are left out, as if they were true."""
    if isinstance(predicate, AllOf):
        return reduce(and_, (expression_of_predicate(part, columns) for part in predicate.parts), pc.scalar(True))
    if isinstance(predicate, AnyOf):
        return reduce(or_, (expression_of_predicate(part, columns) for part in predicate.parts))
    return _expression_of_test(predicate) if predicate.column in columns else pc.scalar(True)


def _expression_of_test(test: Comparison | NullTest | TextTest) -> pc.Expression:
    field = pc.field(test.column)
    if isinstance(test, NullTest):
        return field.is_null() if test.is_null else field.is_valid()
    if isinstance(test, TextTest):
        return _TEXT_TESTS[test.operator](field, test.text)
    if test.operator == "in" and len(test.value) <= _EQUALITIES_MAX:
        # Arrow compares these with bounds, and takes both zeros for one.
        return reduce(or_, (field == value for value in test.value))
    return test.expression


def may_match(predicate: Predicate, bounds: Mapping[str, ColumnBounds], files: int) -> Mask:
    """Which files can have rows for which the predicate holds. Nothing is known of columns that `bounds` lacks."""
    return reduce(np.logical_and, (~known.is_empty for known in bounds.values()), _may_match(predicate, bounds, files))


def _may_match(predicate: Predicate, bounds: Mapping[str, ColumnBounds], files: int) -> Mask:
    if isinstance(predicate, AllOf):
        return reduce(np.logical_and, (_may_match(part, bounds, files) for part in predicate.parts), _all(files))
    if isinstance(predicate, AnyOf):
        return reduce(np.logical_or, (_may_match(part, bounds, files) for part in predicate.parts))
    known = bounds.get(predicate.column)
    return _all(files) if known is None else _may_hold(predicate, known)


def _may_hold(test: Comparison | NullTest | TextTest, known: ColumnBounds) -> Mask:
    if isinstance(test, NullTest):
        return ~(known.no_nulls if test.is_null else known.only_nulls)
    may_hold = _may_contain(test, known) if isinstance(test, TextTest) else _TESTS[test.operator](test.value, known)
    return may_hold & ~known.only_nulls


def _may_contain(test: TextTest, known: ColumnBounds) -> Mask:
    """Only of files with one value something is known."""
    is_one = _mask(pc.fill_null(pc.equal(known.low, known.high), False))
    return ~is_one | _unless_false(_TEXT_TESTS[test.operator](known.low, test.text))


def _may_be_in(values: Sequence[pa.Scalar], known: ColumnBounds) -> Mask:
    if len(values) <= _VALUES_ONE_BY_ONE_MAX:
        return reduce(np.logical_or, (_may_equal(value, known) for value in values), ~_all(len(known.low)))
    ends = pc.min_max(pa.array([value.as_py() for value in values], known.low.type))
    return _unless_false(pc.less_equal(known.low, ends["max"])) & _unless_false(
        pc.greater_equal(known.high, ends["min"])
    )


def _may_be_outside(values: Sequence[pa.Scalar], known: ColumnBounds) -> Mask:
    return ~reduce(np.logical_or, (_has_only(value, known) for value in values), ~_all(len(known.low)))


def _may_equal(value: Any, known: ColumnBounds) -> Mask:
    return _unless_false(pc.less_equal(known.low, value)) & _unless_false(pc.greater_equal(known.high, value))


def _has_only(value: Any, known: ColumnBounds) -> Mask:
    """Whether all values of a file are this one."""
    same = pc.and_(pc.equal(known.low, value), pc.equal(known.high, value))
    return _mask(pc.fill_null(same, False))


def _unless_false(compared: pa.Array) -> Mask:
    return _mask(pc.fill_null(compared, True))


def _mask(truths: pa.Array) -> Mask:
    mask: Mask = truths.to_numpy(zero_copy_only=False)
    return mask


def _all(files: int) -> Mask:
    return np.ones(files, np.bool_)


_TESTS: dict[str, Callable[[Any, ColumnBounds], Mask]] = {
    "==": _may_equal,
    "!=": lambda value, known: ~_has_only(value, known),
    "<": lambda value, known: _unless_false(pc.less(known.low, value)),
    "<=": lambda value, known: _unless_false(pc.less_equal(known.low, value)),
    ">": lambda value, known: _unless_false(pc.greater(known.high, value)),
    ">=": lambda value, known: _unless_false(pc.greater_equal(known.high, value)),
    "in": _may_be_in,
    "not in": _may_be_outside,
}
_TEXT_TESTS: dict[str, Callable[[Any, str], Any]] = {
    "contains": pc.match_substring,
    "ends with": pc.ends_with,
}
