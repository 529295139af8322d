"""The archived timeline of table version 6 with all its states: encoding, and decoding without loss.

`archived_log` decodes what readers of a table need of it. Every state of an instant is a record of its own, with the
content of its file in the member for its action and state. A file is a sequence of blocks, each with some records,
whose only header is their schema.
"""

from __future__ import annotations

import io
import json
import re
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import fastavro

from pyhudi.errors import CorruptDataError, UnsupportedFeatureError
from pyhudi.format.avro.container import decode_container, decode_record, encode_container
from pyhudi.format.avro.records import BLOCK_VERSION
from pyhudi.format.log.blocks import BlockHeader, BlockType, LogBlock, encode_block
from pyhudi.format.metadata.avro_schemas import (
    ARCHIVED_INSTANT,
    CLEAN_METADATA,
    CLEAN_PLAN,
    COMMIT_METADATA,
    COMPACTION_PLAN,
    INDEX_COMMIT_METADATA,
    MERGE_ARCHIVE_PLAN,
    REPLACE_COMMIT_METADATA,
    REQUESTED_REPLACE_METADATA,
    ROLLBACK_METADATA,
    SAVEPOINT_METADATA,
)
from pyhudi.format.metadata.commit import commit_record
from pyhudi.format.metadata.record_fields import RecordFields
from pyhudi.format.timeline.archived_log import archive_blocks, is_archive_file
from pyhudi.format.timeline.instant import Action, Instant, InstantState, InstantTime

INSTANTS_PER_BLOCK: Final = 40
"""How many records a block gets. Each has the schema, 15 KB of text; by default JVM Hudi takes 10 records."""

_NUMBER: Final = re.compile(r"\.commits_\.archive\.(\d{1,9})(?:_|$)")
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
_ACTIONS: Final[Mapping[Any, Action]] = {action.value: action for action in Action}
_RECORD_OF_MEMBER: Final = {
    entry["name"]: entry["type"][1]["name"] if isinstance(entry["type"][1], dict) else entry["type"][1]
    for entry in ARCHIVED_INSTANT["fields"]
    if entry["name"] in _MEMBERS.values()
}
_SCHEMAS: Final = {
    schema["name"]: schema
    for schema in (
        CLEAN_METADATA,
        CLEAN_PLAN,
        COMMIT_METADATA,
        COMPACTION_PLAN,
        INDEX_COMMIT_METADATA,
        REPLACE_COMMIT_METADATA,
        REQUESTED_REPLACE_METADATA,
        ROLLBACK_METADATA,
        SAVEPOINT_METADATA,
    )
}
MERGE_PLAN_FILE: Final = "mergeArchivePlan"
"""The name of the plan's file, beside the files of the archive."""
_RECORD: Final = "HoodieMergeArchiveFilePlan"
_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class ArchiveMergePlan:
    """The names of the files that are merged, and the name of the merged one."""

    files: tuple[str, ...]
    merged: str


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


def parse_archived_states(data: bytes, *, path: str) -> Iterator[ArchivedState]:
    """Every state in one file, in its order; merged files may repeat them.

    Raises:
        CorruptDataError: a block or a record is damaged, or names an action or a state that Hudi does not have.
    """
    for block in archive_blocks(data, path=path):
        if block.kind is not BlockType.AVRO_DATA or block.schema is None:
            raise CorruptDataError(
                "the archived timeline holds a block without instants", path=path, offset=block.offset
            )
        schema = block.schema.encode()
        for at, end in _records_of(data, block, path):
            yield _state_of(decode_record(schema, data[at:end], path, at).values, path)


def content_of(state: ArchivedState) -> bytes:
    """The content of the file of a state, as Avro, with the schema of its record; nothing where it has none.

    Raises:
        CorruptDataError: a value has another type than its field.
    """
    member = _MEMBERS.get((state.instant.action, state.instant.state))
    if state.values is None or member is None:
        return b""
    return encode_values(_SCHEMAS[_RECORD_OF_MEMBER[member]], state.values, path=state.instant.requested_time)


def encode_values(schema: Mapping[str, Any], values: Mapping[str, Any], *, path: str) -> bytes:
    """A container with values that were read elsewhere. Raises `CorruptDataError` for values of other types."""
    try:
        return encode_container(schema, values)
    except (ValueError, TypeError, AttributeError, OverflowError, KeyError) as error:
        raise CorruptDataError(
            "the metadata of an instant has other types than its schema", path=path, cause=str(error)[:200]
        ) from error


def _records_of(data: bytes, block: LogBlock, path: str) -> Iterator[tuple[int, int]]:
    """Where the records of a block begin and end."""
    at, end = block.content_offset, block.content_offset + block.content_size
    if block.content_size < _HEADER.size:
        raise CorruptDataError("a block of the archived timeline is too short", path=path, offset=at)
    _, count = _HEADER.unpack_from(data, at)
    at += _HEADER.size
    for _ in range(count):
        if at + _LENGTH.size > end or (size := _LENGTH.unpack_from(data, at)[0]) > end - at - _LENGTH.size:
            raise CorruptDataError("a record exceeds its block of the archived timeline", path=path, offset=at)
        yield at + _LENGTH.size, at + _LENGTH.size + size
        at += _LENGTH.size + size


def _state_of(values: Mapping[str, Any], path: str) -> ArchivedState:
    time, action, state = (values.get(name) for name in ("commitTime", "actionType", "actionState"))
    reached = values.get("stateTransitionTime")
    is_known = action in _ACTIONS and state in InstantState.__members__
    if not (isinstance(time, str) and is_known and isinstance(reached, str | None)):
        raise CorruptDataError(
            "the archived timeline holds a record that is no instant", path=path, instant=time, action=action
        )
    instant = Instant(InstantTime(time), _ACTIONS[action], InstantState[str(state)])
    return ArchivedState(instant, reached or time, values.get(_MEMBERS.get((instant.action, instant.state), "")))


def archive_file_name(number: int) -> str:
    """The name of an archive file; each archiving takes the next number."""
    return f".commits_.archive.{number}_1-0-1"


def archive_number(name: str) -> int | None:
    """The number in the name of an archive file; None for another file."""
    match = _NUMBER.match(name)
    return int(match[1]) if match is not None else None


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
    content = _HEADER.pack(BLOCK_VERSION, len(records)) + b"".join(
        _LENGTH.pack(len(record)) + record for record in records
    )
    headers = {BlockHeader.SCHEMA: _SCHEMA_TEXT}
    return b"".join(encode_block(BlockType.AVRO_DATA, headers, content, needs_headers=False))


def encode_merge_plan(plan: ArchiveMergePlan, *, folder_uri: str) -> bytes:
    """The content of the plan's file. `folder_uri`: the folder of the archive, which JVM Hudi expects in each path."""
    values = {
        "version": _VERSION,
        "candidate": [f"{folder_uri}/{name}" for name in plan.files],
        "mergedArchiveFileName": plan.merged,
    }
    return encode_container(MERGE_ARCHIVE_PLAN, values)


def decode_merge_plan(data: bytes, *, path: str) -> ArchiveMergePlan:
    """The plan in a file. Raises `CorruptDataError` if it is damaged, or names what is no file of an archive."""
    record = decode_container(data, path=path)
    if record.name != _RECORD:
        raise CorruptDataError("the file holds another record than a plan of merging", path=path, record=record.name)
    fields = RecordFields(record.values, path=path, name=_RECORD)
    files = tuple(file.rpartition("/")[2] for file in fields.texts("candidate") or ())
    merged = fields.text("mergedArchiveFileName") or ""
    for name in (*files, merged):
        if not is_archive_file(name) or "/" in name:
            raise CorruptDataError("a plan of merging names another file than of an archive", path=path, name=name)
    return ArchiveMergePlan(files, merged)
