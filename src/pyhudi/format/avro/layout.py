"""Layouts: the binary encoding of the values of an Avro record schema, and their Arrow types.

`format.schema.avro_arrow` defines the supported schemas and their Arrow types. A layout adds the facts of the Avro
side: the null branch of a union, the width of a fixed, the symbols of an enum.

https://avro.apache.org/docs/1.11.1/specification/#binary-encoding
"""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa

from pyhudi.errors import CorruptDataError, UnsupportedFeatureError
from pyhudi.format.schema.avro_arrow import avro_to_arrow, is_null_type

UNION_BRANCHES_MAX: Final = 64
"""So many branches have numbers of one byte."""

SYMBOL_LENGTH_MAX: Final = 1024
"""The length limit of an enum symbol, which a single byte of a record expands to."""


_NULL_BYTES: Final = 8
_NULL_BYTES_FREE: Final = 16 << 20
_NULL_BYTES_PER_BYTE: Final = 64


def null_bytes_max(size: int) -> int:
    """The limit of Arrow memory for nulls in records of so many bytes.

    One byte can encode the null of a record with thousands of fields. Rows of ordinary tables also have values, so
    their nulls do not take many times their bytes.
    """
    return max(_NULL_BYTES_FREE, size * _NULL_BYTES_PER_BYTE)


class Kind(enum.Enum):
    """The encodings of values."""

    NULL = "no bytes"
    BOOLEAN = "one byte, 0 or 1"
    INT = "zigzag varint of 32 bits"
    LONG = "zigzag varint of 64 bits"
    FLOATING = "little-endian IEEE number of `size` bytes"
    TEXT = "length, UTF-8"
    BYTES = "length, bytes"
    FIXED = "`size` bytes"
    DECIMAL_FIXED = "big-endian two's complement of `size` bytes"
    DECIMAL_BYTES = "length, big-endian two's complement"
    ENUM = "number of the symbol, as an int"
    RECORD = "the fields one after the other"
    UNION = "number of the branch, its value"
    ARRAY = "blocks: count, items; then a count of 0"
    MAP = "as an array of key and value"


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The encoding of one type.

    `null_branch` and `value_branch` are the indexes in the union around the type, or None without a union. `children`
    are the fields of a record, the items of an array, the key and value of a map, or the branches of a union of
    several types; `names` are those of the fields or branches. `branches` are the indexes of these children in their
    union. `width_min` is the minimum bytes of a value, including the union. `null_bytes` are the approximate bytes of a
    null in Arrow, including those of all fields of a null record.
    """

    kind: Kind
    arrow: pa.DataType
    size: int = 0
    symbols: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    children: tuple[Layout, ...] = ()
    null_branch: int | None = None
    value_branch: int | None = None
    branches: tuple[int, ...] = ()
    null_bytes: int = field(init=False)

    def __post_init__(self) -> None:
        if self.kind in (Kind.RECORD, Kind.UNION):
            taken = sum(child.null_bytes for child in self.children)
        elif self.kind in (Kind.FIXED, Kind.DECIMAL_FIXED):
            taken = self.size
        else:
            taken = 0 if self.kind is Kind.NULL else _NULL_BYTES
        object.__setattr__(self, "null_bytes", taken)

    @property
    def is_union(self) -> bool:
        """Whether the value is preceded by a branch number."""
        return self.null_branch is not None or self.value_branch is not None

    @property
    def width_min(self) -> int:
        """The minimum bytes of a value."""
        if self.is_union or self.kind is Kind.UNION:
            return 1
        if self.kind is Kind.RECORD:
            return sum(child.width_min for child in self.children)
        if self.kind in (Kind.FLOATING, Kind.FIXED, Kind.DECIMAL_FIXED):
            return self.size
        return 0 if self.kind is Kind.NULL else 1


@dataclass(frozen=True, slots=True)
class RecordLayout:
    """The layout of a block's records, and the Arrow schema of its rows."""

    schema: pa.Schema
    record: Layout


@lru_cache(maxsize=64)
def record_layout(avro_schema: str, *, with_unions: bool = False) -> RecordLayout:
    """The layout of a record schema. Kept for the latest schemas: the blocks of a table share very few of them.

    `with_unions`: see `avro_to_arrow`.

    Raises:
        CorruptDataError, UnsupportedFeatureError: as `avro_to_arrow`, and for an array whose
            items take no bytes, by which a few bytes could ask for endless work.
    """
    schema = avro_to_arrow(avro_schema, source="", with_unions=with_unions)
    return RecordLayout(schema, _Compiler().type_of(json.loads(avro_schema), "", pa.struct(list(schema))))


_PRIMITIVES: Final[Mapping[str, tuple[Kind, int]]] = {
    "null": (Kind.NULL, 0),
    "boolean": (Kind.BOOLEAN, 1),
    "int": (Kind.INT, 0),
    "long": (Kind.LONG, 0),
    "float": (Kind.FLOATING, 4),
    "double": (Kind.FLOATING, 8),
    "string": (Kind.TEXT, 0),
    "bytes": (Kind.BYTES, 0),
}


class _Compiler:
    """Walks a schema that `avro_to_arrow` has accepted, beside the Arrow type that it came to."""

    def __init__(self) -> None:
        self._named: dict[str, Layout] = {}

    def type_of(self, node: Any, namespace: str, arrow: pa.DataType) -> Layout:
        while isinstance(node, dict) and isinstance(node["type"], dict):
            node = node["type"]
        kind = node["type"] if isinstance(node, dict) else node
        if kind in _PRIMITIVES:
            encoding, size = _PRIMITIVES[kind]
            if pa.types.is_decimal(arrow):
                encoding = Kind.DECIMAL_BYTES
            return Layout(kind=encoding, arrow=arrow, size=size)
        if kind == "array":
            item = self._child(node["items"], namespace, arrow.value_field)
            if item.width_min == 0:
                raise UnsupportedFeatureError("the table's schema has an array whose items take no bytes")
            return Layout(kind=Kind.ARRAY, arrow=arrow, children=(item,))
        if kind == "map":
            key = Layout(kind=Kind.TEXT, arrow=arrow.key_type)
            value = self._child(node["values"], namespace, arrow.item_field)
            return Layout(kind=Kind.MAP, arrow=arrow, children=(key, value))
        if isinstance(node, dict) and kind in ("record", "error", "enum", "fixed"):
            return self._define(node, kind, namespace, arrow)
        full = _full_name(kind, namespace)
        # Some writers omit the namespace if the name alone is unique.
        return self._named[full if full in self._named else kind]

    def _child(self, node: Any, namespace: str, field: pa.Field) -> Layout:
        """A record's field, an array's item or a map's value: where a union may stand."""
        if not isinstance(node, list):
            return self.type_of(node, namespace, field.type)
        nulls = [branch for branch, inner in enumerate(node) if is_null_type(inner)]
        values = [branch for branch, inner in enumerate(node) if not is_null_type(inner)]
        if not node or len(nulls) > 1 or len(node) > UNION_BRANCHES_MAX:
            raise CorruptDataError("the Avro schema is damaged: a union without branches, or with one of them twice")
        if len(values) > 1:
            return Layout(
                kind=Kind.UNION,
                arrow=field.type,
                names=tuple(member.name for member in field.type),
                children=tuple(
                    self.type_of(node[branch], namespace, member.type)
                    for branch, member in zip(values, field.type, strict=True)
                ),
                null_branch=nulls[0] if nulls else None,
                branches=tuple(values),
            )
        inner = self.type_of(node[values[0]] if values else "null", namespace, field.type)
        return Layout(
            kind=inner.kind,
            arrow=inner.arrow,
            size=inner.size,
            symbols=inner.symbols,
            names=inner.names,
            children=inner.children,
            null_branch=nulls[0] if nulls else None,
            value_branch=values[0] if values else None,
        )

    def _define(self, node: dict[str, Any], kind: str, namespace: str, arrow: pa.DataType) -> Layout:
        name = _full_name(node["name"], node.get("namespace", namespace))
        if kind == "enum":
            layout = Layout(kind=Kind.ENUM, arrow=arrow, symbols=_symbols(node))
        elif kind == "fixed":
            encoding = Kind.DECIMAL_FIXED if pa.types.is_decimal(arrow) else Kind.FIXED
            layout = Layout(kind=encoding, arrow=arrow, size=node["size"])
        else:
            inner = name.rpartition(".")[0]
            members = zip(node["fields"], arrow, strict=True)
            layout = Layout(
                kind=Kind.RECORD,
                arrow=arrow,
                names=tuple(field.name for field in arrow),
                children=tuple(self._child(member["type"], inner, field) for member, field in members),
            )
        self._named[name] = layout
        return layout


def _symbols(node: Mapping[str, Any]) -> tuple[str, ...]:
    symbols = node.get("symbols")
    texts = symbols if isinstance(symbols, list) else []
    if not texts or not all(isinstance(text, str) and _is_symbol(text) for text in texts):
        raise CorruptDataError("the Avro schema is damaged: an enum has no usable symbols")
    return tuple(texts)


def _is_symbol(text: str) -> bool:
    # JSON can express half a surrogate pair, which is not a character.
    return len(text) <= SYMBOL_LENGTH_MAX and not any("\ud800" <= character <= "\udfff" for character in text)


def _full_name(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"
