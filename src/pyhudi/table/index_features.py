"""`Facts`, which the checks of features ask, and the features of indexes that this release cannot keep."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Protocol

import pyarrow as pa

from pyhudi.config.enums import MergeMode, TableType
from pyhudi.config.table_config import TableConfig
from pyhudi.errors import NotFoundError
from pyhudi.format.metadata_table.expressions import FUNCTIONS
from pyhudi.format.metadata_table.index_definitions import IndexDefinition, parse_index_definitions
from pyhudi.format.schema.avro_arrow import avro_to_arrow
from pyhudi.format.schema.meta_columns import META_COLUMNS
from pyhudi.storage.protocol import Storage
from pyhudi.table.metadata_partitions import EXPRESSION_INDEX_PREFIX, SECONDARY_INDEX_PREFIX
from pyhudi.table.newest_writes import NewestWrites
from pyhudi.table.timeline import Timeline


class Facts(Protocol):
    """Facts about a loaded table; `pyhudi.table.state.TableState` is one."""

    @property
    def config(self) -> TableConfig:
        """Its properties."""

    @property
    def timeline(self) -> Timeline:
        """Its timeline."""

    @property
    def storage(self) -> Storage:
        """Its store."""

    @property
    def newest_writes(self) -> NewestWrites:
        """Facts from its newest commits. Cost: a read, the first time."""

    @property
    def has_hashing_metadata(self) -> bool:
        """Whether it keeps the buckets of a consistent bucket index. Cost: a listing, the first time."""


def other_secondary_index(table: Facts) -> str | None:
    """Cost: a read, and one of the newest commit, where there is a secondary index."""
    names = [name for name in table.config.metadata_partitions if name.startswith(SECONDARY_INDEX_PREFIX)]
    if not names:
        return None
    if table.config.merge_mode is MergeMode.CUSTOM:
        return f"{names[0]} and a merger of your own, before which the values of rows are not known"
    definitions, avro = _definitions(table), table.newest_writes.schema
    types = {} if avro is None else {field.name: field.type for field in avro_to_arrow(avro, source=table.storage.uri)}
    for name in names:
        columns = definitions[name].source_columns if name in definitions else ()
        if len(columns) != 1 or not _has_stable_text(types.get(columns[0])):
            return f"{name} over {', '.join(columns) or 'an unknown column'}"
    return None


def other_expression_index(table: Facts) -> str | None:
    """Cost: a read, and one of the newest commit, where there is an expression index."""
    names = [name for name in table.config.metadata_partitions if name.startswith(EXPRESSION_INDEX_PREFIX)]
    if not names:
        return None
    if table.config.values.get("hoodie.bootstrap.base.path"):
        return f"{names[0]}, and rows that are still in the files of another table"
    definitions, avro = _definitions(table), table.newest_writes.schema
    columns = set() if avro is None else {field.name for field in avro_to_arrow(avro, source=table.storage.uri)}
    has_logs = table.config.table_type is TableType.MERGE_ON_READ
    for name in names:
        definition = definitions.get(name)
        if definition is None or definition.function not in FUNCTIONS or len(definition.source_columns) != 1:
            return f"{name} over {'an unknown expression' if definition is None else definition.function}"
        if definition.source_columns[0] not in columns and definition.source_columns[0] not in META_COLUMNS:
            return f"{name} over {definition.source_columns[0]}"
        if has_logs and definition.kind != "column_stats":
            return f"{name}, bloom filters of base files, beside logs"
    return None


def _has_stable_text(kind: pa.DataType | None) -> bool:
    """Whether the text of values in an index is the same whoever writes it; of floating-point numbers it is not."""
    fits = (pa.types.is_string, pa.types.is_integer, pa.types.is_date, pa.types.is_timestamp)
    return kind is not None and any(is_type(kind) for is_type in fits)


def _definitions(table: Facts) -> Mapping[str, IndexDefinition]:
    path = table.config.values.get("hoodie.table.index.defs.path")
    with suppress(NotFoundError):
        return parse_index_definitions(table.storage.read(path), path=path) if path else {}
    return {}
