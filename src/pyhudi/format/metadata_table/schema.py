"""The Avro schema of the metadata table's records, as the JVM Hudi release of each table version writes it.

All partitions of the metadata table have this one schema: a key, a type, and a nullable column for each kind of
payload, of which a record uses one. Meta columns stand in front of them, and are null.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Mapping
from typing import Final

import pyarrow as pa

from pyhudi.format.metadata_table.record_avro import record_avro
from pyhudi.format.schema.avro_arrow import avro_to_arrow
from pyhudi.format.timeline.table_version import TableVersion

KEY: Final = "key"
"""The column of the key, which is stored empty: the HFile has it."""
TYPE: Final = "type"


class RecordType(enum.IntEnum):
    """What a record says; the number is its `type`."""

    PARTITIONS = 1
    """The partition paths of the table: one record."""
    FILES = 2
    """The files of one partition."""
    COLUMN_STATS = 3
    """The statistics of a column in a file."""
    BLOOM_FILTER = 4
    """The bloom filter of a file's record keys."""
    RECORD_INDEX = 5
    """The file group of a record key."""
    PARTITION_STATS = 6
    """The statistics of a column in all files of a partition."""
    SECONDARY_INDEX = 7
    """A record key that has a value in an indexed column."""


FILES_COLUMN: Final = "filesystemMetadata"
BLOOM_FILTER_COLUMN: Final = "BloomFilterMetadata"
COLUMN_STATS_COLUMN: Final = "ColumnStatsMetadata"
RECORD_INDEX_COLUMN: Final = "recordIndexMetadata"
SECONDARY_INDEX_COLUMN: Final = "SecondaryIndexMetadata"

PAYLOAD_COLUMNS: Final[Mapping[RecordType, str]] = {
    RecordType.PARTITIONS: FILES_COLUMN,
    RecordType.FILES: FILES_COLUMN,
    RecordType.COLUMN_STATS: COLUMN_STATS_COLUMN,
    RecordType.BLOOM_FILTER: BLOOM_FILTER_COLUMN,
    RecordType.RECORD_INDEX: RECORD_INDEX_COLUMN,
    RecordType.PARTITION_STATS: COLUMN_STATS_COLUMN,
    RecordType.SECONDARY_INDEX: SECONDARY_INDEX_COLUMN,
}
"""The column that holds what a record of each type says."""


@functools.cache
def record_schema(version: TableVersion) -> str:
    """The Avro JSON of the records in a table version, meta columns included."""
    return record_avro(version)


@functools.cache
def arrow_schema(version: TableVersion) -> pa.Schema:
    """The columns of `record_schema` as Arrow types; a union of several types is a struct, see `avro_to_arrow`."""
    return avro_to_arrow(record_schema(version), source="", with_unions=True)


def payload_type(version: TableVersion, column: str) -> pa.DataType:
    """The Arrow type of a payload column.

    Raises:
        KeyError: the records of this table version have no such column.
    """
    return arrow_schema(version).field(column).type
