"""Encoding of the archived timeline of table version 6; `archived_log` decodes it.

Every state of an instant is a record of its own, with the content of its file in the member for its action and state.
A file is a sequence of blocks, each with some records, whose only header is their schema.
"""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import fastavro

from pyhudi.errors import CorruptDataError, UnsupportedFeatureError
from pyhudi.format.avro.container import decode_container
from pyhudi.format.avro.records import BLOCK_VERSION
from pyhudi.format.log.blocks import BlockHeader, BlockType, encode_block
from pyhudi.format.metadata.avro_schemas import ARCHIVED_INSTANT
from pyhudi.format.metadata.commit import commit_record
from pyhudi.format.timeline.instant import Action, Instant, InstantState

INSTANTS_PER_BLOCK: Final = 10
"""How many records JVM Hudi writes into a block: its default of `hoodie.commits.archival.batch`."""

_SCHEMA_TEXT: Final = json.dumps(ARCHIVED_INSTANT, separators=(",", ":"))
_SCHEMA: Final = fastavro.parse_schema(json.loads(_SCHEMA_TEXT))
_HEADER: Final = struct.Struct(">iI")
_LENGTH: Final = struct.Struct(">I")
_NOTHING_WRITTEN: Final = {"partitionToWriteStats": {}, "compacted": False, "extraMetadata": {}, "version": None}
"""What JVM Hudi archives of a write's state that has no content."""

_COMMIT: Final = "hoodieCommitMetadata"
_WRITES: Final = frozenset({Action.COMMIT, Action.DELTA_COMMIT})
_MEMBERS: Final[Mapping[tuple[Action, InstantState], str]] = {
    **{(action, state): _COMMIT for action in _WRITES for state in InstantState},
    (Action.REPLACE_COMMIT, InstantState.REQUESTED): "hoodieRequestedReplaceMetadata",
    (Action.REPLACE_COMMIT, InstantState.INFLIGHT): "HoodieInflightReplaceMetadata",
    (Action.REPLACE_COMMIT, InstantState.COMPLETED): "hoodieReplaceCommitMetadata",
    (Action.COMPACTION, InstantState.REQUESTED): "hoodieCompactionPlan",
    (Action.LOG_COMPACTION, InstantState.REQUESTED): "hoodieCompactionPlan",
    (Action.CLEAN, InstantState.REQUESTED): "hoodieCleanerPlan",
    (Action.CLEAN, InstantState.INFLIGHT): "hoodieCleanerPlan",
    (Action.CLEAN, InstantState.COMPLETED): "hoodieCleanMetadata",
    (Action.ROLLBACK, InstantState.COMPLETED): "hoodieRollbackMetadata",
    (Action.SAVEPOINT, InstantState.COMPLETED): "hoodieSavePointMetadata",
    (Action.INDEXING, InstantState.COMPLETED): "hoodieIndexCommitMetadata",
}
"""The member that holds the content of an instant's file. What has no member is archived without its content."""
_JSON: Final = frozenset({_COMMIT, "hoodieReplaceCommitMetadata", "HoodieInflightReplaceMetadata"})
_RECORD_OF_MEMBER: Final = {
    entry["name"]: entry["type"][1]["name"] if isinstance(entry["type"][1], dict) else entry["type"][1]
    for entry in ARCHIVED_INSTANT["fields"]
    if entry["name"] in _MEMBERS.values()
}


@dataclass(frozen=True, slots=True)
class ArchivedState:
    """One state of an instant to be archived: its action in the words of table version 6, and when it was reached.

    `values` are the fields of the member for its action and state; None if it has no content.
    """

    instant: Instant
    reached: str
    values: Mapping[str, Any] | None = field(repr=False)


def archived_state(instant: Instant, data: bytes, reached: str, *, path: str) -> ArchivedState:
    """The state of an instant whose file has this content. `reached` is the time of the file, as an instant time.

    Raises:
        CorruptDataError: the content is damaged, or is another record than an instant of this kind has; a completed
            instant has none.
        UnsupportedFeatureError: the action is `clustering`, which table version 6 does not have.
    """
    if instant.action is Action.CLUSTERING:
        raise UnsupportedFeatureError("archives of table version 6 have no action of this name", path=path)
    member = _MEMBERS.get((instant.action, instant.state))
    if member is None:
        return ArchivedState(instant, reached, None)
    if not data and instant.state is not InstantState.COMPLETED:
        return ArchivedState(instant, reached, _NOTHING_WRITTEN if member == _COMMIT else None)
    record = commit_record(data, path=path) if member in _JSON else decode_container(data, path=path)
    expected = _RECORD_OF_MEMBER[member]
    # JSON does not name its record, and a replacement without replaced file groups looks like a commit.
    if record.name != expected and not (member in _JSON and record.name.endswith("CommitMetadata")):
        raise CorruptDataError("the file of an instant holds another record", path=path, record=record.name)
    return ArchivedState(instant, reached, record.values)


def encode_archive_file(states: Iterable[ArchivedState], *, path: str) -> bytes:
    """The content of one archive file with these states, in their order.

    Raises:
        CorruptDataError: a value has another type than its member has in the archive.
    """
    records = [_record(state, path) for state in states]
    return b"".join(
        _block(records[start : start + INSTANTS_PER_BLOCK]) for start in range(0, len(records), INSTANTS_PER_BLOCK)
    )


def archive_file_name(number: int) -> str:
    """The name of an archive file; each archiving takes the next number."""
    return f".commits_.archive.{number}_1-0-1"


def _record(state: ArchivedState, path: str) -> bytes:
    instant = state.instant
    values: dict[str, Any] = {
        "commitTime": instant.requested_time,
        "actionType": instant.action.value,
        "actionState": instant.state.name,
        "stateTransitionTime": state.reached,
    }
    if state.values is not None:
        values[_MEMBERS[instant.action, instant.state]] = state.values
    body = io.BytesIO()
    try:
        fastavro.schemaless_writer(body, _SCHEMA, values)
    except (ValueError, TypeError, AttributeError, OverflowError, KeyError) as error:
        raise CorruptDataError(
            "the metadata of an instant does not fit into the archive",
            path=path,
            instant=instant.requested_time,
            cause=str(error)[:200],
        ) from error
    return body.getvalue()


def _block(records: list[bytes]) -> bytes:
    content = _HEADER.pack(BLOCK_VERSION, len(records)) + b"".join(_LENGTH.pack(len(one)) + one for one in records)
    headers = {BlockHeader.SCHEMA: _SCHEMA_TEXT}
    return b"".join(encode_block(BlockType.AVRO_DATA, headers, content, needs_headers=False))
