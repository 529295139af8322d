"""Idempotence of batches: a batch with an id is written once, however often it is sent.

The commit of a batch stores its id. Archived commits are searched too, as a source may send a batch again after a long
time.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final
from weakref import WeakKeyDictionary

from pyhudi.errors import WriteConflictError
from pyhudi.format.metadata.commit import CommitMetadata
from pyhudi.format.timeline.instant import Instant
from pyhudi.storage.metered import itself
from pyhudi.storage.protocol import Storage
from pyhudi.table.archive.history import archived_metadata, archived_values
from pyhudi.table.commits import load_commit_metadata
from pyhudi.table.state import TableState
from pyhudi.table.timeline import comes_once

BATCH_ID_METADATA: Final = "_pyhudi_batch_id"
"""The key of `hoodie.write.batch.id` in the extra metadata of a commit."""

_kept: WeakKeyDictionary[Storage, dict[Instant, str | None]] = WeakKeyDictionary()
"""The batches of completed writes, which do not change, so that each micro-batch of a stream reads only what is new."""


def find_batch(
    table: TableState, batch_id: str, *, known: Collection[str] = ()
) -> tuple[Instant, CommitMetadata] | None:
    """The newest completed write of the batch, if there is one.

    `known`: instant times of writes that are known to be of other batches. Cost: one read per completed write that is
    not known, once per process; the archived timeline, once per process, if no write is known or all known ones have
    been archived.
    """
    writes = table.timeline.completed_writes
    kept = _kept.get(itself(table.storage), {})
    _kept[itself(table.storage)] = kept = {write: kept[write] for write in writes if write in kept}
    for instant in reversed(writes):
        if instant.requested_time in known or kept.get(instant, batch_id) != batch_id:
            continue
        metadata = load_commit_metadata(table.storage, instant, table.version)
        found_id = metadata.extra.get(BATCH_ID_METADATA)
        if comes_once(instant, table.version):
            kept[instant] = found_id
        if found_id == batch_id:
            return instant, metadata
    if known and not table.timeline.starts_after(max(known)):
        return None
    found = archived_values(table.storage, table.version, BATCH_ID_METADATA).get(batch_id)
    if found is None or found in known:
        return None
    archived = archived_metadata(table.storage, table.version)
    return next((pair for pair in archived if pair[0].requested_time == found), None)


def check_batch_is_new(table: TableState, extra_metadata: Mapping[str, str], *, known: Collection[str]) -> None:
    """Raise `WriteConflictError` when another writer has committed the batch that a write's metadata name, if any.

    `known`: instant times of the writes that were checked before.
    """
    batch_id = extra_metadata.get(BATCH_ID_METADATA)
    if batch_id is None:
        return
    if (found := find_batch(table, batch_id, known=known)) is not None:
        raise WriteConflictError(
            "another writer committed the same batch meanwhile; nothing of this write is visible",
            batch_id=batch_id,
            winner=found[0].requested_time,
        )
