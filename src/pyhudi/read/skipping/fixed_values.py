"""The values to which a condition fixes columns, in whatever form it was given.

Of one of the alternatives all comparisons hold for every row of the condition; they may hold for other rows, too.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.read.conditions import Where
from pyhudi.read.skipping.comparisons import Alternatives, Comparison, comparisons_of
from pyhudi.read.skipping.predicates import AllOf, AnyOf, Predicate

_ALTERNATIVES_MAX: Final = 100
"""Of a condition with more of them, parts are left out."""
_OPEN: Final[Alternatives] = ((),)
"""Nothing is demanded."""


def alternatives_of_where(where: Where, schema: pa.Schema) -> Alternatives | None:
    """Those of the condition of a scan; None where it is not a list of comparisons."""
    return None if where is None or isinstance(where, pc.Expression) else comparisons_of(where, schema)


def alternatives_of_predicate(predicate: Predicate) -> Alternatives:
    """Those of a predicate, with Python values. What is no comparison is left out, and what has too many of them."""
    if isinstance(predicate, AllOf):
        found = _OPEN
        for part in predicate.parts:
            more = alternatives_of_predicate(part)
            if len(found) * len(more) <= _ALTERNATIVES_MAX:
                found = tuple((*left, *right) for left, right in itertools.product(found, more))
        return found
    if isinstance(predicate, AnyOf):
        united = tuple(itertools.chain.from_iterable(map(alternatives_of_predicate, predicate.parts)))
        return united if len(united) <= _ALTERNATIVES_MAX else _OPEN
    return ((_with_python_values(predicate),),) if isinstance(predicate, Comparison) else _OPEN


def fixed_values(comparisons: Sequence[Comparison], column: str) -> Sequence[Any] | None:
    """The values that a column may have, if the comparisons fix it to some."""
    for comparison in comparisons:
        if comparison.column == column and comparison.operator == "==":
            return [comparison.value]
        if comparison.column == column and comparison.operator == "in":
            return list(comparison.value)
    return None


def _with_python_values(comparison: Comparison) -> Comparison:
    many = isinstance(comparison.value, tuple)
    values = tuple(
        value.as_py() if isinstance(value, pa.Scalar) else value
        for value in (comparison.value if many else (comparison.value,))
    )
    return replace(comparison, value=values if many else values[0])
