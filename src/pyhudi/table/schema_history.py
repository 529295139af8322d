"""Tables whose columns JVM Hudi renamed: which files can be read by the current names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pyhudi.errors import CorruptDataError, UnsupportedFeatureError
from pyhudi.format.schema.internal_schema import (
    SCHEMA_FOLDER,
    SCHEMA_HISTORY_BYTES_MAX,
    InternalSchema,
    parse_schema_history,
    renamed,
    schema_history_instant,
    version_at,
)
from pyhudi.storage.bounded import read_decoded
from pyhudi.table.file_slice import FileSlice
from pyhudi.table.state import TableState


def check_names_of_columns(table: TableState, slices: Iterable[FileSlice]) -> None:
    """Refuse slices with files from before a column was renamed, or dropped and added again.

    Read by the current names, such a column would be null, or have the values of another column. Raises
    `UnsupportedFeatureError` naming the file and the columns, and `CorruptDataError` for a damaged file of schemas.
    Cost: none but for a table whose newest commit has a schema with column ids; then a listing and a read.
    """
    if table.newest_writes.internal_schema is None:
        return
    versions = _load_versions(table)
    for file_slice in slices:
        for path, old in _versions_of(table, versions, file_slice):
            if columns := renamed(old, versions[-1]):
                raise UnsupportedFeatureError(
                    "this release cannot read this table: a file was written before a column was renamed, or dropped "
                    "and added again; read it with JVM Hudi and hoodie.schema.on.read.enable=true, or have JVM Hudi "
                    "rewrite it that way, by an upsert or a clustering",
                    path=path,
                    columns=columns,
                )


def _load_versions(table: TableState) -> tuple[InternalSchema, ...]:
    """All versions of the schema until the newest write of the timeline, oldest first."""
    timeline = table.timeline
    instants = {
        instant: info.path
        for info in table.storage.list_folder(SCHEMA_FOLDER).files
        if (instant := schema_history_instant(info.name)) is not None
        and (timeline.is_committed(instant) or timeline.starts_after(instant))
    }
    if not instants:
        raise CorruptDataError("a commit has a schema with column ids, and the folder has none", path=SCHEMA_FOLDER)
    return read_decoded(table.storage, instants[max(instants)], SCHEMA_HISTORY_BYTES_MAX, parse_schema_history)


def _versions_of(
    table: TableState, versions: tuple[InternalSchema, ...], file_slice: FileSlice
) -> Iterator[tuple[str, InternalSchema]]:
    """The files of a slice, each with the schemas that it may have been written under."""
    if file_slice.base is not None:
        yield file_slice.base.path, versions[version_at(versions, file_slice.base.instant_time)]
    for log in file_slice.logs:
        first = version_at(versions, log.instant_time)
        # In table version 6 a log is named after its slice: it may be of any later write.
        last = first + 1 if table.version.has_completion_times else len(versions)
        for version in versions[first:last]:
            yield log.path, version
