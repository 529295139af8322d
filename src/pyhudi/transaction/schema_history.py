"""Keeping the history of a table's columns: a file beside the timeline for each commit that has column ids.

It is written before its commit is completed, and counts only if that was: so a process may die between the two.
"""

from __future__ import annotations

from dataclasses import replace

from pyhudi.format.metadata.commit import CommitMetadata
from pyhudi.format.schema.internal_schema import (
    INTERNAL_SCHEMA_KEY,
    InternalSchema,
    encode_schema_history,
    parse_internal_schema,
    schema_history_paths,
)
from pyhudi.format.schema.internal_types import first_schema
from pyhudi.format.timeline.instant import Instant
from pyhudi.table.schema import load_table_schema, load_versions, newest_history
from pyhudi.table.state import TableState


def keep_schema_history(table: TableState, completed: Instant, metadata: CommitMetadata) -> None:
    """Put the history with the columns of a commit that is about to be completed.

    Cost: nothing for commits without column ids; otherwise a listing, a read and three puts.
    """
    text = metadata.extra.get(INTERNAL_SCHEMA_KEY)
    if not text:
        return
    own = completed.requested_time
    newest = parse_internal_schema(text, path=f"{table.storage.uri}: commit {own}")
    versions = _versions(table)
    if newest.version not in {version.version for version in versions}:
        versions = (*versions, newest)
    time = completed.completion_time if table.version.has_completion_times else None
    requested, inflight, path = schema_history_paths(own, time)
    # Like JVM Hudi, which marks a version as an instant of its own.
    table.storage.put(requested, b"")
    table.storage.put(inflight, b"")
    table.storage.put(path, encode_schema_history(sorted(versions, key=lambda version: version.version)))


def _versions(table: TableState) -> tuple[InternalSchema, ...]:
    if newest_history(table.storage, table.timeline) is not None:
        return load_versions(table.storage, table.timeline)
    before = load_table_schema(table)
    if before is None:
        return ()
    return (
        replace(before.columns, version=0) if before.columns is not None else first_schema(before.arrow, before.avro),
    )
