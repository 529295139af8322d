"""Facts about a table from its newest completed writes: its schema, and its kinds of files."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from pyhudi.errors import NotFoundError
from pyhudi.format.metadata.commit import SCHEMA_KEY, SUMMARY_FILE_IDS_MAX, CommitSummary
from pyhudi.format.schema.internal_schema import INTERNAL_SCHEMA_KEY
from pyhudi.storage.protocol import Storage
from pyhudi.table.commits import load_commit_summary
from pyhudi.table.timeline import Timeline

_WRITES_WITHOUT_FILES_MAX: Final = 10
"""How many newer writes without files are skipped in search of one with files."""


@dataclass(frozen=True, slots=True)
class NewestWrites:
    """Facts from the newest completed writes.

    `schema`: the Avro text in the newest write that has one; `schema_source`: where it was found. `internal_schema`:
    the schema with column ids beside it. From the newest write with files, at most a thousand `file_ids` and
    `partition_paths`.
    """

    schema: str | None = None
    schema_source: str = ""
    internal_schema: str | None = None
    file_ids: frozenset[str] = frozenset()
    partition_paths: frozenset[str] = frozenset()


def load_newest_writes(storage: Storage, timeline: Timeline) -> NewestWrites:
    """Load the facts, of the writes that still stand.

    Cost: one read, or a few if the newest writes have no schema or no files.
    """
    found = NewestWrites()
    for passed, instant in enumerate(reversed(timeline.completed_writes)):
        if found.schema and (found.file_ids or passed >= _WRITES_WITHOUT_FILES_MAX):
            break
        try:
            metadata = load_commit_summary(storage, instant, timeline.version)
        except NotFoundError:
            continue  # it was rolled back since the timeline was loaded
        found = _with_older(found, metadata, source=f"{storage.uri}: commit {instant.requested_time}")
    return found


def _with_older(newer: NewestWrites, metadata: CommitSummary, *, source: str) -> NewestWrites:
    """The facts with those of the next older write."""
    if not newer.file_ids:
        paths = frozenset(metadata.partition_paths[:SUMMARY_FILE_IDS_MAX]) if metadata.file_ids else frozenset()
        newer = replace(newer, file_ids=frozenset(metadata.file_ids), partition_paths=paths)
    schema = metadata.extra.get(SCHEMA_KEY)
    if newer.schema or not schema:
        return newer
    internal = metadata.extra.get(INTERNAL_SCHEMA_KEY) or None
    return replace(newer, schema=schema, schema_source=source, internal_schema=internal)
