"""Filters of Spark's optimizer as predicates, for leaving out files.

Spark prints an expression as JSON: one object per node, each before its children, in one call to the JVM. What is not
known here, or could mean something else than it seems, is left out of the predicate: it then leaves no file out. A
predicate is thus never narrower than its filter.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
from py4j.protocol import Py4JError

from pyhudi.read.skipping.comparisons import Comparison
from pyhudi.read.skipping.expressions import IndexedExpression, Options, certain, normalized
from pyhudi.read.skipping.predicates import AllOf, AnyOf, NullTest, Predicate, TextTest
from pyhudi.spark.types import spark_schema

_EXPRESSIONS = "org.apache.spark.sql.catalyst.expressions."
_COMPARISONS = {
    "EqualTo": "==",
    "EqualNullSafe": "==",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
}
_SWAPPED = {"==": "==", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_NEGATED = {"==": "!=", "in": "not in"}
_TEXT_TESTS = {"Contains": "contains", "EndsWith": "ends with"}
_FALSE_FOR_NAN = frozenset({"==", "in", "<", "<="})
"""The operators that NaN does not pass in Spark, where it is above all numbers."""
_LARGEST = "\U0010ffff"
_AFTER_SURROGATES = {"\ud7ff": "\ue000"}
_EPOCH = dt.date(1970, 1, 1)
REPLACED: Final = "\ufffd"
"""Stands for bytes that are no text, so that a value with it may be another one."""
_TO_DATE: Final = frozenset({("timestamp", "date"), ("timestamp_ntz", "date")})
_TO_TIME: Final = frozenset({("date", "timestamp"), ("timestamp_ntz", "timestamp")})
_TO_LONG: Final = frozenset({("integer", "long"), ("short", "long"), ("byte", "long")})
_NONE: Final[frozenset[tuple[str, str]]] = frozenset()
_FUNCTIONS: Final[Mapping[str, tuple[str, tuple[str, ...], frozenset[tuple[str, str]]]]] = {
    "Lower": ("lower", (), _NONE),
    "Upper": ("upper", (), _NONE),
    "Length": ("length", (), _NONE),
    "StringTrim": ("trim", ("trimString",), _NONE),
    "StringTrimLeft": ("ltrim", ("trimString",), _NONE),
    "StringTrimRight": ("rtrim", ("trimString",), _NONE),
    "Substring": ("substring", ("pos", "len"), _NONE),
    "RegExpReplace": ("regexp_replace", ("pattern", "replacement", ""), _NONE),
    "RegExpExtract": ("regexp_extract", ("pattern", "idx"), _NONE),
    "DateAdd": ("date_add", ("days",), _NONE),
    "DateSub": ("date_sub", ("days",), _NONE),
    "DateFormatClass": ("date_format", ("format",), _TO_TIME),
    "FromUnixTime": ("from_unixtime", ("format",), _TO_LONG),
    "UnixTimestamp": ("unix_timestamp", ("format",), _NONE),
    "ToUnixTimestamp": ("unix_timestamp", ("format",), _NONE),
    "Year": ("year", (), _TO_DATE),
    "Month": ("month", (), _TO_DATE),
    "DayOfMonth": ("day", (), _TO_DATE),
    "Hour": ("hour", (), _NONE),
}
"""Of a class of Spark: the function, the options that its further children are, and casts of the column beneath it."""


@dataclass(frozen=True, slots=True)
class Node:
    """A node of an expression: its class without the package, its own fields, and the way to it from the root."""

    kind: str
    fields: dict[str, Any]
    children: tuple[Node, ...]
    way: tuple[int, ...]


def predicate_of(filters: Sequence[Any], schema: pa.Schema, expressions: Sequence[IndexedExpression] = ()) -> Predicate:
    """What filters on the rows of a scan of `schema` demand together, as far as it is known.

    `filters`: expressions in the driver's JVM. `expressions`: functions over columns, which the predicate has as
    further columns. Cost: one call to the JVM per filter, and some for each value that the printed expression does not
    show exactly.
    """
    schema = pa.schema([*schema, *(pa.field(expression.name, expression.kind) for expression in expressions)])
    spark_types = {field.name: field.dataType.jsonValue() for field in spark_schema(schema).fields}
    named = {
        (expression.function, expression.column, expression.options): expression.name for expression in expressions
    }
    parts = [_Translation(expression, schema, spark_types, named).predicate() for expression in filters]
    return certain(AllOf(tuple(part for part in parts if part is not None)), expressions)


@dataclass(frozen=True, slots=True)
class _Translation:
    """The translation of one filter: its expression in the JVM, the columns of the scan, and their types in Spark.

    `named`: the names of functions over columns, which are further columns.
    """

    expression: Any
    schema: pa.Schema
    spark_types: dict[str, Any]
    named: Mapping[tuple[str, str, Options], str]

    def predicate(self) -> Predicate | None:
        """The filter's predicate, None if nothing is known of it."""
        try:
            return self._of(_tree(iter(json.loads(self.expression.toJSON())), ()))
        except (Py4JError, ValueError, RecursionError):  # Spark cannot print all functions; or it is too deep
            return None

    def _of(self, node: Node) -> Predicate | None:
        translate = _TRANSLATIONS.get(node.kind)
        return None if translate is None else translate(self, node)

    def _all(self, node: Node) -> Predicate | None:
        known = [part for part in map(self._of, node.children) if part is not None]
        return AllOf(_flat(known, AllOf)) if known else None

    def _any(self, node: Node) -> Predicate | None:
        parts = [self._of(child) for child in node.children]
        known = [part for part in parts if part is not None]
        return AnyOf(_flat(known, AnyOf)) if len(known) == len(parts) else None

    def _null_test(self, node: Node) -> Predicate | None:
        name = self._column(node.children[0])
        return None if name is None else NullTest(name, is_null=node.kind == "IsNull")

    def _negated(self, parent: Node) -> Predicate | None:
        node = parent.children[0]
        if node.kind == "AttributeReference":
            return self._truth(node, is_true=False)
        # Not `<=>`: nulls pass its negation, and no comparison.
        positive = self._comparison(node) if node.kind != "EqualNullSafe" else None
        if positive is None or positive.operator not in _NEGATED or self._has_nan(positive.column):
            return None
        return Comparison(positive.column, _NEGATED[positive.operator], positive.value)

    def _comparison(self, node: Node) -> Comparison | None:
        if node.kind in ("In", "InSet"):
            return self._in(node)
        sign = _COMPARISONS.get(node.kind)
        if sign is None:
            return None
        left, right = node.children
        if left.kind == "Literal":
            left, right, sign = right, left, _SWAPPED[sign]
        name, value = self._column(left), None
        if name is not None and right.kind == "Literal":
            value = self._value(name, right)
        if name is None or value is None or (self._has_nan(name) and sign not in _FALSE_FOR_NAN):
            return None
        return Comparison(name, sign, value)

    def _in(self, node: Node) -> Comparison | None:
        name = self._column(node.children[0])
        if name is None:
            return None
        if node.kind == "InSet":
            values = self._values_of_set(name, node)
        else:
            values = [self._value(name, child) if child.kind == "Literal" else None for child in node.children[1:]]
        return None if not values or any(value is None for value in values) else Comparison(name, "in", tuple(values))

    def _truth(self, node: Node, *, is_true: bool) -> Comparison | None:
        name = self._column(node)
        if name is None or not pa.types.is_boolean(self.schema.field(name).type):
            return None
        return Comparison(name, "==", pa.scalar(is_true))

    def _prefix(self, node: Node) -> Predicate | None:
        name, text = self._column(node.children[0]), node.children[1]
        if name is None or text.kind != "Literal" or (low := self._value(name, text)) is None:
            return None
        kind = self.schema.field(name).type
        from_low, after = Comparison(name, ">=", low), _after_prefix(low.as_py())
        return from_low if after is None else AllOf((from_low, Comparison(name, "<", pa.scalar(after, kind))))

    def _text_test(self, node: Node) -> Predicate | None:
        name, text = self._column(node.children[0]), node.children[1]
        if name is None or text.kind != "Literal" or (value := self._value(name, text)) is None:
            return None
        return TextTest(name, _TEXT_TESTS[node.kind], value.as_py())

    def _column(self, node: Node) -> str | None:
        """The name of the column, or of the function over one, that a node is, if it has the type of the scan's."""
        if node.kind != "AttributeReference":
            function, column, options = function_of(node) or ("", None, ())
            of = None if column is None else self._column(column)
            return None if of is None else self.named.get((function, of, options))
        name = node.fields["name"]
        is_known = name in self.spark_types and node.fields["dataType"] == self.spark_types[name]
        return name if is_known and not pa.types.is_nested(self.schema.field(name).type) else None

    def _has_nan(self, name: str) -> bool:
        return bool(pa.types.is_floating(self.schema.field(name).type))

    def _value(self, name: str, node: Node) -> pa.Scalar | None:
        """A literal as a value of a column; None if it is null, or not certain."""
        text, spark_type = node.fields["value"], node.fields["dataType"]
        if text is None or spark_type != self.spark_types[name]:
            return None
        if spark_type in ("timestamp", "timestamp_ntz"):
            # Printed in the session's time zone, in which a text may stand for two times.
            text = str(self._at(node.way).value())
        return _scalar(text, spark_type, self.schema.field(name).type)

    def _values_of_set(self, name: str, node: Node) -> list[pa.Scalar | None]:
        """The values of a set of Spark, which JSON does not show. Cost: two calls to the JVM, and one per level."""
        between, spark_type = f"\n{uuid.uuid4().hex}\n", self.spark_types[name]
        texts = self._at(node.way).hset().mkString(between).split(between)
        if spark_type == "date":
            texts = [str(_EPOCH + dt.timedelta(int(text))) for text in texts if text != "null"]
        elif spark_type != "string":
            texts = [text for text in texts if text != "null"]
        return [_scalar(text, spark_type, self.schema.field(name).type) for text in texts]

    def _at(self, way: Iterable[int]) -> Any:
        node = self.expression
        for number in way:
            node = node.children().apply(number)
        return node


def _tree(nodes: Iterator[dict[str, Any]], way: tuple[int, ...]) -> Node:
    """The next node and all below it."""
    fields = next(nodes)
    count = fields["num-children"]
    children = tuple(_tree(nodes, (*way, number)) for number in range(count))
    return Node(fields["class"].removeprefix(_EXPRESSIONS), fields, children, way)


def _flat(parts: Iterable[Predicate], kind: type[AllOf | AnyOf]) -> tuple[Predicate, ...]:
    """The parts, with their own parts in the place of those of the same kind: Spark's nodes have two children."""
    return tuple(leaf for part in parts for leaf in (part.parts if isinstance(part, kind) else (part,)))


def _scalar(text: str, spark_type: Any, kind: pa.DataType) -> pa.Scalar | None:
    """A value of Spark as one of Arrow; None if it is not one, or not exactly."""
    parse = _PARSERS.get(str(spark_type).partition("(")[0])
    try:
        return None if parse is None else parse(text, kind)
    except (pa.ArrowException, KeyError, ValueError, OverflowError, InvalidOperation):
        return None


def _text(text: str, kind: pa.DataType) -> pa.Scalar | None:
    return None if REPLACED in text else pa.scalar(text, kind)


def _number(text: str, kind: pa.DataType) -> pa.Scalar | None:
    number = float(text) if pa.types.is_float64(kind) else float(np.float32(text))
    return None if math.isnan(number) else pa.scalar(number, kind)


def _time(text: str, kind: pa.DataType) -> pa.Scalar:
    return pa.scalar(int(text), pa.timestamp("us", kind.tz)).cast(kind)


def _integer(text: str, kind: pa.DataType) -> pa.Scalar:
    return pa.scalar(int(text), kind)


_PARSERS: dict[str, Callable[[str, pa.DataType], pa.Scalar | None]] = {
    "string": _text,
    "boolean": lambda text, kind: pa.scalar({"true": True, "false": False}[text], kind),
    "byte": _integer,
    "short": _integer,
    "integer": _integer,
    "long": _integer,
    "float": _number,
    "double": _number,
    "date": lambda text, kind: pa.scalar(dt.date.fromisoformat(text), kind),
    "timestamp": _time,
    "timestamp_ntz": _time,
    "decimal": lambda text, kind: pa.scalar(Decimal(text), kind),
}


def _after_prefix(prefix: str) -> str | None:
    """The least text above all texts with this prefix, by code points; None if there is none."""
    kept = prefix.rstrip(_LARGEST)
    if not kept:
        return None
    last = _AFTER_SURROGATES.get(kept[-1], chr(ord(kept[-1]) + 1))
    return kept[:-1] + last


_TRANSLATIONS: dict[str, Callable[[_Translation, Node], Predicate | None]] = {
    "And": _Translation._all,
    "Or": _Translation._any,
    "Not": _Translation._negated,
    "IsNull": _Translation._null_test,
    "IsNotNull": _Translation._null_test,
    "AttributeReference": partial(_Translation._truth, is_true=True),
    "StartsWith": _Translation._prefix,
    "Contains": _Translation._text_test,
    "EndsWith": _Translation._text_test,
    "In": _Translation._comparison,
    "InSet": _Translation._comparison,
    **dict.fromkeys(_COMPARISONS, _Translation._comparison),
}


def function_of(node: Node) -> tuple[str, Node, Options] | None:
    """Function, column and options of a node, as an index names them; None for all others."""
    known = _FUNCTIONS.get(node.kind)
    if known is None:
        return None
    function, names, cast = known
    column, *others = node.children
    if column.kind == "Cast" and (column.children[0].fields.get("dataType"), column.fields.get("dataType")) in cast:
        (column,) = column.children
    if column.kind != "AttributeReference" or len(others) > len(names):
        return None
    texts = [_literal(other) for other in others]
    if any(text is None for text in texts):
        return None
    options = {name: str(text) for name, text in zip(names, texts, strict=False)}
    # Not of an index: from which character on a pattern is replaced.
    return None if options.pop("", "1") != "1" else (function, column, normalized(function, options))


def _literal(node: Node) -> str | None:
    text = node.fields.get("value") if node.kind == "Literal" else None
    return text if isinstance(text, str) and REPLACED not in text else None
