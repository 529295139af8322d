"""Columns that a table had before: files that were not rewritten since still have their values, found by name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from pyhudi.errors import SchemaMismatchError
from pyhudi.format.metadata.commit import SCHEMA_KEY
from pyhudi.format.schema.avro_arrow import ColumnPath, avro_to_arrow, column_text
from pyhudi.format.schema.evolution import is_read_as
from pyhudi.table.archive.history import archived_values
from pyhudi.table.commits import load_commit_summary
from pyhudi.table.file_system_view import load_view
from pyhudi.table.lister import Lister
from pyhudi.table.state import TableState


def check_former_columns(table: TableState, previous: pa.Schema, merged: pa.Schema, lister: Lister) -> None:
    """Refuse a new column, of a table without column ids, with a name under which files have values of another type.

    The table could not be read any more. Raises `SchemaMismatchError`. Cost: none without a new column; with one the
    metadata of each completed write, and of archived ones that this process has not read; a listing only where a
    column of that name has had another type.
    """
    added = dict(_added(previous, merged, ()))
    if not added:
        return
    newest_files = None
    for avro, last in sorted(_schemas(table).items(), key=lambda found: found[1], reverse=True):
        former = avro_to_arrow(avro, source=f"{table.storage.uri}: the schema of {last}")
        for path, kind in added.items():
            was = _type_at(former, path)
            if was is None or _is_read(was, kind):
                continue
            newest_files = list(_newest_files(table, lister)) if newest_files is None else newest_files
            for instant_time, file in newest_files:
                if instant_time <= last:
                    raise SchemaMismatchError(
                        f"the table had a column {column_text(path)!r} of another type before, and files that were not"
                        " rewritten since have its values: give the new column another name",
                        column=column_text(path),
                        type=str(kind),
                        former_type=str(was),
                        path=file,
                    )


def _schemas(table: TableState) -> dict[str, str]:
    """The schemas under which completed writes wrote, and the newest write of each."""
    found = archived_values(table.storage, table.version, SCHEMA_KEY)
    for write in table.timeline.completed_writes:
        avro = load_commit_summary(table.storage, write, table.version).extra.get(SCHEMA_KEY)
        if avro:
            found[avro] = max(write.requested_time, found.get(avro, ""))
    return {avro: last for avro, last in found.items() if avro}


def _newest_files(table: TableState, lister: Lister) -> Iterator[tuple[str, str]]:
    """The files of the newest slices, each with the instant in its name."""
    for slices in load_view(table.storage, table.timeline, lister=lister).latest.values():
        for file_slice in slices:
            if file_slice.base is not None:
                yield file_slice.base.name.instant_time, file_slice.base.path
            yield from ((log.name.instant_time, log.path) for log in file_slice.logs)


def _fields(kind: pa.DataType | pa.Schema) -> list[pa.Field]:
    """The columns of a schema or struct; of a list and a map what their values are."""
    if isinstance(kind, pa.Schema) or pa.types.is_struct(kind):
        return list(kind)
    if pa.types.is_list(kind):
        return [kind.value_field.with_name("element")]
    return [kind.item_field.with_name("value")] if pa.types.is_map(kind) else []


def _named(fields: Sequence[pa.Field], name: str) -> pa.Field | None:
    return next((field for field in fields if field.name.lower() == name.lower()), None)


def _added(
    previous: pa.DataType | pa.Schema, merged: pa.DataType | pa.Schema, path: ColumnPath
) -> Iterator[tuple[ColumnPath, pa.DataType]]:
    """The columns that a schema has and the one before has not, at any depth, with their types."""
    for field in _fields(merged):
        before = _named(_fields(previous), field.name)
        if before is None:
            yield (*path, field.name), field.type
        else:
            yield from _added(before.type, field.type, (*path, field.name))


def _type_at(schema: pa.Schema, path: ColumnPath) -> pa.DataType | None:
    kind: pa.DataType | pa.Schema = schema
    for name in path:
        found = _named(_fields(kind), name)
        if found is None:
            return None
        kind = found.type
    return kind


def _is_read(stored: pa.DataType, kind: pa.DataType) -> bool:
    """Whether stored values of a type, of which columns may be missing, are read as another one."""
    if not _fields(kind) or type(stored) is not type(kind):
        return is_read_as(stored, kind)
    pairs = ((_named(_fields(stored), field.name), field) for field in _fields(kind))
    return all(before is None or _is_read(before.type, field.type) for before, field in pairs)
