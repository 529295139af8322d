"""The schema of a table: that of its newest write."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from pyhudi.format.schema.avro_arrow import arrow_to_avro, avro_to_arrow
from pyhudi.format.schema.meta_columns import without_meta_columns
from pyhudi.table.state import TableState

CREATE_SCHEMA_KEY = "hoodie.table.create.schema"


@dataclass(frozen=True, slots=True)
class TableSchema:
    """The columns without meta columns, as Arrow and in the Avro text that commits carry."""

    arrow: pa.Schema
    avro: str

    @classmethod
    def from_avro(cls, avro: str, *, source: str) -> TableSchema:
        """The schema in an Avro text; `source` names it in errors."""
        return cls(without_meta_columns(avro_to_arrow(avro, source=source)), avro)

    @classmethod
    def from_arrow(cls, schema: pa.Schema, *, table_name: str) -> TableSchema:
        """A new schema, which no commit has yet."""
        return cls(schema, arrow_to_avro(schema, table_name=table_name))


def load_table_schema(table: TableState) -> TableSchema | None:
    """The schema in the newest completed write that has one, or else that of the table's creation, or None.

    Cost: that of `TableState.newest_writes`.
    """
    newest = table.newest_writes
    if newest.schema is not None:
        return TableSchema.from_avro(newest.schema, source=newest.schema_source)
    created = table.config.values.get(CREATE_SCHEMA_KEY)
    return TableSchema.from_avro(created, source=f"{table.storage.uri}: {CREATE_SCHEMA_KEY}") if created else None
