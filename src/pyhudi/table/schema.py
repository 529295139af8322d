"""The schema of a table: that of its newest write, and the versions of its columns by their ids."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa

from pyhudi.errors import CorruptDataError
from pyhudi.format.metadata.commit import SCHEMA_KEY
from pyhudi.format.schema.avro_arrow import arrow_to_avro, avro_to_arrow
from pyhudi.format.schema.internal_schema import (
    INTERNAL_SCHEMA_KEY,
    SCHEMA_FOLDER,
    SCHEMA_HISTORY_BYTES_MAX,
    InternalSchema,
    internal_schema_text,
    parse_internal_schema,
    parse_schema_history,
    schema_history_instant,
    version_at,
    version_of_instant,
)
from pyhudi.format.schema.internal_types import arrow_of, avro_of, check_ids_possible, evolved_avro, evolved_columns
from pyhudi.format.schema.meta_columns import without_meta_columns
from pyhudi.format.schema.stored_names import NamesByWrite, names_by_write
from pyhudi.storage.bounded import read_decoded
from pyhudi.storage.protocol import Storage
from pyhudi.table.committed_files import CommittedFiles
from pyhudi.table.state import TableState
from pyhudi.table.timeline import Timeline

CREATE_SCHEMA_KEY = "hoodie.table.create.schema"


@dataclass(frozen=True, slots=True)
class TableSchema:
    """The columns without meta columns, as Arrow and in the Avro text that commits carry.

    `columns`: the same with ids, for a table with schema-on-read evolution; None for others.
    """

    arrow: pa.Schema
    avro: str
    columns: InternalSchema | None = None

    @classmethod
    def from_avro(cls, avro: str, *, source: str, internal: str | None = None) -> TableSchema:
        """The schema in an Avro text; `source` names it in errors. `internal`: the text with column ids."""
        columns = parse_internal_schema(internal, path=source) if internal else None
        return cls(without_meta_columns(avro_to_arrow(avro, source=source)), avro, columns)

    def after(self, schema: pa.Schema, *, table_name: str) -> TableSchema:
        """The schema of the table once a write has made it this one; `extra_metadata` gives new columns their version.

        Raises `UnsupportedFeatureError` for a new column whose type a schema with ids cannot have.
        """
        if self.columns is None:
            return TableSchema(schema, evolved_avro(self.avro, schema, table_name=table_name))
        columns = evolved_columns(self.columns, schema)
        check_ids_possible(columns, self.avro)
        return TableSchema.from_columns(columns, self.avro, table_name=table_name)

    @classmethod
    def from_columns(cls, columns: InternalSchema, previous: str | None, *, table_name: str) -> TableSchema:
        """A schema with column ids. `previous`: the Avro text before."""
        return cls(arrow_of(columns), avro_of(columns, previous, table_name=table_name), columns)

    def extra_metadata(self, previous: TableSchema | None, instant_time: str) -> dict[str, str]:
        """What a commit says of the columns. `previous`: the schema before it."""
        extra = {SCHEMA_KEY: self.avro}
        if self.columns is None:
            return extra
        columns = self.columns
        if previous is None or previous.columns is None or columns.columns != previous.columns.columns:
            columns = replace(columns, version=version_of_instant(instant_time))
        return {**extra, INTERNAL_SCHEMA_KEY: internal_schema_text(columns)}

    @classmethod
    def from_arrow(cls, schema: pa.Schema, *, table_name: str) -> TableSchema:
        """A new schema, which no commit has yet."""
        return cls(schema, arrow_to_avro(schema, table_name=table_name))


def schema_of_instant(table: TableState, instant_time: str) -> TableSchema | None:
    """The schema of the newest write of the timeline that was requested until an instant time.

    With column ids, the files of an instant must have the columns of this one: they are read by them. Cost: that of
    `load_table_schema`.
    """
    return load_table_schema(table.with_timeline(table.timeline.until(instant_time)))


def schema_of_run(table: TableState, instant_time: str) -> TableSchema | None:
    """The schema under which the run of a plan writes: today's, and that of the plan's instant with column ids."""
    newest = load_table_schema(table)
    return newest if newest is None or newest.columns is None else schema_of_instant(table, instant_time)


def load_table_schema(table: TableState) -> TableSchema | None:
    """The schema in the newest completed write that has one, or else that of the table's creation, or None.

    Cost: that of `TableState.newest_writes`.
    """
    newest = table.newest_writes
    if newest.schema is not None:
        return TableSchema.from_avro(newest.schema, source=newest.schema_source, internal=newest.internal_schema)
    created = table.config.values.get(CREATE_SCHEMA_KEY)
    return TableSchema.from_avro(created, source=f"{table.storage.uri}: {CREATE_SCHEMA_KEY}") if created else None


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
