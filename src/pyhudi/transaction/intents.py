"""Intents to commit: what keeps two commits apart when the lock that should do it is lost.

A lease can end between the check for conflicts and the last put of a commit. So a writer under a lock that can be lost
says what it is about to complete *before* it looks for conflicts, and takes it back when the commit has ended. Whoever
looks reads the intents of the others first and the timeline second. Of two writers that are both between their intent
and their last put at least one sees the other, and gives way where the two have something in common.

An intent is the commit's own metadata in a folder of its own. Real Hudi does not see it: of `.hoodie/.aux` it looks at
nothing but files named like instants.

Source: DESIGN D10; reliability.md 1.5.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Final

from pyhudi.errors import CorruptDataError, NotFoundError
from pyhudi.format.metadata.commit import (
    JSON_BYTES_MAX,
    CommitMetadata,
    decode_commit_metadata,
    encode_commit_metadata,
)
from pyhudi.format.timeline.table_version import TableVersion
from pyhudi.storage.bounded import read_at_most
from pyhudi.storage.protocol import Storage
from pyhudi.transaction.conflicts.footprint import UniqueKeys

INTENT_FOLDER: Final = ".hoodie/.aux/.intents"
_UNIQUE_KEYS: Final = "_pyhudi_unique_keys"


@dataclass(frozen=True, slots=True)
class Intent:
    """What the write of an instant is about to complete, and where it promises unique keys."""

    instant_time: str
    metadata: CommitMetadata
    unique_keys: UniqueKeys


def intent_path(instant_time: str) -> str:
    """Where the intent of an instant lies."""
    return f"{INTENT_FOLDER}/{instant_time}"


def announce(storage: Storage, intent: Intent, version: TableVersion) -> None:
    """Say what a write is about to complete. Cost: one put, as large as the commit."""
    promise = {_UNIQUE_KEYS: intent.unique_keys.name}
    metadata = replace(intent.metadata, extra={**intent.metadata.extra, **promise})
    storage.put(intent_path(intent.instant_time), encode_commit_metadata(metadata, version), durable=False)


def withdraw(storage: Storage, instant_time: str) -> None:
    """Take an intent back. Cost: one delete."""
    storage.delete(intent_path(instant_time))


def standing_intents(storage: Storage, *, besides: str) -> tuple[Intent, ...]:
    """The intents of all others. Cost: one listing, and one read each; as a rule there are none."""
    found = []
    for info in storage.list_folder(INTENT_FOLDER).files:
        if info.name == besides:
            continue
        try:
            data = read_at_most(storage, info.path, JSON_BYTES_MAX)
        except NotFoundError:
            # Its commit has ended: the timeline, which is loaded after this, tells how.
            continue
        found.append(_decode(data, info.name, info.path))
    return tuple(found)


def withdraw_stale(storage: Storage, intents: Collection[Intent], pending_times: Collection[str]) -> None:
    """Remove intents of instants that are not pending any more. Cost: one delete each."""
    for intent in intents:
        if intent.instant_time not in pending_times:
            withdraw(storage, intent.instant_time)


def _decode(data: bytes, instant_time: str, path: str) -> Intent:
    metadata = decode_commit_metadata(data, path=path)
    name = metadata.extra.get(_UNIQUE_KEYS, "")
    if name not in UniqueKeys.__members__:
        raise CorruptDataError(
            "an intent to commit does not say where it promises unique keys; remove it if no writer is alive",
            path=path,
        )
    return Intent(instant_time, metadata, UniqueKeys[name])
