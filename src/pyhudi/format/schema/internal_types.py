"""Conversion between schemas with column ids, Arrow, and the Avro JSON of commits."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import count
from typing import Any, Final

import pyarrow as pa

from pyhudi.errors import CorruptDataError, UnsupportedFeatureError
from pyhudi.format.schema.avro_arrow import (
    LIST_ELEMENT,
    MAP_KEY,
    MAP_VALUE,
    ColumnPath,
    arrow_to_avro,
    avro_to_arrow,
    avro_with_meta_columns,
    column_text,
    is_list,
)
from pyhudi.format.schema.internal_schema import (
    Column,
    InternalSchema,
    Kind,
    ListKind,
    MapKind,
    StructKind,
    columns_inside,
)
from pyhudi.format.schema.meta_columns import META_COLUMNS, with_meta_columns

_KINDS: Final = {
    pa.bool_(): "boolean",
    pa.int32(): "int",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "binary",
    pa.date32(): "date",
    pa.timestamp("us", tz="UTC"): "timestamp",
}
_KINDS_WITHOUT_IDS: Final = {
    # JVM Hudi 1.2.0 writes this one into a schema with ids, and then cannot read that schema again.
    pa.timestamp("us"): "local-timestamp-micros",
    pa.timestamp("ms"): "local-timestamp-millis",
    pa.timestamp("ms", tz="UTC"): "timestamp-millis",
    pa.time32("ms"): "time-millis",
    pa.time64("us"): "time",
}
_LOGICAL_TYPES: Final = frozenset({"date", "decimal", "timestamp-micros"})
_FIXED: Final = re.compile(r"fixed\[(\d+)\]")
_TYPES: Final = {kind: data_type for data_type, kind in (*_KINDS.items(), *_KINDS_WITHOUT_IDS.items())}
_DECIMAL: Final = re.compile(r"decimal(?:_fixed|_bytes)?\((\d+),\s*(\d+)\)(?:\[\d+\])?")


def first_schema(schema: pa.Schema, avro: str) -> InternalSchema:
    """The columns of a table that had no ids so far, with the ids that JVM Hudi gives them, as version 0.

    `schema`: without meta columns; `avro`: the same as Avro JSON, which has the comments. Raises
    `UnsupportedFeatureError` for a type that no schema with ids has.
    """
    ids = count()
    columns = _numbered([*with_meta_columns(schema)], ids, ())
    record = json.loads(avro_with_meta_columns(avro))
    return InternalSchema(0, _commented(columns, record), next(ids) - 1)


def check_ids_possible(schema: InternalSchema, avro: str) -> None:
    """Refuse ids for columns of types that JVM Hudi cannot read, or does not keep, in a schema with ids.

    Raises `UnsupportedFeatureError` naming the column. `avro`: the Avro JSON of these columns, or of those before.
    """
    for number, kind in _kinds(schema.columns):
        if isinstance(kind, str) and kind not in _KINDS.values() and not _DECIMAL.fullmatch(kind):
            raise _without_ids(column_text(schema.paths[number]), kind)
    for field in json.loads(avro)["fields"]:
        for logical in _logical_types(field["type"]):
            if logical not in _LOGICAL_TYPES:
                raise _without_ids(field["name"], logical)


def _without_ids(column: str, kind: str) -> UnsupportedFeatureError:
    return UnsupportedFeatureError(
        f"column {column!r} has the type {kind}, which JVM Hudi cannot read in a schema with column ids, or does not "
        "keep there: such a table can get more columns and wider types, and nothing else",
        column=column,
        type=kind,
    )


def _logical_types(node: Any) -> Iterator[str]:
    """The logical types in an Avro type; an enum counts as one."""
    for branch in node if isinstance(node, list) else [node]:
        if isinstance(branch, dict):
            if "logicalType" in branch or branch.get("type") == "enum":
                yield str(branch.get("logicalType", "enum"))
            inside = [branch.get("type"), branch.get("items"), branch.get("values")]
            for part in (*inside, *(field["type"] for field in branch.get("fields", ()))):
                yield from _logical_types(part)


def _kinds(columns: Sequence[Column]) -> Iterator[tuple[int, Kind]]:
    for column in columns:
        yield column.id, column.kind
        yield from _kinds(columns_inside(column.kind))


def new_columns(fields: Sequence[pa.Field], first_id: int, path: ColumnPath = ()) -> tuple[tuple[Column, ...], int]:
    """New columns of these fields, with ids from `first_id` on, and the largest of these."""
    ids = count(first_id)
    columns = _numbered(fields, ids, path)
    return columns, next(ids) - 1


def kind_of(data_type: pa.DataType, path: ColumnPath) -> str:
    """The name of a type without columns inside. Raises `UnsupportedFeatureError`."""
    if pa.types.is_decimal(data_type):
        return f"decimal({data_type.precision}, {data_type.scale})"
    if pa.types.is_fixed_size_binary(data_type):
        return f"fixed[{data_type.byte_width}]"
    kind = _KINDS.get(data_type) or _KINDS_WITHOUT_IDS.get(data_type)
    if kind is not None:
        return kind
    raise UnsupportedFeatureError(
        f"column {column_text(path)!r} has a type that no schema with column ids has, so columns of this table cannot "
        "be changed but by writing rows with more of them",
        column=column_text(path),
        type=str(data_type),
    )


def type_of(kind: Kind, path: ColumnPath) -> pa.DataType:
    """The Arrow type of a kind. Raises `UnsupportedFeatureError` for one that pyhudi does not know."""
    match kind:
        case StructKind():
            return pa.struct([_field(column, path) for column in kind.columns])
        case ListKind():
            return pa.list_(_field(kind.element, path))
        case MapKind():
            return pa.map_(pa.string(), _field(kind.value, path))
    if kind in _TYPES:
        return _TYPES[kind]
    if decimal := _DECIMAL.fullmatch(kind):
        return pa.decimal128(int(decimal[1]), int(decimal[2]))
    if fixed := _FIXED.fullmatch(kind):
        return pa.binary(int(fixed[1]))
    raise UnsupportedFeatureError(
        "this release does not know a type in the table's schema with column ids, so it cannot change the columns: use "
        "the release of Hudi that made it",
        column=column_text(path),
        type=kind,
    )


def arrow_of(schema: InternalSchema) -> pa.Schema:
    """The Arrow schema, without meta columns. Raises `UnsupportedFeatureError`."""
    return pa.schema([_field(column, ()) for column in schema.columns if column.name not in META_COLUMNS])


def avro_of(schema: InternalSchema, previous: str | None, *, table_name: str) -> str:
    """The Avro JSON for commits, without meta columns and with the comments. `previous`: see `evolved_avro`."""
    record = json.loads(evolved_avro(previous, arrow_of(schema), table_name=table_name))
    _comment(record, [column for column in schema.columns if column.name not in META_COLUMNS])
    return json.dumps(record, ensure_ascii=False, separators=(",", ":"))


def evolved_avro(previous: str | None, schema: pa.Schema, *, table_name: str) -> str:
    """The Avro JSON of a schema that came from another one: columns of the same type are spelled as before.

    So attributes that Arrow has no place for stay: comments, defaults, and logical types of columns that pyhudi carries
    through.
    """
    plain = arrow_to_avro(schema, table_name=table_name)
    if previous is None:
        return plain
    arrow = avro_to_arrow(previous, source="the table's schema")
    spelled = {field["name"]: field for field in json.loads(previous)["fields"]}
    record = json.loads(plain)
    record["fields"] = [
        spelled[field["name"]]
        if field["name"] in spelled and arrow.field(field["name"]).equals(schema.field(field["name"]))
        else field
        for field in record["fields"]
    ]
    text = json.dumps(record, ensure_ascii=False, separators=(",", ":"))
    try:
        return text if avro_to_arrow(text, source="the table's schema").equals(schema) else plain
    except CorruptDataError:
        # A column refers to a type that is defined in another one, which is gone or spelled anew.
        return plain


def evolved_columns(previous: InternalSchema, schema: pa.Schema) -> InternalSchema:
    """The columns after a write that made the table's schema this one: new columns get new ids, types may be wider.

    The version is that of `previous` where nothing changed; otherwise the caller has to give it one.
    """
    meta = tuple(column for column in previous.columns if column.name in META_COLUMNS)
    state = _Ids(previous.max_column_id)
    known = tuple(column for column in previous.columns if column.name not in META_COLUMNS)
    columns = (*meta, *_evolved(known, list(schema), state, ()))
    if columns == previous.columns:
        return previous
    return InternalSchema(previous.version, columns, state.largest)


class _Ids:
    """Gives ids to new columns."""

    def __init__(self, largest: int) -> None:
        self.largest = largest

    def new(self, field: pa.Field, path: ColumnPath) -> Column:
        (column,), self.largest = new_columns([field], self.largest + 1, path)
        return column


def _evolved(previous: Sequence[Column], fields: Sequence[pa.Field], ids: _Ids, path: ColumnPath) -> tuple[Column, ...]:
    by_name = {column.name: column for column in previous}
    return tuple(
        _evolved_column(by_name[field.name], field, ids, (*path, field.name))
        if field.name in by_name
        else ids.new(field, path)
        for field in fields
    )


def _evolved_column(previous: Column, field: pa.Field, ids: _Ids, path: ColumnPath) -> Column:
    kind, data_type = previous.kind, field.type
    if isinstance(kind, StructKind) and pa.types.is_struct(data_type):
        kind = StructKind(_evolved(kind.columns, list(data_type), ids, path))
    elif isinstance(kind, ListKind) and is_list(data_type):
        element = data_type.value_field.with_name(LIST_ELEMENT)
        kind = ListKind(_evolved_column(kind.element, element, ids, (*path, LIST_ELEMENT)))
    elif isinstance(kind, MapKind) and pa.types.is_map(data_type):
        value = data_type.item_field.with_name(MAP_VALUE)
        kind = MapKind(kind.key, _evolved_column(kind.value, value, ids, (*path, MAP_VALUE)))
    elif columns_inside(kind) or type_of(kind, path) != data_type:
        kind = kind_of(data_type, path)
    return Column(previous.id, previous.name, field.nullable, kind, previous.doc)


def _numbered(fields: Iterable[pa.Field], ids: count[int], path: ColumnPath) -> tuple[Column, ...]:
    """Columns with ids: first those of one struct, then, one after the other, those inside of them."""
    numbered = [(next(ids), field) for field in fields]
    return tuple(
        Column(
            number,
            field.name,
            field.nullable,
            _numbered_kind(field.type, ids, (*path, field.name)),
            "" if field.name in META_COLUMNS and not path else None,
        )
        for number, field in numbered
    )


def _numbered_kind(data_type: pa.DataType, ids: count[int], path: ColumnPath) -> Kind:
    if pa.types.is_struct(data_type):
        return StructKind(_numbered(list(data_type), ids, path))
    if is_list(data_type):
        (element,) = _numbered([data_type.value_field.with_name(LIST_ELEMENT)], ids, path)
        return ListKind(element)
    if pa.types.is_map(data_type):
        inside = [pa.field(MAP_KEY, pa.string(), nullable=False), data_type.item_field.with_name(MAP_VALUE)]
        key, value = _numbered(inside, ids, path)
        return MapKind(key, value)
    return kind_of(data_type, path)


def _field(column: Column, path: ColumnPath) -> pa.Field:
    return pa.field(column.name, type_of(column.kind, (*path, column.name)), column.optional)


def _commented(columns: Sequence[Column], record: Any) -> tuple[Column, ...]:
    """The columns with the comments of an Avro record."""
    fields = {field["name"]: field for field in record["fields"]} if isinstance(record, dict) else {}
    return tuple(
        replace(column, kind=_commented_kind(column.kind, field.get("type")), doc=field.get("doc"))
        for column in columns
        for field in [fields.get(column.name, {})]
    )


def _commented_kind(kind: Kind, node: Any) -> Kind:
    node = _without_null(node)
    if not isinstance(node, dict):
        return kind
    match kind:
        case StructKind() if "fields" in node:
            return StructKind(_commented(kind.columns, node))
        case ListKind():
            return ListKind(replace(kind.element, kind=_commented_kind(kind.element.kind, node.get("items"))))
        case MapKind():
            return MapKind(kind.key, replace(kind.value, kind=_commented_kind(kind.value.kind, node.get("values"))))
    return kind


def _without_null(node: Any) -> Any:
    """The branch of a nullable type that is not null."""
    return next((branch for branch in node if branch != "null"), None) if isinstance(node, list) else node


def _comment(record: dict[str, Any], columns: Sequence[Column]) -> None:
    """Put the comments of columns, also inside of others, into an Avro record."""
    fields = []
    for field, column in zip(record["fields"], columns, strict=True):
        doc = {} if column.doc is None else {"doc": column.doc}
        rest = {key: value for key, value in field.items() if key not in ("name", "type", "doc")}
        fields.append({"name": field["name"], "type": field["type"], **doc, **rest})
        _comment_inside(field["type"], column.kind)
    record["fields"] = fields


def _comment_inside(node: Any, kind: Kind) -> None:
    node = _without_null(node)
    match kind:
        case StructKind():
            _comment(node, kind.columns)
        case ListKind():
            _comment_inside(node["items"], kind.element.kind)
        case MapKind():
            _comment_inside(node["values"], kind.value.kind)
