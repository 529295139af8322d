"""Conditions as lists of comparisons, with one meaning for Arrow and for Spark.

    [("city", "==", "oslo"), ("fare", ">", 10)]     all hold
    [[("city", "==", "oslo")], [("fare", ">", 10)]] one of the lists holds

A null passes no comparison, as in SQL: neither `!=` nor `not in`. NaN is neither above nor below a number, so it passes
only `!=` and `not in`; `in` finds it if it is in the list. Values are compared as the column stores them: in a 32-bit
column 0.1 is the 32-bit 0.1.
"""

from __future__ import annotations

import datetime as dt
import math
import operator
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import reduce
from typing import Any, TypeAlias, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.format.schema.meta_columns import META_COLUMNS

OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
"""The operators that compare with one value; `=` is another spelling of `==`."""
_OF_LISTS = ("in", "not in")
_LIST_PRUNED_MAX = 50
"""Arrow leaves nothing out by the values of longer lists; by their range it does."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A column against a value, or with `in` and `not in` against a tuple of values."""

    column: str
    operator: str
    value: Any

    @property
    def expression(self) -> pc.Expression:
        """The comparison in Arrow."""
        field = pc.field(self.column)
        if self.operator in _OF_LISTS:
            found = _is_among(field, self.value)
            return found if self.operator == "in" else field.is_valid() & ~found
        return cast("pc.Expression", OPERATORS[self.operator](field, self.value))

    @property
    def equalities(self) -> Iterator[pc.Expression]:
        """One equality per Python type of the values of a list: Arrow would compare a text with numbers."""
        if self.operator in _OF_LISTS:
            yield from (
                pc.field(self.column) == value for value in {type(element): element for element in self.value}.values()
            )


def _is_among(field: pc.Expression, values: Sequence[Any]) -> pc.Expression:
    if not values:
        return pc.scalar(False)
    found = field.isin(list(values))
    if len(values) <= _LIST_PRUNED_MAX or any(value != value for value in values):  # noqa: PLR0124 - NaN
        return found
    try:
        return found & (field >= min(values)) & (field <= max(values))
    except TypeError:  # values of several types
        return found


Alternatives: TypeAlias = tuple[tuple[Comparison, ...], ...]
"""One of them holds; of each, all comparisons."""


def comparisons_of(where: Sequence[Any], schema: pa.Schema) -> Alternatives:
    """The comparisons of a condition.

    Raises `ValueError` or `TypeError` if it is not a condition, or has a value that cannot be compared.
    """
    if not isinstance(where, list | tuple):
        raise TypeError("it must be a list of (column, operator, value), or a list of such lists")
    alternatives = [where] if where and isinstance(where[0], tuple) else list(where)
    if not alternatives or not all(
        isinstance(alternative, list | tuple) and alternative for alternative in alternatives
    ):
        raise ValueError("it must be a list of (column, operator, value), or a list of such lists, none of them empty")
    return tuple(tuple(_comparison(part, schema) for part in alternative) for alternative in alternatives)


def expression_of(alternatives: Alternatives) -> pc.Expression:
    """The condition in Arrow."""
    return reduce(
        operator.or_,
        (reduce(operator.and_, (comparison.expression for comparison in alternative)) for alternative in alternatives),
    )


def _comparison(part: Any, schema: pa.Schema) -> Comparison:
    if not isinstance(part, list | tuple) or len(part) != 3 or not isinstance(part[0], str):
        raise ValueError(f"{part!r} is not (column, operator, value)")
    name, sign, value = part
    if name not in schema.names:
        columns = ", ".join(known for known in schema.names if known not in META_COLUMNS)
        raise ValueError(f"there is no column {name!r}: the columns are {columns}")
    kind = schema.field(name).type
    sign = "==" if sign == "=" else sign
    if sign in _OF_LISTS:
        if not isinstance(value, Collection) or isinstance(value, str | bytes | dict):
            raise TypeError(f"{name!r} {sign} needs a list of values, not {value!r}")
        return Comparison(name, sign, _with_both_zeros(tuple(_checked(name, element, kind) for element in value)))
    if sign not in OPERATORS:
        raise ValueError(
            f"{sign!r} is not an operator: the operators are {', '.join(['=', *OPERATORS, *_OF_LISTS])}; for all else"
            f" give an Arrow expression, such as pc.match_like(pc.field({name!r}), 'a%')"
        )
    if isinstance(value, float | np.floating) and math.isnan(value):
        raise ValueError(f"no number compares with NaN: ask for {name!r} in [NaN], or for is_nan() in an expression")
    return Comparison(name, sign, _checked(name, value, kind))


def _checked(name: str, value: Any, kind: pa.DataType) -> Any:
    """The value as the column would store it. Arrow says what else does not fit when the condition is bound."""
    value = value.as_py() if isinstance(value, pa.Scalar) else value
    if value is None:
        raise ValueError(f"nothing compares with None: ask for rows without {name!r} by pc.field({name!r}).is_null()")
    if pa.types.is_floating(kind) and isinstance(value, int | float | np.number) and not isinstance(value, bool):
        return float(value) if pa.types.is_float64(kind) else float(np.float32(value))
    if pa.types.is_decimal(kind) and isinstance(value, int | np.integer) and not isinstance(value, bool):
        # Arrow would give an integer nineteen digits, and find no decimal type for those and the column's fraction.
        return Decimal(int(value))
    is_instant = isinstance(value, dt.datetime)
    if (pa.types.is_date(kind) and is_instant) or (pa.types.is_timestamp(kind) and not is_instant):
        raise TypeError(f"{name!r} is of type {kind}, {value!r} is not")
    if pa.types.is_timestamp(kind) and (value.tzinfo is None) != (kind.tz is None):
        raise TypeError(f"{name!r} is of type {kind}; {value!r} has {'no' if value.tzinfo is None else 'a'} time zone")
    return value


def _with_both_zeros(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Both zeros: 0.0 and -0.0 are equal, but a lookup in a set may not find one by the other."""
    return (*values, 0.0, -0.0) if any(isinstance(element, float) and element == 0 for element in values) else values
