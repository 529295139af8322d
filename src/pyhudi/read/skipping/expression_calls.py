"""Functions over columns in Arrow expressions, of those that indexes are over.

Arrow shows an expression as text alone. A part of the text is taken for a comparison only if that comparison, when it
is made anew, has the same text; all else demands nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.read.skipping.comparisons import OPERATORS, Comparison
from pyhudi.read.skipping.expressions import IndexedExpression
from pyhudi.read.skipping.predicates import AllOf, AnyOf, Predicate

_ANYTHING: Final[Predicate] = AllOf(())
_STRANGE: Final = re.compile(r"[^\w .$-]| and | or ")
"""In names of columns: a text with such a name may have several meanings."""
_LITERAL: Final = re.compile(r'-?\d{1,9}|"(?:\\.|[^"\\])*"')


def told_by(condition: pc.Expression, expressions: Sequence[IndexedExpression]) -> Predicate:
    """What a condition demands of functions over columns, in the form of Arrow."""
    forms = {str(form): (expression, form) for expression in expressions for form in _forms(expression)}
    return _told(str(condition), forms) if forms else _ANYTHING


def _told(text: str, forms: Mapping[str, tuple[IndexedExpression, pc.Expression]]) -> Predicate:
    for word, join in (("and", AllOf), ("or", AnyOf)):
        parts = _split(text, f" {word} ")
        if len(parts) == 2:
            return join(tuple(_told(part, forms) for part in parts))
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


def _forms(one: IndexedExpression) -> Iterator[pc.Expression]:
    make = _ARROW.get(one.function)
    if make is None or _STRANGE.search(one.column) or not _fits(one):
        return
    yield from make(pc.field(one.column), dict(one.options))


def _fits(one: IndexedExpression) -> bool:
    if one.function in ("year", "month", "day", "hour"):
        return bool(pa.types.is_temporal(one.column_type))
    return bool(pa.types.is_string(one.column_type))


def _is_same_in_spark(one: IndexedExpression, form: pc.Expression, sign: str, value: Any) -> bool:
    """Whether the comparison holds for the same rows in Spark. Arrow has other rules for case beyond ASCII."""
    if isinstance(value, str) is not pa.types.is_string(one.kind):
        return False
    if one.function not in ("lower", "upper"):
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
