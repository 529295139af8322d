"""Commit metadata: what a write did, the body of commits, delta commits and replace commits.

JSON in table version 6, Avro from 8 on. The JSON carries the fields of Hudi 0.15 and the Avro those of 1.2; the former
has no `prevBaseFile`, `totalLogReadTimeMs`, `totalLogFiles` and `numUpdates`.

Source: `format/timeline.md` 1.3, 1.4; mission rows S1-12 to S1-15, S5-32.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pyhudi.errors import CorruptDataError
from pyhudi.format.avro.container import MAGIC, AvroRecord, decode_container, encode_container
from pyhudi.format.metadata.avro_schemas import COMMIT_METADATA, REPLACE_COMMIT_METADATA
from pyhudi.format.metadata.record_fields import RecordFields
from pyhudi.format.metadata.write_operation import WriteOperation, operation_of_word
from pyhudi.format.safe_paths import check_data_path, check_file_name
from pyhudi.format.timeline.table_version import MetadataEncoding, TableVersion

JSON_BYTES_MAX: Final = 1024 * 1024 * 1024
"""The size of a JSON body that is still read: a commit of a million files."""

SCHEMA_KEY: Final = "schema"
"""Where `CommitMetadata.extra` holds the table's Avro schema, without the meta columns."""

NO_PREVIOUS_COMMIT: Final = "null"
"""The `prev_commit` of a new file group: the word, not a null (trap 6)."""

_JSON_STAT_FIELDS: Final = (
    "fileId",
    "path",
    "cdcStats",
    "prevCommit",
    "numWrites",
    "numDeletes",
    "numUpdateWrites",
    "numInserts",
    "totalWriteBytes",
    "totalWriteErrors",
    "tempPath",
    "partitionPath",
    "totalLogRecords",
    "totalLogFilesCompacted",
    "totalLogSizeCompacted",
    "totalUpdatedRecordsCompacted",
    "totalLogBlocks",
    "totalCorruptLogBlock",
    "totalRollbackBlocks",
    "fileSizeInBytes",
    "minEventTime",
    "maxEventTime",
    "runtimeStats",
)
_JSON_LOG_STAT_FIELDS: Final = ("logVersion", "logOffset", "baseFile", "logFiles")


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeStats:
    """How long a task took for one file, in milliseconds."""

    total_scan_time: int = 0
    total_create_time: int = 0
    total_upsert_time: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteStat:
    """What a write did to one file. Sizes are in bytes, times in milliseconds; counts that were not told are zero.

    `path` is relative to the table; it is empty in the workload profile of an inflight write, and `file_id` is, too,
    for its inserts. The fields from `log_version` to `log_files` are those of a log append, and None otherwise.
    `unknown` holds fields of newer writers; encoding leaves them out.
    """

    file_id: str
    path: str = ""
    partition_path: str = ""
    prev_commit: str | None = NO_PREVIOUS_COMMIT
    num_writes: int = 0
    num_inserts: int = 0
    num_update_writes: int = 0
    num_deletes: int = 0
    num_updates: int = 0
    total_write_bytes: int = 0
    total_write_errors: int = 0
    file_size_in_bytes: int = 0
    prev_base_file: str | None = None
    cdc_stats: Mapping[str, int] | None = None
    runtime_stats: RuntimeStats | None = None
    min_event_time: int | None = None
    max_event_time: int | None = None
    temp_path: str | None = None
    total_log_records: int = 0
    total_log_files: int | None = None
    total_log_blocks: int = 0
    total_log_files_compacted: int = 0
    total_log_size_compacted: int = 0
    total_log_read_time_ms: int = 0
    total_updated_records_compacted: int = 0
    total_corrupt_log_block: int = 0
    total_rollback_blocks: int = 0
    log_version: int | None = None
    log_offset: int | None = None
    base_file: str | None = None
    log_files: tuple[str, ...] | None = None
    unknown: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitMetadata:
    """What one write did: per partition path a stat of each file that it wrote.

    `replaced_file_ids` maps partition paths to the file groups that a replace commit takes out of the table; None for
    every other commit. `extra` holds the table's schema and what users store with a commit. `unknown` holds fields of
    newer writers; encoding leaves them out.
    """

    operation: WriteOperation
    stats_by_partition: Mapping[str, tuple[WriteStat, ...]]
    extra: Mapping[str, str] = field(default_factory=dict)
    compacted: bool = False
    replaced_file_ids: Mapping[str, tuple[str, ...]] | None = None
    unknown: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def schema(self) -> str | None:
        """The Avro schema of the table's rows as JSON text, without meta columns; None where the writer left it out."""
        return self.extra.get(SCHEMA_KEY) or None

    def file_groups(self) -> frozenset[tuple[str, str]]:
        """(partition path, file id) of the file groups that were written to."""
        return frozenset(
            (partition_path, stat.file_id)
            for partition_path, stats in self.stats_by_partition.items()
            for stat in stats
            if stat.file_id
        )

    def paths(self) -> frozenset[str]:
        """The files that were written, relative to the table; those of change data among them."""
        stats = [stat for stats in self.stats_by_partition.values() for stat in stats]
        change_data = [path for stat in stats for path in stat.cdc_stats or ()]
        return frozenset([*(stat.path for stat in stats if stat.path), *change_data])


def encode_commit_metadata(metadata: CommitMetadata, version: TableVersion) -> bytes:
    """The body of the instant's file. Cost: about 60 µs per file in the commit."""
    if version.metadata_encoding is MetadataEncoding.JSON:
        return json.dumps(_json_values(metadata), separators=(",", ":")).encode()
    if metadata.replaced_file_ids is None:
        return encode_container(COMMIT_METADATA, _avro_values(metadata))
    replaced = {path: list(ids) for path, ids in metadata.replaced_file_ids.items()}
    return encode_container(REPLACE_COMMIT_METADATA, {**_avro_values(metadata), "partitionToReplaceFileIds": replaced})


def decode_commit_metadata(data: bytes, *, path: str) -> CommitMetadata:
    """What the body of an instant says, whichever version wrote it.

    Raises:
        CorruptDataError: it is empty, truncated or damaged, or a field has another type than it must have. A completed
            commit always has a body; ask only for that of an inflight one if it is not empty.
        UnsafePathError: a partition, a file or a file group of it would lie outside of the table's data.
    """
    return commit_metadata_of(commit_record(data, path=path), path)


def commit_record(data: bytes, *, path: str) -> AvroRecord:
    """The fields of a completed write's body as they are on the wire, unchecked, whichever version wrote it.

    Raises:
        CorruptDataError: it is empty, truncated or damaged.
    """
    if not data:
        raise CorruptDataError("the commit metadata is empty", path=path)
    if data.startswith(MAGIC):
        return decode_container(data, path=path)
    values = _json_object(data, path)
    name = "HoodieCommitMetadata" if values.get("partitionToReplaceFileIds") is None else "HoodieReplaceCommitMetadata"
    return AvroRecord(name, values)


def _json_object(data: bytes, path: str) -> dict[str, Any]:
    if len(data) > JSON_BYTES_MAX:
        raise CorruptDataError("the commit metadata is too large to be any", path=path, size=len(data))
    try:
        values = json.loads(data.decode())
    except json.JSONDecodeError as error:
        raise CorruptDataError("the commit metadata does not parse", path=path, offset=error.pos) from error
    except (ValueError, RecursionError) as error:
        raise CorruptDataError("the commit metadata does not parse", path=path) from error
    if not isinstance(values, dict):
        raise CorruptDataError("the commit metadata is no JSON object", path=path)
    return values


def commit_metadata_of(record: AvroRecord, path: str) -> CommitMetadata:
    """What a decoded body says. Errors: see `decode_commit_metadata`."""
    fields = RecordFields(record.values, path=path, name=record.name)
    if record.name not in ("HoodieCommitMetadata", "HoodieReplaceCommitMetadata"):
        raise CorruptDataError("the file holds another record than commit metadata", path=path, record=record.name)
    replaced = fields.text_lists("partitionToReplaceFileIds")
    if replaced is None and record.name == "HoodieReplaceCommitMetadata":
        replaced = {}
    word = fields.text("operationType")
    operation = operation_of_word(word)
    fields.number("version")  # of the record; no writer of commit metadata sets it
    return CommitMetadata(
        operation=operation or WriteOperation.UNKNOWN,
        stats_by_partition={
            check_data_path(partition_path, source=path): tuple(_stat_of(stat, partition_path, path) for stat in stats)
            for partition_path, stats in fields.record_lists("partitionToWriteStats").items()
        },
        extra=fields.text_map("extraMetadata") or {},
        compacted=fields.flag("compacted"),
        replaced_file_ids=None if replaced is None else _checked_groups(replaced, path),
        unknown=fields.unknown if operation is not None else {**fields.unknown, "operationType": word},
    )


def _checked_groups(groups: Mapping[str, tuple[str, ...]], path: str) -> dict[str, tuple[str, ...]]:
    """File ids by partition path, once each of them is seen to be one."""
    return {
        check_data_path(partition_path, source=path): tuple(check_file_name(file_id, source=path) for file_id in ids)
        for partition_path, ids in groups.items()
    }


def _checked_name(name: str | None, path: str) -> str:
    return check_file_name(name, source=path) if name else ""


def _checked_paths(paths: Iterable[str], path: str) -> tuple[str, ...]:
    return tuple(check_data_path(one, source=path) for one in paths)


def _stat_of(fields: RecordFields, partition_path: str, path: str) -> WriteStat:
    fields.record("recordsStats")  # column ranges that JSON of log appends announces and never holds
    stored_partition_path = fields.text("partitionPath")
    former_base, base_file, log_files = fields.text("prevBaseFile"), fields.text("baseFile"), fields.texts("logFiles")
    change_data = fields.number_map("cdcStats")
    _checked_paths([stored_partition_path or "", former_base or "", base_file or "", *(change_data or ())], path)
    return WriteStat(
        file_id=_checked_name(fields.text("fileId"), path),
        path=check_data_path(fields.text("path") or "", source=path),
        partition_path=partition_path if stored_partition_path is None else stored_partition_path,
        prev_commit=fields.text("prevCommit"),
        num_writes=fields.count("numWrites"),
        num_inserts=fields.count("numInserts"),
        num_update_writes=fields.count("numUpdateWrites"),
        num_deletes=fields.count("numDeletes"),
        num_updates=fields.count("numUpdates"),
        total_write_bytes=fields.count("totalWriteBytes"),
        total_write_errors=fields.count("totalWriteErrors"),
        file_size_in_bytes=fields.count("fileSizeInBytes"),
        prev_base_file=former_base,
        cdc_stats=change_data,
        runtime_stats=_runtime_stats_of(fields.record("runtimeStats")),
        min_event_time=fields.number("minEventTime"),
        max_event_time=fields.number("maxEventTime"),
        temp_path=fields.text("tempPath"),
        total_log_records=fields.count("totalLogRecords"),
        total_log_files=fields.number("totalLogFiles"),
        total_log_blocks=fields.count("totalLogBlocks"),
        total_log_files_compacted=fields.count("totalLogFilesCompacted"),
        total_log_size_compacted=fields.count("totalLogSizeCompacted"),
        total_log_read_time_ms=fields.count("totalLogReadTimeMs"),
        total_updated_records_compacted=fields.count("totalUpdatedRecordsCompacted"),
        total_corrupt_log_block=fields.count("totalCorruptLogBlock"),
        total_rollback_blocks=fields.count("totalRollbackBlocks"),
        log_version=fields.number("logVersion"),
        log_offset=fields.number("logOffset"),
        base_file=base_file,
        log_files=None if log_files is None else _checked_paths(log_files, path),
        unknown=fields.unknown,
    )


def _runtime_stats_of(fields: RecordFields | None) -> RuntimeStats | None:
    if fields is None:
        return None
    return RuntimeStats(
        total_scan_time=fields.count("totalScanTime"),
        total_create_time=fields.count("totalCreateTime"),
        total_upsert_time=fields.count("totalUpsertTime"),
    )


def _avro_values(metadata: CommitMetadata) -> dict[str, Any]:
    return {
        "partitionToWriteStats": {
            partition_path: [_stat_values(stat) for stat in stats]
            for partition_path, stats in metadata.stats_by_partition.items()
        },
        "compacted": metadata.compacted,
        "extraMetadata": dict(metadata.extra),
        "version": None,
        "operationType": metadata.operation.name,
    }


def _json_values(metadata: CommitMetadata) -> dict[str, Any]:
    values: dict[str, Any] = {
        "partitionToWriteStats": {
            partition_path: [_json_stat_values(stat) for stat in stats]
            for partition_path, stats in metadata.stats_by_partition.items()
        },
        "compacted": metadata.compacted,
        "extraMetadata": dict(metadata.extra),
        "operationType": metadata.operation.name,
    }
    if metadata.replaced_file_ids is not None:
        values["partitionToReplaceFileIds"] = dict(metadata.replaced_file_ids)
    return values


def _json_stat_values(stat: WriteStat) -> dict[str, Any]:
    values = _stat_values(stat)
    if stat.log_version is None:
        return {name: values[name] for name in _JSON_STAT_FIELDS}
    log_values = {name: values[name] for name in (*_JSON_STAT_FIELDS, *_JSON_LOG_STAT_FIELDS)}
    return {**log_values, "recordsStats": {"val": None}}


def _stat_values(stat: WriteStat) -> dict[str, Any]:
    """The fields of a stat by their names on the wire."""
    return {
        "fileId": stat.file_id,
        "path": stat.path or None,
        "prevCommit": stat.prev_commit,
        "numWrites": stat.num_writes,
        "numDeletes": stat.num_deletes,
        "numUpdateWrites": stat.num_update_writes,
        "totalWriteBytes": stat.total_write_bytes,
        "totalWriteErrors": stat.total_write_errors,
        "partitionPath": stat.partition_path,
        "totalLogRecords": stat.total_log_records,
        "totalLogFiles": stat.total_log_files,
        "totalUpdatedRecordsCompacted": stat.total_updated_records_compacted,
        "numInserts": stat.num_inserts,
        "totalLogBlocks": stat.total_log_blocks,
        "totalCorruptLogBlock": stat.total_corrupt_log_block,
        "totalRollbackBlocks": stat.total_rollback_blocks,
        "fileSizeInBytes": stat.file_size_in_bytes,
        "logVersion": stat.log_version,
        "logOffset": stat.log_offset,
        "baseFile": stat.base_file,
        "logFiles": None if stat.log_files is None else list(stat.log_files),
        "cdcStats": None if stat.cdc_stats is None else dict(stat.cdc_stats),
        "prevBaseFile": stat.prev_base_file,
        "minEventTime": stat.min_event_time,
        "maxEventTime": stat.max_event_time,
        "runtimeStats": _runtime_stats_values(stat.runtime_stats),
        "totalLogFilesCompacted": stat.total_log_files_compacted,
        "totalLogReadTimeMs": stat.total_log_read_time_ms,
        "totalLogSizeCompacted": stat.total_log_size_compacted,
        "tempPath": stat.temp_path,
        "numUpdates": stat.num_updates,
    }


def _runtime_stats_values(stats: RuntimeStats | None) -> dict[str, int] | None:
    if stats is None:
        return None
    return {
        "totalScanTime": stats.total_scan_time,
        "totalUpsertTime": stats.total_upsert_time,
        "totalCreateTime": stats.total_create_time,
    }
