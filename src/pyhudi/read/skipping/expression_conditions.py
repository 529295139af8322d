"""Demands of the condition of a scan on the expressions that a table has indexes of.

A condition tells a function over a column in one of two ways: as an equality of the column, which fixes the value of
every function over it, or, where it is an expression of Arrow, by the same function in Arrow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.format.metadata_table.expressions import IDENTITY, evaluated
from pyhudi.read.conditions import Condition, Where
from pyhudi.read.scan import ScanPlan
from pyhudi.read.skipping.all_indexes import Asked
from pyhudi.read.skipping.comparisons import Alternatives, Comparison
from pyhudi.read.skipping.expression_calls import told_by
from pyhudi.read.skipping.expressions import IndexedExpression, certain
from pyhudi.read.skipping.fixed_values import alternatives_of_where
from pyhudi.read.skipping.predicates import AllOf, AnyOf, Predicate

_VALUES_MAX = 1000


def asked_of_scan(plan: ScanPlan, where: Where, condition: Condition) -> Asked:
    """The condition of a scan as all indexes understand it."""
    alternatives = alternatives_of_where(where, plan.schema)
    if alternatives is not None:
        demanded = demanded_by_values(alternatives, plan.expressions)
    elif isinstance(where, pc.Expression):
        demanded = certain(told_by(where, plan.expressions), plan.expressions)
    else:
        demanded = AllOf(())
    return Asked(condition, alternatives, demanded)


def demanded_by_values(alternatives: Alternatives, expressions: Sequence[IndexedExpression]) -> Predicate:
    """What equalities of columns demand of functions over them."""
    if not expressions:
        return AllOf(())
    return certain(AnyOf(tuple(AllOf(tuple(_demanded(each, expressions))) for each in alternatives)), expressions)


def _demanded(comparisons: Sequence[Comparison], expressions: Sequence[IndexedExpression]) -> list[Predicate]:
    found: list[Predicate] = []
    for comparison in comparisons:
        for expression in expressions:
            if comparison.column == expression.column:
                found += _implied(comparison, expression)
    return found


def _implied(one: Comparison, expression: IndexedExpression) -> tuple[Comparison, ...]:
    """The test of a function over the column, if the comparison fixes its values exactly."""
    values = {"==": lambda: [one.value], "in": lambda: list(one.value)}.get(one.operator, list)()
    if expression.is_of_a_clock or not values or len(values) > _VALUES_MAX:
        return ()
    found = _values_of(values, expression)
    return () if found is None else (Comparison(expression.name, "in", found),)


def _values_of(values: list[Any], expression: IndexedExpression) -> tuple[pa.Scalar, ...] | None:
    try:
        given = pa.array(values, expression.column_type)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):  # no value of the column
        return None
    if expression.function == IDENTITY:
        return tuple(given)
    between = evaluated(expression.function, given, dict(expression.options))
    if between is None or not between.is_exact or between.low.null_count:
        return None
    return tuple(between.low)
