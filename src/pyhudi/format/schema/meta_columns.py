"""The five columns that Hudi puts in front of every row of a data file (format: dossier timeline.md, 4.4)."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

COMMIT_TIME: Final = "_hoodie_commit_time"
"""The request time of the instant that last changed the row; kept when the row is only copied."""
COMMIT_SEQNO: Final = "_hoodie_commit_seqno"
"""`<instant>_<task>_<row>`: unique, and orders the rows of an incremental read."""
RECORD_KEY: Final = "_hoodie_record_key"
PARTITION_PATH: Final = "_hoodie_partition_path"
"""The relative folder, as it is on disk (encoded)."""
FILE_NAME: Final = "_hoodie_file_name"
"""The name of the base file that holds the row."""

META_COLUMNS: Final = (COMMIT_TIME, COMMIT_SEQNO, RECORD_KEY, PARTITION_PATH, FILE_NAME)
META_FIELDS: Final = pa.schema([pa.field(name, pa.string()) for name in META_COLUMNS])
"""The meta columns as data files hold them: nullable strings, in this order."""


def with_meta_columns(schema: pa.Schema) -> pa.Schema:
    """The schema with the meta columns in front; those that it already has are replaced."""
    return pa.schema([*META_FIELDS, *without_meta_columns(schema)], metadata=schema.metadata)


def without_meta_columns(schema: pa.Schema) -> pa.Schema:
    """The schema of the table's own columns."""
    return pa.schema([field for field in schema if field.name not in META_COLUMNS], metadata=schema.metadata)
