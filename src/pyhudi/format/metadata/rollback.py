"""Rollback plans and rollback metadata: the bodies of `.rollback.requested` and `.rollback`.

Both contain absolute paths of files; those in metadata have no scheme. Readers must accept both forms.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pyhudi.errors import CorruptDataError
from pyhudi.format.avro.container import AvroRecord, decode_container, encode_container
from pyhudi.format.metadata.avro_schemas import ROLLBACK_METADATA, ROLLBACK_PLAN
from pyhudi.format.metadata.record_fields import RecordFields
from pyhudi.format.safe_paths import check_data_path, check_file_name

WRITER: Final = "writer.name"
OUR_NAME: Final = b"pyhudi"
_VERSION: Final = 1
_PLAN: Final = "HoodieRollbackPlan"
_METADATA: Final = "HoodieRollbackMetadata"


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackRequest:
    """Files of one partition that a rollback deletes.

    A plan from markers has file group and instant; both are empty in a plan from a listing.
    `log_blocks_to_be_deleted` maps log files to a length, in table version 6 only.
    """

    partition_path: str
    file_id: str = ""
    latest_base_instant: str = ""
    files_to_be_deleted: tuple[str, ...] = ()
    log_blocks_to_be_deleted: Mapping[str, int] = field(default_factory=dict)
    unknown: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackPlan:
    """The plan of a rollback. `instant_time` and `action` are those of the write to roll back.

    `is_ours`: whether pyhudi made the plan, as its header records. pyhudi executes rollbacks under the table lock.
    """

    instant_time: str
    action: str
    requests: tuple[RollbackRequest, ...] = ()
    is_ours: bool = True
    unknown: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackPartition:
    """The result of a rollback in one partition.

    The two maps have log files with their sizes in bytes: those with appended rollback blocks, and those of the failed
    write.
    """

    partition_path: str
    deleted: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    rollback_log_files: Mapping[str, int] = field(default_factory=dict)
    log_files_from_failed_commit: Mapping[str, int] = field(default_factory=dict)
    unknown: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackMetadata:
    """The result of a rollback. `start_time` is its own instant; the other two are those of the write."""

    start_time: str
    time_taken_ms: int
    instant_time: str
    action: str
    partitions: Mapping[str, RollbackPartition] = field(default_factory=dict)
    unknown: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def total_files_deleted(self) -> int:
        """The number of deleted files."""
        return sum(len(partition.deleted) for partition in self.partitions.values())


def encode_rollback_plan(plan: RollbackPlan) -> bytes:
    """Encode the body of a requested rollback, in any table version."""
    values = {
        "instantToRollback": {"commitTime": plan.instant_time, "action": plan.action},
        "RollbackRequests": [
            {
                "partitionPath": request.partition_path,
                "fileId": request.file_id,
                "latestBaseInstant": request.latest_base_instant,
                "filesToBeDeleted": list(request.files_to_be_deleted),
                "logBlocksToBeDeleted": dict(request.log_blocks_to_be_deleted),
            }
            for request in plan.requests
        ],
        "version": _VERSION,
    }
    return encode_container(ROLLBACK_PLAN, values, {WRITER: OUR_NAME} if plan.is_ours else None)


def decode_rollback_plan(data: bytes, *, path: str) -> RollbackPlan:
    """Decode the plan of a requested rollback.

    Raises:
        CorruptDataError: the body is empty or damaged, or another record, or has no instant.
        UnsafePathError: a partition path, file id or instant time is illegal. Paths of files to delete are not checked
            here, because they are absolute; the executor checks that they are inside the table.
    """
    record = _record(data, _PLAN, path)
    fields = RecordFields(record.values, path=path, name=_PLAN)
    instant = fields.record("instantToRollback")
    if instant is None:
        raise fields.damage("instantToRollback")
    fields.number("version")
    return RollbackPlan(
        instant_time=check_file_name(_required(instant, "commitTime"), source=path),
        action=_required(instant, "action"),
        requests=tuple(_request_of(request, path) for request in fields.records("RollbackRequests")),
        is_ours=record.notes.get(WRITER) == OUR_NAME,
        unknown=fields.unknown,
    )


def encode_rollback_metadata(metadata: RollbackMetadata) -> bytes:
    """Encode the body of a completed rollback, in any table version."""
    return encode_container(ROLLBACK_METADATA, rollback_values(metadata))


def rollback_values(metadata: RollbackMetadata) -> dict[str, Any]:
    """The fields of the record."""
    return {
        "startRollbackTime": metadata.start_time,
        "timeTakenInMillis": metadata.time_taken_ms,
        "totalFilesDeleted": metadata.total_files_deleted,
        "commitsRollback": [metadata.instant_time],
        "partitionMetadata": {
            path: {
                "partitionPath": partition.partition_path,
                "successDeleteFiles": list(partition.deleted),
                "failedDeleteFiles": list(partition.failed),
                "rollbackLogFiles": dict(partition.rollback_log_files),
                "logFilesFromFailedCommit": dict(partition.log_files_from_failed_commit),
            }
            for path, partition in metadata.partitions.items()
        },
        "version": _VERSION,
        "instantsRollback": [{"commitTime": metadata.instant_time, "action": metadata.action}],
    }


def decode_rollback_metadata(data: bytes, *, path: str) -> RollbackMetadata:
    """Decode the metadata of a completed rollback.

    Raises:
        CorruptDataError: the body is empty or damaged, or another record, or does not have exactly one instant.
    """
    fields = RecordFields(_record(data, _METADATA, path).values, path=path, name=_METADATA)
    times = fields.texts("commitsRollback") or ()
    instants = tuple(fields.records("instantsRollback"))
    if len(times) != 1 or len(instants) > 1:
        raise fields.damage("commitsRollback")
    fields.number("version")
    fields.number("totalFilesDeleted")
    time_taken_ms = fields.number("timeTakenInMillis")
    if time_taken_ms is None:
        raise fields.damage("timeTakenInMillis")
    return RollbackMetadata(
        start_time=_required(fields, "startRollbackTime"),
        time_taken_ms=time_taken_ms,
        instant_time=times[0],
        # Older writers only record the time.
        action=_required(instants[0], "action") if instants else "",
        partitions={
            name: _partition_of(partition) for name, partition in fields.record_map("partitionMetadata").items()
        },
        unknown=fields.unknown,
    )


def _record(data: bytes, name: str, path: str) -> AvroRecord:
    record = decode_container(data, path=path)
    if record.name != name:
        raise CorruptDataError("the record in the file is not that of its file name", path=path, record=record.name)
    return record


def _required(fields: RecordFields, name: str) -> str:
    text = fields.text(name)
    if text is None:
        raise fields.damage(name)
    return text


def _request_of(fields: RecordFields, path: str) -> RollbackRequest:
    file_id, base_instant = fields.text("fileId") or "", fields.text("latestBaseInstant") or ""
    for name in filter(None, (file_id, base_instant)):
        check_file_name(name, source=path)
    return RollbackRequest(
        partition_path=check_data_path(_required(fields, "partitionPath"), source=path),
        file_id=file_id,
        latest_base_instant=base_instant,
        files_to_be_deleted=fields.texts("filesToBeDeleted") or (),
        log_blocks_to_be_deleted=fields.number_map("logBlocksToBeDeleted") or {},
        unknown=fields.unknown,
    )


def _partition_of(fields: RecordFields) -> RollbackPartition:
    return RollbackPartition(
        partition_path=_required(fields, "partitionPath"),
        deleted=fields.texts("successDeleteFiles") or (),
        failed=fields.texts("failedDeleteFiles") or (),
        rollback_log_files=fields.number_map("rollbackLogFiles") or {},
        log_files_from_failed_commit=fields.number_map("logFilesFromFailedCommit") or {},
        unknown=fields.unknown,
    )
