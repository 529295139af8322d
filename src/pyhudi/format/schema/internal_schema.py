"""Schemas with column ids, which Hudi stores for tables with schema-on-read evolution.

A column keeps its id when it is renamed; a column that is dropped and added again gets a new id. Commits carry the
newest version as `latest_schema`. Each file of the folder `.hoodie/.schema` has all versions so far, newest first, and
is named after the first instant of its newest version:

    {"schemas": [{"max_column_id": 5, "version_id": <instant>, "type": "record", "fields":
        [{"id": 0, "name": "a", "optional": true, "type": "long", "doc": "a comment"}, ...]}, ...]}

Version 0 is the schema before the first change. Ids count the columns of a struct before those inside of them.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyhudi.errors import CorruptDataError
from pyhudi.format.schema.avro_arrow import LIST_ELEMENT, MAP_KEY, MAP_VALUE, SCHEMA_DEPTH_MAX, ColumnPath

SCHEMA_FOLDER: Final = ".hoodie/.schema"
SCHEMA_HISTORY_BYTES_MAX: Final = 64 * 1024 * 1024
"""The size limit of a schema file: some thousand versions of a thousand columns."""
INTERNAL_SCHEMA_KEY: Final = "latest_schema"
"""The key of the schema with column ids in the metadata of a commit."""

_FILE_NAME: Final = re.compile(r"(?P<instant>[0-9]{14,17})(?:_[0-9]{14,17})?\.schemacommit")
_VERSION_MAX: Final = 10**17


@dataclass(frozen=True, slots=True)
class StructKind:
    """The type of a struct."""

    columns: tuple[Column, ...]


@dataclass(frozen=True, slots=True)
class ListKind:
    """The type of a list; its element is a column with an id of its own."""

    element: Column


@dataclass(frozen=True, slots=True)
class MapKind:
    """The type of a map; key and value are columns with ids of their own."""

    key: Column
    value: Column


Kind = str | StructKind | ListKind | MapKind
"""The type of a column; text, such as `long`, for one without columns inside."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column. `doc`: its comment."""

    id: int
    name: str
    optional: bool
    kind: Kind
    doc: str | None = None


@dataclass(frozen=True, slots=True)
class InternalSchema:
    """One version of the columns, meta columns among them. `version`: the instant from which it applies, 0: the first.

    `max_column_id`: the largest id that was ever given, to this version or one before.
    """

    version: int
    columns: tuple[Column, ...]
    max_column_id: int

    @property
    def paths(self) -> Mapping[int, ColumnPath]:
        """The path of names of each column, by its id."""
        return _paths_of(self)

    @property
    def ids(self) -> Mapping[ColumnPath, int]:
        """The id of each column, by its path of names."""
        return {path: number for number, path in self.paths.items()}


def columns_inside(kind: Kind) -> tuple[Column, ...]:
    """The columns of a struct, the element of a list, key and value of a map."""
    match kind:
        case StructKind():
            return kind.columns
        case ListKind():
            return (kind.element,)
        case MapKind():
            return (kind.key, kind.value)
    return ()


@functools.lru_cache(maxsize=128)
def _paths_of(schema: InternalSchema) -> Mapping[int, ColumnPath]:
    return dict(_paths(schema.columns, ()))


def _paths(columns: Sequence[Column], parent: ColumnPath) -> Iterator[tuple[int, ColumnPath]]:
    for column in columns:
        path = (*parent, column.name)
        yield column.id, path
        yield from _paths(columns_inside(column.kind), path)


# --- versions of a table --------------------------------------------------------------------------------


def schema_history_instant(name: str) -> str | None:
    """The instant of a completed schema file, or None for other files."""
    match = _FILE_NAME.fullmatch(name)
    return match["instant"] if match else None


def version_of_instant(instant_time: str) -> int:
    """The version that a change of this instant makes."""
    return int(instant_time.ljust(17, "0"))


def version_at(versions: Sequence[InternalSchema], instant_time: str) -> int:
    """The index of the version that applied to a write of this instant, among versions from old to new."""
    number = version_of_instant(instant_time)
    return max((at for at, version in enumerate(versions) if version.version <= number), default=0)


# --- from JSON ------------------------------------------------------------------------------------------


def parse_schema_history(data: bytes, *, path: str) -> tuple[InternalSchema, ...]:
    """Decode the versions in a schema file, oldest first.

    Raises:
        CorruptDataError: the file does not parse, or is empty.
    """
    try:
        versions = tuple(_schema_of(values) for values in json.loads(data.decode())["schemas"])
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise CorruptDataError("the schema file does not parse", path=path, cause=str(error)) from error
    if not versions:
        raise CorruptDataError("the schema file is empty", path=path)
    return tuple(sorted(versions, key=lambda version: version.version))


def parse_internal_schema(text: str, *, path: str) -> InternalSchema:
    """Decode the `latest_schema` of a commit. Raises `CorruptDataError` naming `path`."""
    try:
        return _schema_of_text(text)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise CorruptDataError("the schema with column ids does not parse", path=path, cause=str(error)) from error


@functools.lru_cache(maxsize=128)
def _schema_of_text(text: str) -> InternalSchema:
    return _schema_of(json.loads(text))


def _schema_of(values: Any) -> InternalSchema:
    version = int(values["version_id"])
    if not 0 <= version < _VERSION_MAX:
        raise ValueError("no instant")
    kind = _kind_of(values, 0)
    if not isinstance(kind, StructKind):
        raise TypeError("a schema is a record")
    schema = InternalSchema(version, kind.columns, 0)
    given = values.get("max_column_id")
    largest = max(schema.paths, default=0)
    if len(schema.ids) < sum(1 for _ in _paths(schema.columns, ())):
        raise ValueError("two columns have one id, or one name")
    return InternalSchema(version, kind.columns, max(largest, given) if type(given) is int else largest)


def _kind_of(kind: Any, depth: int) -> Kind:
    if isinstance(kind, str):
        return kind
    if depth > SCHEMA_DEPTH_MAX:
        raise ValueError("columns nest too deep")
    match kind["type"]:
        case "record":
            return StructKind(tuple(_column_of(values, depth + 1) for values in kind["fields"]))
        case "array":
            element = _kind_of(kind["element"], depth + 1)
            optional = bool(kind.get("element_optional", True))
            return ListKind(Column(int(kind["element_id"]), LIST_ELEMENT, optional, element))
        case "map":
            key = Column(int(kind["key_id"]), MAP_KEY, False, _kind_of(kind.get("key", "string"), depth + 1))
            optional = bool(kind.get("value_optional", True))
            value = Column(int(kind["value_id"]), MAP_VALUE, optional, _kind_of(kind["value"], depth + 1))
            return MapKind(key, value)
        case other:
            raise ValueError(f"unknown type {other!r}")


def _column_of(values: Any, depth: int) -> Column:
    doc = values.get("doc")
    return Column(
        int(values["id"]),
        str(values["name"]),
        bool(values.get("optional", True)),
        _kind_of(values["type"], depth),
        None if doc is None else str(doc),
    )


# --- to JSON --------------------------------------------------------------------------------------------


def internal_schema_text(schema: InternalSchema) -> str:
    """A version as JVM Hudi writes it: into a commit, and as a part of a schema file."""
    return json.dumps(_values_of(schema), ensure_ascii=False, separators=(",", ":"))


def encode_schema_history(versions: Sequence[InternalSchema]) -> bytes:
    """The content of a schema file. `versions`: all, oldest first."""
    newest_first = [_values_of(version) for version in reversed(versions)]
    return json.dumps({"schemas": newest_first}, ensure_ascii=False, separators=(",", ":")).encode()


def schema_history_paths(instant_time: str, completion_time: str | None) -> tuple[str, str, str]:
    """The files of a version: requested, inflight (both empty) and completed.

    `completion_time`: None below table version 8, whose names do not have it.
    """
    completed = instant_time if completion_time is None else f"{instant_time}_{completion_time}"
    start = f"{SCHEMA_FOLDER}/{instant_time}.schemacommit"
    return f"{start}.requested", f"{start}.inflight", f"{SCHEMA_FOLDER}/{completed}.schemacommit"


def _values_of(schema: InternalSchema) -> dict[str, Any]:
    return {
        "max_column_id": schema.max_column_id,
        "version_id": schema.version,
        "type": "record",
        "fields": [_column_values(column) for column in schema.columns],
    }


def _column_values(column: Column) -> dict[str, Any]:
    values = {"id": column.id, "name": column.name, "optional": column.optional, "type": _kind_values(column.kind)}
    return values if column.doc is None else {**values, "doc": column.doc}


def _kind_values(kind: Kind) -> Any:
    match kind:
        case StructKind():
            return {"type": "record", "fields": [_column_values(column) for column in kind.columns]}
        case ListKind():
            element = kind.element
            return {
                "type": "array",
                "element_id": element.id,
                "element": _kind_values(element.kind),
                "element_optional": element.optional,
            }
        case MapKind():
            return {
                "type": "map",
                "key_id": kind.key.id,
                "key": _kind_values(kind.key.kind),
                "value_id": kind.value.id,
                "value": _kind_values(kind.value.kind),
                "value_optional": kind.value.optional,
            }
    return kind
