"""Intents to commit: they keep two commits apart when a lease ends during a commit.

A lease can end between the check for conflicts and the last put of a commit. So a writer whose lock can be lost stores
what it is about to complete, its intent, *before* it checks for conflicts, and removes the intent when the commit has
ended. The check reads the intents of other writers first and the timeline second. If two writers are both between their
intent and their last put, at least one sees the other, and gives way where the two conflict.

An intent holds the metadata of the commit. JVM Hudi ignores it: in `.hoodie/.aux` it reads only files that are named
like instants.
"""

from __future__ import annotations

import json
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
from pyhudi.transaction.conflicts.footprint import Reads, UniqueKeys

INTENT_FOLDER: Final = ".hoodie/.aux/.intents"
_UNIQUE_KEYS: Final = "_pyhudi_unique_keys"
_READ: Final = "_pyhudi_partitions_read"


@dataclass(frozen=True, slots=True)
class Intent:
    """What the write of an instant is about to complete, where it guarantees unique keys, and what it has read."""

    instant_time: str
    metadata: CommitMetadata
    unique_keys: UniqueKeys
    read: Reads = frozenset()


def intent_path(instant_time: str) -> str:
    """The path of the intent of an instant."""
    return f"{INTENT_FOLDER}/{instant_time}"


def put_intent(storage: Storage, intent: Intent, version: TableVersion) -> None:
    """Store what a write is about to complete. Cost: one put, as large as the commit."""
    read = None if intent.read is None else sorted(intent.read)
    promise = {_UNIQUE_KEYS: intent.unique_keys.name, _READ: json.dumps(read)}
    metadata = replace(intent.metadata, extra={**intent.metadata.extra, **promise})
    storage.put(intent_path(intent.instant_time), encode_commit_metadata(metadata, version), durable=False)


def withdraw(storage: Storage, instant_time: str) -> None:
    """Remove an intent. Cost: one delete."""
    storage.delete(intent_path(instant_time))


def standing_intents(storage: Storage, *, besides: str) -> tuple[Intent, ...]:
    """The intents of all other writers. Cost: one listing, and one read per intent; usually there are none."""
    found = []
    for info in storage.list_folder(INTENT_FOLDER).files:
        if info.name == besides:
            continue
        try:
            data = read_at_most(storage, info.path, JSON_BYTES_MAX)
        except NotFoundError:
            # Its commit has ended; the timeline, which is loaded after this, shows with which outcome.
            continue
        found.append(_decode(data, info.name, info.path))
    return tuple(found)


def withdraw_stale(storage: Storage, intents: Collection[Intent], pending_times: Collection[str]) -> None:
    """Remove intents of instants that are no longer pending. Cost: one delete each."""
    for intent in intents:
        if intent.instant_time not in pending_times:
            withdraw(storage, intent.instant_time)


def _decode(data: bytes, instant_time: str, path: str) -> Intent:
    metadata = decode_commit_metadata(data, path=path)
    name = metadata.extra.get(_UNIQUE_KEYS, "")
    if name not in UniqueKeys.__members__:
        raise CorruptDataError(
            "an intent to commit does not say where its write guarantees unique keys; remove it if no writer is alive",
            path=path,
        )
    return Intent(instant_time, metadata, UniqueKeys[name], _read(metadata.extra.get(_READ), path))


def _read(text: str | None, path: str) -> Reads:
    """The partitions that are named in an intent; releases without merges name none."""
    try:
        paths = json.loads(text or "[]")
    except ValueError:
        paths = 0
    if paths is None:
        return None
    if not isinstance(paths, list) or not all(isinstance(path, str) for path in paths):
        raise CorruptDataError(
            "an intent to commit does not say what its write has read; remove it if no writer is alive", path=path
        )
    return frozenset(paths)
