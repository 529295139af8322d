"""Functions over columns in filters of Spark, as its optimizer leaves them, under the names that indexes give them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pyhudi.read.skipping.expressions import Options, normalized

REPLACED: Final = "\ufffd"
"""Stands for bytes that are no text, so that a value with it may be another one."""


@dataclass(frozen=True, slots=True)
class Node:
    """A node of an expression: its class without the package, its own fields, and the way to it from the root."""

    kind: str
    fields: dict[str, Any]
    children: tuple[Node, ...]
    way: tuple[int, ...]


def function_of(node: Node) -> tuple[str, Node, Options] | None:
    """Function, column and options of a node, as an index names them; None for all others."""
    known = _FUNCTIONS.get(node.kind)
    if known is None:
        return None
    function, names, cast = known
    column, *others = node.children
    if column.kind == "Cast" and (_spark_type(column.children[0]), column.fields.get("dataType")) in cast:
        (column,) = column.children
    if column.kind != "AttributeReference" or len(others) > len(names):
        return None
    texts = [_literal(one) for one in others]
    if any(text is None for text in texts):
        return None
    options = {name: str(text) for name, text in zip(names, texts, strict=False)}
    # Not of an index: from which character on a pattern is replaced.
    return None if options.pop("", "1") != "1" else (function, column, normalized(function, options))


def _spark_type(node: Node) -> Any:
    return node.fields.get("dataType")


def _literal(node: Node) -> str | None:
    text = node.fields.get("value") if node.kind == "Literal" else None
    return text if isinstance(text, str) and REPLACED not in text else None


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
