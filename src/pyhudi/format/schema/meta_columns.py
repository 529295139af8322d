"""The five meta columns in front of the columns of every data file."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

COMMIT_TIME: Final = "_hoodie_commit_time"
"""The requested time of the write that last changed the row. Copying a row does not change it."""
COMMIT_SEQNO: Final = "_hoodie_commit_seqno"
"""`<instant>_<task>_<row>`: unique, and the order of rows in an incremental read."""
RECORD_KEY: Final = "_hoodie_record_key"
PARTITION_PATH: Final = "_hoodie_partition_path"
"""The partition path, encoded as on disk."""
FILE_NAME: Final = "_hoodie_file_name"
"""The name of the base file that holds the row."""

META_COLUMNS: Final = (COMMIT_TIME, COMMIT_SEQNO, RECORD_KEY, PARTITION_PATH, FILE_NAME)
META_FIELDS: Final = pa.schema([pa.field(name, pa.string()) for name in META_COLUMNS])
"""The meta columns in data files: nullable strings, in this order."""


def with_meta_columns(schema: pa.Schema) -> pa.Schema:
    """The schema with the meta columns in front, replacing existing ones."""
    return pa.schema([*META_FIELDS, *without_meta_columns(schema)], metadata=schema.metadata)


def without_meta_columns(schema: pa.Schema) -> pa.Schema:
    """The schema without meta columns."""
    return pa.schema([field for field in schema if field.name not in META_COLUMNS], metadata=schema.metadata)
