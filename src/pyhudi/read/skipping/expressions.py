"""Expressions that a table has indexes of, as further columns of predicates.

An index does not say in which time zone its values were computed, and a reader may have another one. So what a filter
demands of the clock of one zone is widened to all zones: they are at most 36 hours apart.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.format.metadata_table.expressions import DEFAULT_FORMAT, FUNCTIONS, IDENTITY, format_of, result_type
from pyhudi.format.metadata_table.index_definitions import IndexDefinition
from pyhudi.read.skipping.comparisons import Comparison
from pyhudi.read.skipping.predicates import AllOf, AnyOf, NullTest, Predicate, TextTest
from pyhudi.table.index_definitions import load_index_definitions
from pyhudi.table.metadata_partitions import EXPRESSION_INDEX_PREFIX
from pyhudi.table.state import TableState

_DEFAULTS: Final = {
    "trim": {"trimString": " "},
    "ltrim": {"trimString": " "},
    "rtrim": {"trimString": " "},
    "from_unixtime": {"format": DEFAULT_FORMAT},
}
_APART: Final = dt.timedelta(hours=36)
_LONGEST: Final = {"%Y": 366, "%m": 31}
"""The days of the largest unit that a text leaves open; those of others are at most one."""
_FIRST: Final = {"%Y": "0001", "%m": "01", "%d": "01", "%H": "00", "%M": "00", "%S": "00"}
"""What completes a text that is cut off."""
_YEARS: Final = (1001, 9998)
"""Years of four digits, also in the next time zone."""
_BETWEEN: Final = "-/:., _"
_ANYTHING: Final[Predicate] = AllOf(())
_OF_CASE: Final = frozenset({"lower", "upper"})
_OF_CLOCKS: Final = frozenset({"year", "month", "day", "hour", "date_format", "from_unixtime"})
Options = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class IndexedExpression:
    """A function over a column, with its options, that an index is over. `column_type`: its type in the table."""

    function: str
    column: str
    column_type: pa.DataType
    options: Options = ()

    @property
    def name(self) -> str:
        """Its name in predicates, which no column of a table has."""
        return f"\0{self.label}"

    @property
    def label(self) -> str:
        """Its text for a user."""
        return f"{self.function}({', '.join([self.column, *(f'{key}={value}' for key, value in self.options)])})"

    @property
    def kind(self) -> pa.DataType:
        """The type of its values."""
        return result_type(self.function, self.column_type)

    @property
    def pattern(self) -> str:
        """The pattern of its texts of times."""
        return dict(self.options).get("format", "")

    @property
    def is_of_a_clock(self) -> bool:
        """Whether its values depend on the time zone in which they are computed."""
        if self.function not in _OF_CLOCKS or self.function == "from_unixtime":
            return self.function == "from_unixtime"
        if pa.types.is_date(self.column_type):
            return self.function == "date_format" and any(sign in self.pattern for sign in "Hhkms")
        is_local = pa.types.is_timestamp(self.column_type) and self.column_type.tz is None
        # Texts of local times are made by the clock of the session, which leaves out an hour of some days.
        return self.function == "date_format" or not is_local


def expression_of_definition(definition: IndexDefinition, schema: pa.Schema) -> IndexedExpression | None:
    """The expression of an index; None for one that reads do not ask."""
    function = definition.function
    if function not in FUNCTIONS or len(definition.source_columns) != 1:
        return None
    (column,) = definition.source_columns
    if column not in schema.names or pa.types.is_nested(kind := schema.field(column).type):
        return None
    if function == "unix_timestamp" and not (pa.types.is_timestamp(kind) and kind.tz is not None):
        return None  # the values of others depend on settings of the session
    if function == IDENTITY and pa.types.is_floating(kind):
        return None
    options = {key: text for key, text in definition.options.items() if key in FUNCTIONS[function].options}
    return IndexedExpression(function, column, kind, normalized(function, options))


def indexed_expressions(table: TableState, schema: pa.Schema) -> tuple[IndexedExpression, ...]:
    """The expressions that a table has indexes of. Cost: a read of the definitions, of a table that has some."""
    if not has_expression_indexes(table):
        return ()
    definitions = load_index_definitions(table)
    return tuple(dict.fromkeys(expression for _, expression in indexes_over_expressions(table, definitions, schema)))


def has_expression_indexes(table: TableState) -> bool:
    """Whether there are any. Cost: none."""
    return any(name.startswith(EXPRESSION_INDEX_PREFIX) for name in table.config.metadata_partitions)


def indexes_over_expressions(
    table: TableState, definitions: Mapping[str, IndexDefinition], schema: pa.Schema
) -> Iterator[tuple[IndexDefinition, IndexedExpression]]:
    """The expression indexes of a table that reads may ask, by name, and what they are over."""
    for name in sorted(table.config.metadata_partitions):
        definition = definitions.get(name) if name.startswith(EXPRESSION_INDEX_PREFIX) else None
        expression = None if definition is None else expression_of_definition(definition, schema)
        if definition is not None and expression is not None:
            yield definition, expression


def normalized(function: str, options: Mapping[str, str]) -> Options:
    """Options of a function in one form, with its defaults; those that change nothing are left out."""
    if function == "unix_timestamp":
        return ()
    return tuple(sorted({**_DEFAULTS.get(function, {}), **options}.items()))


def certain(predicate: Predicate, expressions: Iterable[IndexedExpression]) -> Predicate:
    """A predicate whose tests of expressions hold in whatever time zone and release of Java an index was made."""
    known = {expression.name: expression for expression in expressions}

    def of(part: Predicate) -> Predicate:
        if isinstance(part, AllOf | AnyOf):
            return type(part)(tuple(map(of, part.parts)))
        expression = known.get(part.column)
        return part if expression is None or isinstance(part, NullTest) else _certain(part, expression)

    return of(predicate)


def _certain(test: Comparison | TextTest, expression: IndexedExpression) -> Predicate:
    if expression.function in _OF_CASE and not _is_ascii(test):
        return _ANYTHING  # the case of other letters depends on the release of Java
    return _in_all_zones(test, expression) if expression.is_of_a_clock else test


def _in_all_zones(test: Comparison | TextTest, expression: IndexedExpression) -> Predicate:
    if isinstance(test, TextTest) or test.operator in ("!=", "not in"):
        return _ANYTHING
    if test.operator == "in":
        return AnyOf(tuple(_in_all_zones(Comparison(test.column, "==", value), expression) for value in test.value))
    widen = _WIDENED.get(expression.function)
    ends = None if widen is None else widen(test.value.as_py(), expression.pattern)
    if ends is None:
        return _ANYTHING
    low, high = (pa.scalar(end, expression.kind) for end in ends)
    from_low, to_high = Comparison(test.column, ">=", low), Comparison(test.column, "<=", high)
    if test.operator == "==":
        return AllOf((from_low, to_high))
    return to_high if test.operator in ("<", "<=") else from_low


def _is_ascii(test: Comparison | TextTest) -> bool:
    values = (test.text,) if isinstance(test, TextTest) else test.value
    return all(str(value).isascii() for value in (values if isinstance(values, tuple) else (values,)))


def _years(year: int, pattern: str) -> tuple[int, int]:
    del pattern
    return year - 1, year + 1


def _texts(text: str, pattern: str) -> tuple[str, str] | None:
    """The texts of a time in the westernmost and easternmost zone; a text that is cut off counts from its start."""
    form = format_of(pattern)
    is_cut = 0 < len(text) < len(pattern)
    if form is None or (is_cut and pattern[len(text) - 1] == pattern[len(text)]):
        return None  # a number that is cut off begins others, too
    whole = text + reduce(lambda first, sign: first.replace(sign, _FIRST[sign]), _FIRST, form)[len(text) :]
    try:
        time = dt.datetime.strptime(whole, form)  # noqa: DTZ007
    except ValueError:
        return None
    if not _YEARS[0] < time.year < _YEARS[1] or time.strftime(form) != whole:
        return None
    longest = next((days for sign, days in _LONGEST.items() if sign == form.rstrip(_BETWEEN)[-2:]), 1)
    return (time - _APART).strftime(form), (time + _APART + dt.timedelta(days=longest)).strftime(form)


_WIDENED: Final[Mapping[str, Callable[[Any, str], tuple[Any, Any] | None]]] = {
    "year": _years,
    "date_format": _texts,
    "from_unixtime": _texts,
}


def are_texts_of_four_digit_years(low: pa.Array, high: pa.Array) -> pa.BooleanArray:
    """Whether all texts of times between two lie in years of four digits, where they have the order of their times."""
    return pc.fill_null(pc.and_(pc.greater_equal(low, str(_YEARS[0])), pc.less(high, str(_YEARS[1] + 1))), False)
