"""The versions of a table's columns by their ids, for tables with schema-on-read evolution.

The newest write that names columns decides: if it has column ids, columns are found by them in all files; otherwise
they are found by their names, as JVM Hudi does. What a write on the active timeline says of its own columns counts
before the version of its time: a compaction of JVM Hudi writes under newer columns than those of its instant.
"""

from __future__ import annotations

from pyhudi.errors import CorruptDataError
from pyhudi.format.schema.internal_schema import (
    SCHEMA_FOLDER,
    SCHEMA_HISTORY_BYTES_MAX,
    InternalSchema,
    parse_schema_history,
    schema_history_instant,
    version_at,
)
from pyhudi.format.schema.stored_names import NamesByWrite, names_by_write
from pyhudi.storage.bounded import read_decoded
from pyhudi.storage.protocol import Storage
from pyhudi.table.committed_files import CommittedFiles
from pyhudi.table.timeline import Timeline


def load_names_by_write(
    storage: Storage, timeline: Timeline, committed: CommittedFiles, *, until: str | None = None
) -> NamesByWrite | None:
    """What the columns of the newest write are called in the files of each write; None if the same in all.

    `until`: the columns are those of the newest write until this instant time.

    Raises `CorruptDataError` for a damaged file of schemas, and if there is none. Cost: none but for a table whose
    newest write has a schema with column ids; then a listing and a read.
    """
    if all(columns is None for columns in committed.columns.values()):
        return None
    newest = next((write for write in committed.columns if until is None or write <= until), None)
    if newest is None and until is not None:
        # The write has left the active timeline, where later ones have column ids.
        versions = load_versions(storage, timeline)
        today = versions[version_at(versions, until)]
    elif newest is not None and (columns := committed.columns[newest]) is not None:
        versions, today = load_versions(storage, timeline), columns
    else:
        return None
    own = {write: columns for write, columns in committed.columns.items() if columns is not None}
    return names_by_write(versions, own, today)


def load_versions(storage: Storage, timeline: Timeline) -> tuple[InternalSchema, ...]:
    """All versions of the schema until the newest write of the timeline, oldest first. Cost: a listing and a read.

    Raises `CorruptDataError` for a damaged file of schemas, and if there is none.
    """
    path = newest_history(storage, timeline)
    if path is None:
        raise CorruptDataError("a commit has a schema with column ids, and the folder has none", path=SCHEMA_FOLDER)
    return read_decoded(storage, path, SCHEMA_HISTORY_BYTES_MAX, parse_schema_history)


def newest_history(storage: Storage, timeline: Timeline) -> str | None:
    """The file of the newest version that a write of the timeline, or of the archive before it, completed."""
    instants = {
        instant: info.path
        for info in storage.list_folder(SCHEMA_FOLDER).files
        if (instant := schema_history_instant(info.name)) is not None
        and (timeline.is_committed(instant) or timeline.starts_after(instant))
    }
    return instants[max(instants)] if instants else None
