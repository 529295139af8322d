"""Demands of the condition of a scan on the expressions that a table has indexes of.

A condition tells a function over a column in one of two ways: as an equality of the column, which fixes the value of
every function over it, or, where it is an expression of Arrow, by the same function in Arrow.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.format.metadata_table.expressions import IDENTITY, evaluated
from pyhudi.read.conditions import Condition, Where
from pyhudi.read.scan import ScanPlan
from pyhudi.read.skipping.all_indexes import Asked
from pyhudi.read.skipping.comparisons import OPERATORS, Alternatives, Comparison
from pyhudi.read.skipping.expressions import IndexedExpression, certain
from pyhudi.read.skipping.fixed_values import alternatives_of_where
from pyhudi.read.skipping.predicates import AllOf, AnyOf, Predicate

_VALUES_MAX = 1000
_ANYTHING: Final[Predicate] = AllOf(())
_STRANGE: Final = re.compile(r"[^\w .$-]| and | or ")
"""In names of columns: a text with such a name may have several meanings."""
_LITERAL: Final = re.compile(r'-?\d{1,9}|"(?:\\.|[^"\\])*"')


def asked_of_scan(plan: ScanPlan, where: Where, condition: Condition) -> Asked:
    """The condition of a scan as all indexes understand it."""
    alternatives = alternatives_of_where(where, plan.schema)
    if alternatives is not None:
        demanded = demanded_by_values(alternatives, plan.expressions)
    elif isinstance(where, pc.Expression):
        demanded = certain(predicate_of_calls(where, plan.expressions), plan.expressions)
    else:
        demanded = AllOf(())
    return Asked(condition, alternatives, demanded)


def demanded_by_values(alternatives: Alternatives, expressions: Sequence[IndexedExpression]) -> Predicate:
    """What equalities of columns demand of functions over them."""
    if not expressions:
        return AllOf(())
    return certain(
        AnyOf(tuple(AllOf(tuple(_demanded(alternative, expressions))) for alternative in alternatives)), expressions
    )


def _demanded(comparisons: Sequence[Comparison], expressions: Sequence[IndexedExpression]) -> list[Predicate]:
    found: list[Predicate] = []
    for comparison in comparisons:
        for expression in expressions:
            if comparison.column == expression.column:
                found += _implied(comparison, expression)
    return found


def _implied(comparison: Comparison, expression: IndexedExpression) -> tuple[Comparison, ...]:
    """The test of a function over the column, if the comparison fixes its values exactly."""
    values = {"==": lambda: [comparison.value], "in": lambda: list(comparison.value)}.get(comparison.operator, list)()
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


def predicate_of_calls(condition: pc.Expression, expressions: Sequence[IndexedExpression]) -> Predicate:
    """What a condition demands of functions over columns, in the form of Arrow."""
    forms = {str(form): (expression, form) for expression in expressions for form in _forms(expression)}
    return _predicate_of_text(str(condition), forms) if forms else _ANYTHING


def _predicate_of_text(text: str, forms: Mapping[str, tuple[IndexedExpression, pc.Expression]]) -> Predicate:
    for word, join in (("and", AllOf), ("or", AnyOf)):
        parts = _split(text, f" {word} ")
        if len(parts) == 2:
            return join(tuple(_predicate_of_text(part, forms) for part in parts))
    for sign, compare in OPERATORS.items():
        left, found, right = text[1:-1].rpartition(f" {sign} ")
        if found and left in forms and _LITERAL.fullmatch(right):
            expression, form = forms[left]
            value = json.loads(right)
            if str(compare(form, value)) == text and _is_same_in_spark(expression, form, sign, value):
                return Comparison(expression.name, sign, pa.scalar(value, expression.kind))
    return _ANYTHING


def _split(text: str, word: str) -> list[str]:
    """The two sides of `(left word right)`, outside of further brackets and quotes; else the text itself."""
    depth, start = 0, 0
    if not text.startswith("("):
        return [text]
    while start < len(text):
        if text[start] == '"':
            quoted = re.compile(r'"(?:\\.|[^"\\])*"').match(text, start)
            if quoted is None:
                return [text]
            start = quoted.end()
            continue
        depth += {"(": 1, ")": -1}.get(text[start], 0)
        if depth == 1 and text.startswith(word, start):
            return [text[1:start], text[start + len(word) : -1]]
        start += 1
    return [text]


def _forms(expression: IndexedExpression) -> Iterator[pc.Expression]:
    make = _ARROW.get(expression.function)
    if make is None or _STRANGE.search(expression.column) or not _fits(expression):
        return
    yield from make(pc.field(expression.column), dict(expression.options))


def _fits(expression: IndexedExpression) -> bool:
    if expression.function in ("year", "month", "day", "hour"):
        return bool(pa.types.is_temporal(expression.column_type))
    return bool(pa.types.is_string(expression.column_type))


def _is_same_in_spark(expression: IndexedExpression, form: pc.Expression, sign: str, value: Any) -> bool:
    """Whether the comparison holds for the same rows in Spark. Arrow has other rules for case beyond ASCII."""
    if isinstance(value, str) is not pa.types.is_string(expression.kind):
        return False
    if expression.function not in ("lower", "upper"):
        return True
    # Of the letters that are an ASCII one in lower case, `İ` is another one in Java.
    is_whole = str(form).startswith("utf8_lower") and "i" in value
    return sign == "==" and value.isascii() and not is_whole


def _slice(field: pc.Expression, options: Mapping[str, str]) -> tuple[pc.Expression, ...]:
    place, length = int(options["pos"]), int(options["len"])
    if place < 0 or length < 0:
        return ()
    start = max(place - 1, 0)
    return (pc.utf8_slice_codeunits(field, start, start + length),)


def _trimmed(kernel: Callable[..., pc.Expression]) -> Callable[..., tuple[pc.Expression, ...]]:
    return lambda field, options: (kernel(field, options.get("trimString", " ")),)


_ARROW: Final[Mapping[str, Callable[[pc.Expression, Mapping[str, str]], Sequence[pc.Expression]]]] = {
    "lower": lambda field, _: (pc.ascii_lower(field), pc.utf8_lower(field)),
    "upper": lambda field, _: (pc.ascii_upper(field), pc.utf8_upper(field)),
    "length": lambda field, _: (pc.utf8_length(field),),
    "substring": _slice,
    "trim": _trimmed(pc.utf8_trim),
    "ltrim": _trimmed(pc.utf8_ltrim),
    "rtrim": _trimmed(pc.utf8_rtrim),
    "year": lambda field, _: (pc.year(field),),
    "month": lambda field, _: (pc.month(field),),
    "day": lambda field, _: (pc.day(field),),
    "hour": lambda field, _: (pc.hour(field),),
}
