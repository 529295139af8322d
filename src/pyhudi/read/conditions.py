"""Conditions on rows, and the part of a condition by which a reader may prune with statistics."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.errors import ConfigError
from pyhudi.read.skipping.comparisons import Alternatives, comparisons_of, expression_of

Where: TypeAlias = "pc.Expression | Sequence[Any] | None"
"""A condition on rows: `[("city", "==", "oslo"), ("fare", ">", 10)]` (all hold), a list of such lists (one holds), or
an Arrow expression.

Operators: `==`, `!=`, `<`, `<=`, `>`, `>=`, `in`, `not in`. A row without a value passes no comparison, as in SQL.
"""
_BY_NUMBER = re.compile(r"\bFieldPath\(")
_QUOTED = re.compile(r'"(\\.|[^"\\])*"')
_FALSE_FOR_NAN = frozenset({"==", "<", "<=", ">", ">="})
"""Comparisons that no NaN passes, so it does not matter that statistics leave NaN out."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition that fits a schema.

    `prunes`: a consequence of it that may be compared with statistics; None if there is none. The statistics of
    floating-point columns may have left NaN out, and Arrow prunes by them as if there were none.
    """

    whole: pc.Expression
    prunes: pc.Expression | None

    @property
    def is_tested_by_pruning(self) -> bool:
        """Whether filtering by `prunes` alone gives exactly the rows of the condition."""
        return self.prunes is self.whole

    def also(self, other: pc.Expression) -> Condition:
        """Both hold. `other` has no floating-point columns."""
        whole = self.whole & other
        if self.is_tested_by_pruning:
            return Condition(whole, whole)
        return Condition(whole, other if self.prunes is None else self.prunes & other)


def condition_of(where: Where, schema: pa.Schema) -> Condition | None:
    """The condition, after applying it to no rows: its errors must not look like a damaged file.

    Raises `ConfigError` where the columns or their types do not fit.
    """
    if where is None:
        return None
    try:
        comparisons = None if isinstance(where, pc.Expression) else comparisons_of(where, schema)
        whole = where if comparisons is None else expression_of(comparisons)
        for part in [
            whole,
            *(
                equal
                for alternative in comparisons or ()
                for comparison in alternative
                for equal in comparison.equalities
            ),
        ]:
            _bind(part, schema)
        _require_truth(whole, schema)
    except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
        raise ConfigError(f"the table cannot be filtered by this condition: {error}") from error
    if comparisons is None and _names_a_number(whole):
        raise ConfigError("the condition names a column by its number, which differs between reads; name the column")
    floats = [field.name for field in schema if _has_floats(field.type)]
    if not floats or _binds(whole, _without(schema, floats)):
        return Condition(whole, whole)
    return Condition(whole, None) if comparisons is None else _of_comparisons(whole, comparisons, frozenset(floats))


def shown(where: Where) -> str | None:
    """A condition as a text for people; None where there is none."""
    try:
        return None if where is None else str(where)
    except UnicodeDecodeError:
        return "a condition with a long text"


def _names_a_number(expression: pc.Expression) -> bool:
    try:
        return _BY_NUMBER.search(_QUOTED.sub("", str(expression))) is not None
    except UnicodeDecodeError:  # Arrow cuts long texts in the middle of a character
        try:
            expression.__reduce__()
        except pa.ArrowNotImplementedError:
            return True
        return False


def _of_comparisons(whole: pc.Expression, alternatives: Alternatives, floats: frozenset[str]) -> Condition:
    prunable = tuple(
        tuple(
            comparison
            for comparison in alternative
            if comparison.column not in floats or comparison.operator in _FALSE_FOR_NAN
        )
        for alternative in alternatives
    )
    if prunable == alternatives:
        return Condition(whole, whole)
    return Condition(whole, expression_of(prunable) if all(prunable) else None)


def _has_floats(kind: pa.DataType) -> bool:
    if pa.types.is_nested(kind):
        return any(_has_floats(kind.field(number).type) for number in range(kind.num_fields))
    return bool(pa.types.is_floating(kind))


def columns_of(condition: pc.Expression, schema: pa.Schema) -> list[str]:
    """The columns of a condition. Arrow does not list them, but cannot bind the condition without one of them."""

    def found_in(names: list[str]) -> list[str]:
        if _binds(condition, _without(schema, names)):
            return []
        half = len(names) // 2
        return [*found_in(names[:half]), *found_in(names[half:])] if half else names

    return found_in(schema.names)


def _require_truth(condition: pc.Expression, schema: pa.Schema) -> None:
    import pyarrow.dataset as ds

    scanner = ds.Scanner.from_batches(iter(()), schema=schema, columns={"it": condition})
    kind = scanner.projected_schema.field("it").type
    if not pa.types.is_boolean(kind):
        raise TypeError(f"it is of type {kind}, not true or false")


def _without(schema: pa.Schema, names: Sequence[str]) -> pa.Schema:
    left_out = frozenset(names)
    return pa.schema([field for field in schema if field.name not in left_out])


def _binds(condition: pc.Expression, schema: pa.Schema) -> bool:
    try:
        _bind(condition, schema)
    except pa.ArrowInvalid:
        return False
    return True


def _bind(condition: pc.Expression, schema: pa.Schema) -> None:
    """Raise Arrow's error where a condition does not fit a schema."""
    import pyarrow.dataset as ds

    ds.Scanner.from_batches(iter(()), schema=schema, columns=[], filter=condition)
