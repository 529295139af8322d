"""Completeness of secondary indexes: a note in the definition of one says up to when it is known to have all rows.

JVM Hudi 1.2.0 makes no entries in a bulk insert, nor for the first commit of a table. So an index is used if it was
built here, and every write since is one that makes entries.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final
from weakref import WeakKeyDictionary

from pyhudi.format.metadata.commit import WRITER_KEY
from pyhudi.format.metadata.write_operation import WriteOperation
from pyhudi.format.metadata_table.index_definitions import IndexDefinition
from pyhudi.storage.metered import itself
from pyhudi.storage.protocol import Storage
from pyhudi.table.commits import load_commit_metadata
from pyhudi.table.index_definitions import load_index_definitions, put_index_definitions
from pyhudi.table.metadata_partitions import SECONDARY_INDEX_PREFIX
from pyhudi.table.state import TableState
from pyhudi.table.timeline import instant_path, position_of

COMPLETE_UPTO_KEY: Final = "pyhudi.complete.upto"
"""The option of a definition with the completion time of a write: up to that the index has all rows."""
_KEEPING: Final = frozenset(
    {
        WriteOperation.INSERT,
        WriteOperation.UPSERT,
        WriteOperation.DELETE,
        WriteOperation.COMPACT,
        WriteOperation.LOG_COMPACT,
        WriteOperation.CLUSTER,
        WriteOperation.ALTER_SCHEMA,
    }
)
"""The operations by which JVM Hudi keeps a secondary index that is there."""
_known: WeakKeyDictionary[Storage, dict[str, bool]] = WeakKeyDictionary()
"""Whether completed writes, which never change, keep indexes: by the path of the instant, as long as it is active."""


def noted_complete(definition: IndexDefinition, table: TableState) -> IndexDefinition:
    """The definition of an index that has all rows of the table as it is now."""
    newest = max(map(position_of, table.timeline.completed_writes), default="")
    return replace(definition, options={**definition.options, COMPLETE_UPTO_KEY: newest})


def doubt(table: TableState, definition: IndexDefinition) -> str | None:
    """Why a secondary index may lack rows; None where it has all of the table.

    Cost: a read for each write since it was last known to be complete that this process has not read.
    """
    upto = definition.options.get(COMPLETE_UPTO_KEY)
    if upto is None:
        return "JVM Hudi built it, and may have left rows out: refresh it"
    writes = table.timeline.completed_writes
    if upto < min(map(position_of, writes), default=""):
        return "it is not known whether writes that were archived kept it: refresh it"
    paths = {instant_path(write, table.version): write for write in writes}
    kept = _known.get(itself(table.storage), {})
    _known[itself(table.storage)] = known = {path: kept[path] for path in paths if path in kept}
    for path, write in paths.items():
        if position_of(write) > upto:
            if path not in known:
                metadata = load_commit_metadata(table.storage, write, table.version)
                known[path] = metadata.operation in _KEEPING or WRITER_KEY in metadata.extra
            if not known[path]:
                return f"the write {write.requested_time} of JVM Hudi made no entries: refresh it"
    return None


def note_before_archiving(table: TableState) -> None:
    """Move the notes of complete indexes to the newest write, under the table lock, before older ones are archived.

    Cost: nothing without such indexes; else a read of the definitions and a put, and what `doubt` costs.
    """
    if not any(name.startswith(SECONDARY_INDEX_PREFIX) for name in table.config.metadata_partitions):
        return
    definitions = load_index_definitions(table)
    complete = [
        name
        for name, definition in definitions.items()
        if COMPLETE_UPTO_KEY in definition.options and doubt(table, definition) is None
    ]
    if complete:
        moved = {name: noted_complete(definitions[name], table) for name in complete}
        put_index_definitions(table, {**definitions, **moved}.values())
