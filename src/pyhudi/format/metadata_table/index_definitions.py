"""The definitions of a table's indexes, `.hoodie/.index_defs/index.json`.

`files`, `partition_stats` and `bloom_filters` have none.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from pyhudi.errors import CorruptDataError

DEFINITIONS_PATH: Final = ".hoodie/.index_defs/index.json"
"""Where a new table has them; the property `hoodie.table.index.defs.path` says where a table has them."""
FIRST_VERSION: Final = "V1"
"""The version of definitions that state none, as those of Hudi 1.0."""

_ROOT: Final = "indexDefinitions"
_EMPTY: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexDefinition:
    """One index.

    Attributes:
        name: The partition of the metadata table, such as `secondary_index_by_city`.
        kind: `column_stats`, `record_index`, `secondary_index`, `bloom_filters`. An expression index has the kind of
            what it stores.
        function: Of an expression index, its expression; `identity` or nothing for others.
        source_columns: The indexed columns.
        options: What the index was created with.
        version: `V1`, `V2`; None where the definition does not say, which is `FIRST_VERSION`.
    """

    name: str
    kind: str
    function: str = ""
    source_columns: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=lambda: _EMPTY)
    version: str | None = None


def parse_index_definitions(data: bytes, *, path: str) -> dict[str, IndexDefinition]:
    """The definitions by name, in the order of the file.

    Raises:
        CorruptDataError: it is not such a file.
    """
    try:
        root = json.loads(data)
        json.dumps(root, ensure_ascii=False).encode()  # finds half a surrogate pair, which is not a character
    except (ValueError, RecursionError) as error:
        raise CorruptDataError("the index definitions are not JSON", path=path) from error
    found = root.get(_ROOT) if isinstance(root, dict) else None
    if not isinstance(found, dict):
        raise CorruptDataError("the file has no index definitions", path=path)
    return {name: _parsed(name, values, path) for name, values in found.items()}


def format_index_definitions(definitions: Iterable[IndexDefinition]) -> bytes:
    """The file, byte for byte as JVM Hudi writes it."""
    return _pretty({_ROOT: {definition.name: _fields_of(definition) for definition in definitions}}, "").encode()


def _parsed(name: str, values: Any, path: str) -> IndexDefinition:
    values = values if isinstance(values, dict) else {}
    texts = {key: values.get(key) for key in ("indexName", "indexType", "indexFunction", "version")}
    columns, options = values.get("sourceFields") or [], values.get("indexOptions") or {}
    if (
        not isinstance(texts["indexType"], str)
        or not all(text is None or isinstance(text, str) for text in texts.values())
        or not isinstance(columns, list)
        or not all(isinstance(column, str) for column in columns)
        or not isinstance(options, dict)
        or not all(isinstance(value, str) for value in options.values())
    ):
        raise CorruptDataError("the definition of an index is damaged", path=path, index=name)
    return IndexDefinition(
        name=texts["indexName"] or name,
        kind=texts["indexType"],
        function=texts["indexFunction"] or "",
        source_columns=tuple(columns),
        options=MappingProxyType(options),
        version=texts["version"],
    )


def _fields_of(definition: IndexDefinition) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "indexName": definition.name,
        "indexType": definition.kind,
        "indexFunction": definition.function,
        "sourceFields": list(definition.source_columns),
        "indexOptions": dict(definition.options),
    }
    return fields if definition.version is None else {**fields, "version": definition.version}


def _pretty(value: Any, indent: str) -> str:
    """JSON as the library of JVM Hudi lays it out."""
    if isinstance(value, dict):
        inner = indent + "  "
        members = ",\n".join(f"{inner}{_text(key)} : {_pretty(member, inner)}" for key, member in value.items())
        return f"{{\n{members}\n{indent}}}" if value else "{ }"
    if isinstance(value, list):
        return f"[ {', '.join(map(_text, value))} ]" if value else "[ ]"
    return _text(value)


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
