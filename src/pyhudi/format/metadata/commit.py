"""Commit metadata: the body of commits, delta commits and replace commits.

It is JSON in table version 6, with the fields of Hudi 0.15, and Avro from version 8 on, with those of Hudi 1.2. The
JSON lacks `prevBaseFile`, `totalLogReadTimeMs`, `totalLogFiles` and `numUpdates`.
"""

from __future__ import annotations

import itertools
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from pyhudi.errors import CorruptDataError
from pyhudi.format.avro.container import MAGIC, AvroRecord, decode_container, encode_container
from pyhudi.format.metadata.avro_schemas import COMMIT_METADATA, REPLACE_COMMIT_METADATA
from pyhudi.format.metadata.record_fields import RecordFields
from pyhudi.format.metadata.write_operation import WriteOperation, operation_of_word
from pyhudi.format.safe_paths import check_data_path, check_file_name
from pyhudi.format.timeline.table_version import MetadataEncoding, TableVersion

JSON_BYTES_MAX: Final = 1024 * 1024 * 1024
"""The size limit of a JSON body: a commit of a million files."""

SCHEMA_KEY: Final = "schema"
"""The key in `CommitMetadata.extra` of the table's Avro schema, without meta columns."""
WRITER_KEY: Final = "pyhudi.version"
"""The key in `CommitMetadata.extra` of the version of pyhudi, in its own commits."""

NO_PREVIOUS_COMMIT: Final = "null"
"""The `prev_commit` of a new file group: the text `null`, not a null value."""

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


SUMMARY_FILE_IDS_MAX: Final = 1000
"""So many file ids are in the summary of a commit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeStats:
    """The times that a task took for one file, in milliseconds."""

    total_scan_time: int = 0
    total_create_time: int = 0
    total_upsert_time: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteStat:
    """The statistics of one written file. Sizes are in bytes, times in milliseconds; missing counts are zero.

    `path` is relative to the table. In the workload profile of an inflight write it is empty, and for inserts `file_id`
    is empty, too. The fields from `log_version` to `log_files` belong to log appends, and are None otherwise. `unknown`
    has fields of newer writers, which encoding omits. `column_ranges`, rows of
    `pyhudi.format.metadata_table.ranges.RANGES`, goes into the metadata table alone: it is what the task that wrote the
    file learned of its columns, None where it did not ask.
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
    column_ranges: pa.RecordBatch | None = field(default=None, repr=False, compare=False)


def stats_by_partition(stats: Iterable[WriteStat]) -> dict[str, tuple[WriteStat, ...]]:
    """The statistics of files by their partition paths, in order of these."""
    found: dict[str, list[WriteStat]] = defaultdict(list)
    for stat in stats:
        found[stat.partition_path or ""].append(stat)
    return {path: tuple(group) for path, group in sorted(found.items())}


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitMetadata:
    """The metadata of one write: its operation, and per partition path the statistics of each written file.

    `replaced_file_ids` maps partition paths to the file groups that a replace commit removes from the table, None for
    other commits. `extra` has the schema of the table and metadata of users. `unknown` has fields of newer
    writers, which encoding omits.
    """

    operation: WriteOperation
    stats_by_partition: Mapping[str, tuple[WriteStat, ...]]
    extra: Mapping[str, str] = field(default_factory=dict)
    compacted: bool = False
    replaced_file_ids: Mapping[str, tuple[str, ...]] | None = None
    unknown: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def schema(self) -> str | None:
        """The Avro schema of the table's rows as JSON text, without meta columns; None if the writer omitted it."""
        return self.extra.get(SCHEMA_KEY) or None

    def file_groups(self) -> frozenset[tuple[str, str]]:
        """(partition path, file id) of each written file group."""
        return frozenset(
            (partition_path, stat.file_id)
            for partition_path, stats in self.stats_by_partition.items()
            for stat in stats
            if stat.file_id
        )

    def paths(self) -> frozenset[str]:
        """The written files, relative to the table, including files of change data."""
        stats = [stat for stats in self.stats_by_partition.values() for stat in stats]
        change_data = [path for stat in stats for path in stat.cdc_stats or ()]
        return frozenset([*(stat.path for stat in stats if stat.path), *change_data])


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitSummary:
    """Of the metadata of one write: `extra`, the paths of its partitions, and the ids of its first file groups."""

    extra: Mapping[str, str]
    partition_paths: tuple[str, ...] = ()
    file_ids: tuple[str, ...] = ()

    @classmethod
    def of(cls, metadata: CommitMetadata) -> CommitSummary:
        """The summary of metadata that are there."""
        stats = itertools.chain.from_iterable(metadata.stats_by_partition.values())
        ids = (stat.file_id for stat in stats if stat.file_id)
        kept = tuple(itertools.islice(ids, SUMMARY_FILE_IDS_MAX))
        return cls(extra=metadata.extra, partition_paths=tuple(metadata.stats_by_partition), file_ids=kept)


def encode_commit_metadata(metadata: CommitMetadata, version: TableVersion) -> bytes:
    """Encode the body of an instant file. Cost: about 60 µs per file in the commit."""
    if version.metadata_encoding is MetadataEncoding.JSON:
        return json.dumps(_json_values(metadata), separators=(",", ":")).encode()
    if metadata.replaced_file_ids is None:
        return encode_container(COMMIT_METADATA, _avro_values(metadata))
    replaced = {path: list(ids) for path, ids in metadata.replaced_file_ids.items()}
    return encode_container(REPLACE_COMMIT_METADATA, {**_avro_values(metadata), "partitionToReplaceFileIds": replaced})


def encode_stats(metadata: CommitMetadata) -> list[dict[str, Any]]:
    """The statistics of all files of a write, each in the form of JVM Hudi's JSON."""
    return [_json_stat_values(stat) for stats in metadata.stats_by_partition.values() for stat in stats]


def decode_commit_metadata(data: bytes, *, path: str) -> CommitMetadata:
    """Decode the body of an instant file of any table version.

    Raises:
        CorruptDataError: the body is empty, truncated or damaged, or a field has the wrong type. The body of an
            inflight commit may be empty; check this first.
        UnsafePathError: the path of a partition, file or file group leads out of the table's data.
    """
    return commit_metadata_of(commit_record(data, path=path), path)


def summarise_commit(data: bytes, *, path: str) -> CommitSummary:
    """The summary of the body of a completed write. Raises as `decode_commit_metadata`, but for statistics of files."""
    fields = _fields_of(commit_record(data, path=path), path)
    written = fields.record_lists("partitionToWriteStats")
    ids = (stat.text("fileId") for stats in written.values() for stat in stats)
    kept = itertools.islice((file_id for file_id in ids if file_id), SUMMARY_FILE_IDS_MAX)
    return CommitSummary(
        extra=fields.text_map("extraMetadata") or {},
        partition_paths=tuple(check_data_path(partition_path, source=path) for partition_path in written),
        file_ids=tuple(check_file_name(file_id, source=path) for file_id in kept),
    )


def commit_record(data: bytes, *, path: str) -> AvroRecord:
    """The encoded fields of the body of a completed write of any table version, unchecked.

    Raises:
        CorruptDataError: the body is empty, truncated or damaged.
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
        raise CorruptDataError("the commit metadata is too large", path=path, size=len(data))
    try:
        values = json.loads(data.decode())
    except json.JSONDecodeError as error:
        raise CorruptDataError("the commit metadata does not parse", path=path, offset=error.pos) from error
    except (ValueError, RecursionError) as error:
        raise CorruptDataError("the commit metadata does not parse", path=path) from error
    if not isinstance(values, dict):
        raise CorruptDataError("the commit metadata is not a JSON object", path=path)
    return values


def commit_metadata_of(record: AvroRecord, path: str) -> CommitMetadata:
    """The metadata in a decoded body. Raises as `decode_commit_metadata`."""
    fields = _fields_of(record, path)
    replaced = fields.text_lists("partitionToReplaceFileIds")
    if replaced is None and record.name == "HoodieReplaceCommitMetadata":
        replaced = {}
    word = fields.text("operationType")
    operation = operation_of_word(word)
    fields.number("version")  # the version of the record, which no writer sets
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


def _fields_of(record: AvroRecord, path: str) -> RecordFields:
    if record.name not in ("HoodieCommitMetadata", "HoodieReplaceCommitMetadata"):
        raise CorruptDataError("the record in the file is not commit metadata", path=path, record=record.name)
    return RecordFields(record.values, path=path, name=record.name)


def _checked_groups(groups: Mapping[str, tuple[str, ...]], path: str) -> dict[str, tuple[str, ...]]:
    """Checked file ids by partition path."""
    return {
        check_data_path(partition_path, source=path): tuple(check_file_name(file_id, source=path) for file_id in ids)
        for partition_path, ids in groups.items()
    }


def _checked_name(name: str | None, path: str) -> str:
    return check_file_name(name, source=path) if name else ""


def _checked_paths(paths: Iterable[str], path: str) -> tuple[str, ...]:
    return tuple(check_data_path(data_path, source=path) for data_path in paths)


def _stat_of(fields: RecordFields, partition_path: str, path: str) -> WriteStat:
    fields.record("recordsStats")  # column ranges; always empty in the JSON of log appends
    stored_partition_path = fields.text("partitionPath")
    previous_base, base_file, log_files = fields.text("prevBaseFile"), fields.text("baseFile"), fields.texts("logFiles")
    change_data = fields.number_map("cdcStats")
    _checked_paths([stored_partition_path or "", previous_base or "", base_file or "", *(change_data or ())], path)
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
        prev_base_file=previous_base,
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
    """The fields of a stat by their encoded names."""
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
