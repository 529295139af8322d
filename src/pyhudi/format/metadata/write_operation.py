"""Write operations: what a commit was made for, as `hoodie.datasource.write.operation` and commit metadata name it."""

from __future__ import annotations

import enum
from typing import Final


class WriteOperation(enum.Enum):
    """JVM Hudi's `WriteOperationType`. The value is the word in options, the name the word in commit metadata."""

    INSERT = "insert"
    INSERT_PREPPED = "insert_prepped"
    UPSERT = "upsert"
    UPSERT_PREPPED = "upsert_prepped"
    BULK_INSERT = "bulk_insert"
    BULK_INSERT_PREPPED = "bulk_insert_prepped"
    DELETE = "delete"
    DELETE_PREPPED = "delete_prepped"
    DELETE_PARTITION = "delete_partition"
    INSERT_OVERWRITE = "insert_overwrite"
    INSERT_OVERWRITE_TABLE = "insert_overwrite_table"
    COMPACT = "compact"
    LOG_COMPACT = "log_compact"
    CLUSTER = "cluster"
    ALTER_SCHEMA = "alter_schema"
    BOOTSTRAP = "bootstrap"
    BUCKET_RESCALE = "bucket_rescale"
    INDEX = "index"
    UNKNOWN = "unknown"
    """Missing in the metadata, or a word that this release does not know."""


USER_OPERATIONS: Final = (
    WriteOperation.UPSERT,
    WriteOperation.INSERT,
    WriteOperation.BULK_INSERT,
    WriteOperation.DELETE,
    WriteOperation.DELETE_PARTITION,
    WriteOperation.INSERT_OVERWRITE,
    WriteOperation.INSERT_OVERWRITE_TABLE,
    WriteOperation.BOOTSTRAP,
)
"""The operations that a user can ask for. The others come from table services, or from JVM Hudi alone."""


def operation_of_word(word: str | None) -> WriteOperation | None:
    """The operation that a word in metadata names: UNKNOWN where the word is missing, None for an unknown word."""
    if not word:
        return WriteOperation.UNKNOWN
    return WriteOperation.__members__.get(word)
