"""Schemas with column ids, which JVM Hudi stores for tables with schema-on-read evolution.

A column keeps its id when it is renamed; a column that is dropped and added again gets a new id. Each file of the
folder `.hoodie/.schema` has all versions so far, and is named after the first instant of its newest version:

    {"schemas": [{"version_id": <instant>, "fields": [{"id": 0, "name": "a", "type": "long", ...}, ...]}, ...]}
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pyhudi.errors import CorruptDataError

SCHEMA_FOLDER: Final = ".hoodie/.schema"
SCHEMA_HISTORY_BYTES_MAX: Final = 64 * 1024 * 1024
"""The size limit of a schema file: some thousand versions of a thousand columns."""

_FILE_NAME: Final = re.compile(r"(?P<instant>[0-9]{14,17})(?:_[0-9]{14,17})?\.schemacommit")
_VERSION_MAX: Final = 10**17


@dataclass(frozen=True, slots=True)
class InternalSchema:
    """One version: the instant from which it applies (0: the first), and the path of names of each column id."""

    version: int
    paths: Mapping[int, tuple[str, ...]] = field(hash=False)


def schema_history_instant(name: str) -> str | None:
    """The instant of a completed schema file, or None for other files."""
    match = _FILE_NAME.fullmatch(name)
    return match["instant"] if match else None


def parse_schema_history(data: bytes, *, path: str) -> tuple[InternalSchema, ...]:
    """Decode the versions in a schema file, oldest first.

    Raises:
        CorruptDataError: the file does not parse, or is empty.
    """
    try:
        versions = tuple(_version_of(values) for values in json.loads(data.decode())["schemas"])
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise CorruptDataError("the schema file does not parse", path=path, cause=str(error)) from error
    if not versions:
        raise CorruptDataError("the schema file is empty", path=path)
    return tuple(sorted(versions, key=lambda version: version.version))


def version_at(versions: Sequence[InternalSchema], instant_time: str) -> int:
    """The index of the version that applied to a write of this instant, among versions from old to new."""
    number = int(instant_time.ljust(17, "0"))
    return max((at for at, version in enumerate(versions) if version.version <= number), default=0)


def renamed(written: InternalSchema, now: InternalSchema) -> tuple[str, ...]:
    """The columns of `now` that are stored under another name, or whose name is another column, in other versions."""
    ids = {path: number for number, path in written.paths.items()}
    return tuple(
        sorted(
            ".".join(path)
            for number, path in now.paths.items()
            if written.paths.get(number, path) != path or ids.get(path, number) != number
        )
    )


def _version_of(values: Any) -> InternalSchema:
    version = int(values["version_id"])
    if not 0 <= version < _VERSION_MAX:
        raise ValueError("no instant")
    return InternalSchema(version, dict(_paths(values, ())))


def _paths(kind: Any, parent: tuple[str, ...]) -> Iterator[tuple[int, tuple[str, ...]]]:
    """The column ids below a type, each with its path."""
    if isinstance(kind, str):
        return
    match kind["type"]:
        case "record":
            for column in kind["fields"]:
                path = (*parent, str(column["name"]))
                yield int(column["id"]), path
                yield from _paths(column["type"], path)
        case "array":
            yield int(kind["element_id"]), (*parent, "element")
            yield from _paths(kind["element"], (*parent, "element"))
        case "map":
            yield int(kind["key_id"]), (*parent, "key")
            yield int(kind["value_id"]), (*parent, "value")
            yield from _paths(kind["value"], (*parent, "value"))
        case other:
            raise ValueError(f"unknown type {other!r}")
