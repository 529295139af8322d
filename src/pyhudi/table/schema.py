"""The schema of a table: that of its newest write."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa

from pyhudi.format.metadata.commit import SCHEMA_KEY
from pyhudi.format.schema.avro_arrow import arrow_to_avro, avro_to_arrow
from pyhudi.format.schema.internal_schema import (
    INTERNAL_SCHEMA_KEY,
    InternalSchema,
    internal_schema_text,
    parse_internal_schema,
    version_of_instant,
)
from pyhudi.format.schema.internal_types import arrow_of, avro_of, check_ids_possible, evolved_avro, evolved_columns
from pyhudi.format.schema.meta_columns import without_meta_columns
from pyhudi.table.state import TableState

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
    def from_columns(cls, columns: InternalSchema, former: str | None, *, table_name: str) -> TableSchema:
        """A schema with column ids. `former`: the Avro text before."""
        return cls(arrow_of(columns), avro_of(columns, former, table_name=table_name), columns)

    def extra_metadata(self, former: TableSchema | None, instant_time: str) -> dict[str, str]:
        """What a commit says of the columns. `former`: the schema before it."""
        extra = {SCHEMA_KEY: self.avro}
        if self.columns is None:
            return extra
        columns = self.columns
        if former is None or former.columns is None or columns.columns != former.columns.columns:
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
