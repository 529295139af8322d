"""Clean plans and clean metadata: the bodies of `.clean.requested` and `.clean`.

A plan names files by absolute URIs, the metadata by their names alone. Here files are paths relative to the table, so
that the plan of a table that was moved stays valid.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from pyhudi.errors import CorruptDataError
from pyhudi.format.avro.container import decode_container, encode_container
from pyhudi.format.metadata.avro_schemas import CLEAN_METADATA, CLEAN_PLAN
from pyhudi.format.metadata.record_fields import RecordFields
from pyhudi.format.safe_paths import check_data_path, check_file_name

_PLAN: Final = "HoodieCleanerPlan"
_METADATA: Final = "HoodieCleanMetadata"
_VERSION: Final = 2
"""The version of the record that names files by `filePathsToBeDeletedPerPartition`."""


class CleaningPolicy(enum.Enum):
    """Which states of the table stay readable: those of so many commits, of so many hours, or none but the newest.

    The third keeps a number of file slices of each file group instead.
    """

    KEEP_LATEST_COMMITS = "KEEP_LATEST_COMMITS"
    KEEP_LATEST_BY_HOURS = "KEEP_LATEST_BY_HOURS"
    KEEP_LATEST_FILE_VERSIONS = "KEEP_LATEST_FILE_VERSIONS"


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanPlan:
    """What a clean is going to delete.

    `policy`: Hudi's name of the rule. `earliest`: the requested time and the action of the oldest write whose state
    stays readable; None under KEEP_LATEST_FILE_VERSIONS, which keeps no state but the newest. `last_completed`: the
    newest completed write that the plan took into account. `files`: paths relative to the table, by partition path.
    `sources`: URIs of files that skeleton files of a bootstrap stand beside, and that go with them.
    `partitions_to_delete`: partitions that end with this clean. `extra`: notes of the writer.
    """

    policy: str
    earliest: tuple[str, str] | None = None
    last_completed: str = ""
    files: Mapping[str, tuple[str, ...]] = field(default_factory=dict, repr=False)
    sources: Mapping[str, tuple[str, ...]] = field(default_factory=dict, repr=False)
    partitions_to_delete: tuple[str, ...] = ()
    extra: Mapping[str, str] = field(default_factory=dict)

    @property
    def paths(self) -> frozenset[str]:
        """All files of the plan in the table."""
        return frozenset(path for paths in self.files.values() for path in paths)


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanMetadata:
    """What a completed clean has deleted. `earliest` is a requested time, empty where the policy has none.

    `deleted` and `failed`: paths relative to the table, by partition path. `sources`: URIs of files of the source of a
    bootstrap that were deleted; not read back. Other fields: see `CleanPlan`.
    """

    start_time: str
    time_taken_ms: int
    policy: str
    earliest: str = ""
    last_completed: str = ""
    deleted: Mapping[str, tuple[str, ...]] = field(default_factory=dict, repr=False)
    failed: Mapping[str, tuple[str, ...]] = field(default_factory=dict, repr=False)
    sources: Mapping[str, tuple[str, ...]] = field(default_factory=dict, repr=False)
    deleted_partitions: tuple[str, ...] = ()
    extra: Mapping[str, str] = field(default_factory=dict)

    @property
    def paths(self) -> frozenset[str]:
        """All files that the clean was to delete.

        Those whose deletion failed count, too: of a clean that is run again, it fails where the first run succeeded.
        """
        return frozenset(path for files in (self.deleted, self.failed) for paths in files.values() for path in paths)


def encode_clean_plan(plan: CleanPlan, *, table_uri: str) -> bytes:
    """The body of the requested clean, in every table version. `table_uri`: the base path of the table."""
    root = table_uri.rstrip("/")
    values = {
        "earliestInstantToRetain": None
        if plan.earliest is None
        else {"timestamp": plan.earliest[0], "action": plan.earliest[1], "state": "COMPLETED"},
        "lastCompletedCommitTimestamp": plan.last_completed,
        "policy": plan.policy,
        "filesToBeDeletedPerPartition": {},
        "version": _VERSION,
        "filePathsToBeDeletedPerPartition": {
            partition: [
                *({"filePath": f"{root}/{path}", "isBootstrapBaseFile": False} for path in paths),
                *({"filePath": uri, "isBootstrapBaseFile": True} for uri in plan.sources.get(partition, ())),
            ]
            for partition, paths in plan.files.items()
        },
        "partitionsToBeDeleted": list(plan.partitions_to_delete),
        "extraMetadata": dict(plan.extra),
    }
    return encode_container(CLEAN_PLAN, values)


def decode_clean_plan(data: bytes, *, path: str) -> CleanPlan:
    """The plan of a requested clean.

    Raises:
        CorruptDataError: the body is empty or damaged, or another record.
        UnsafePathError: a partition or a file of it would lie outside the table's data.
    """
    fields = _fields_of(data, _PLAN, path)
    earliest = fields.record("earliestInstantToRetain")
    # Before Hudi 0.6 plans had names in a map of their own, which later releases leave empty.
    files = {
        partition: _paths(partition, names, path)
        for partition, names in (fields.text_lists("filesToBeDeletedPerPartition") or {}).items()
    }
    sources: dict[str, tuple[str, ...]] = {}
    for partition, entries in fields.record_lists("filePathsToBeDeletedPerPartition").items():
        of_source = [entry.flag("isBootstrapBaseFile") for entry in entries]
        uris = [entry.text("filePath") or "" for entry in entries]
        names = _paths(partition, (uri for uri, is_source in zip(uris, of_source, strict=True) if not is_source), path)
        files[partition] = (*files.get(partition, ()), *names)
        if any(of_source):
            sources[partition] = tuple(uri for uri, is_source in zip(uris, of_source, strict=True) if is_source)
    return CleanPlan(
        policy=fields.text("policy") or "",
        earliest=None if earliest is None else (_text(earliest, "timestamp"), _text(earliest, "action")),
        last_completed=fields.text("lastCompletedCommitTimestamp") or "",
        files=files,
        sources=sources,
        partitions_to_delete=tuple(
            check_data_path(partition, source=path) for partition in fields.texts("partitionsToBeDeleted") or ()
        ),
        extra=fields.text_map("extraMetadata") or {},
    )


def encode_clean_metadata(metadata: CleanMetadata) -> bytes:
    """The body of the completed clean, in every table version."""
    partitions = sorted({*metadata.deleted, *metadata.failed, *metadata.deleted_partitions})
    values = {
        "startCleanTime": metadata.start_time,
        "timeTakenInMillis": metadata.time_taken_ms,
        "totalFilesDeleted": sum(map(len, metadata.deleted.values())),
        "earliestCommitToRetain": metadata.earliest,
        "lastCompletedCommitTimestamp": metadata.last_completed,
        "partitionMetadata": {partition: _partition_values(metadata, partition) for partition in partitions},
        "version": _VERSION,
        "bootstrapPartitionMetadata": {
            partition: _names_in_partition(metadata, partition, [_name(uri) for uri in uris], [])
            for partition, uris in sorted(metadata.sources.items())
        },
        "extraMetadata": dict(metadata.extra),
    }
    return encode_container(CLEAN_METADATA, values)


def decode_clean_metadata(data: bytes, *, path: str) -> CleanMetadata:
    """What a completed clean has deleted. Errors: see `decode_clean_plan`."""
    return clean_metadata_of(_fields_of(data, _METADATA, path), path=path)


def clean_metadata_of(fields: RecordFields, *, path: str) -> CleanMetadata:
    """The metadata in a decoded `HoodieCleanMetadata`, as an archive holds it. Errors: see `decode_clean_plan`."""
    deleted: dict[str, tuple[str, ...]] = {}
    failed: dict[str, tuple[str, ...]] = {}
    gone, policy = [], ""
    for partition, entry in fields.record_map("partitionMetadata").items():
        deleted[partition] = _paths(partition, entry.texts("successDeleteFiles") or (), path)
        if names := entry.texts("failedDeleteFiles"):
            failed[partition] = _paths(partition, names, path)
        if entry.flag("isPartitionDeleted"):
            gone.append(partition)
        policy = entry.text("policy") or policy
    return CleanMetadata(
        start_time=fields.text("startCleanTime") or "",
        time_taken_ms=fields.count("timeTakenInMillis"),
        policy=policy,
        earliest=fields.text("earliestCommitToRetain") or "",
        last_completed=fields.text("lastCompletedCommitTimestamp") or "",
        deleted=deleted,
        failed=failed,
        deleted_partitions=tuple(gone),
        extra=fields.text_map("extraMetadata") or {},
    )


def _partition_values(metadata: CleanMetadata, partition: str) -> dict[str, object]:
    deleted = [_name(path) for path in metadata.deleted.get(partition, ())]
    failed = [_name(path) for path in metadata.failed.get(partition, ())]
    return _names_in_partition(metadata, partition, deleted, failed)


def _names_in_partition(
    metadata: CleanMetadata, partition: str, deleted: list[str], failed: list[str]
) -> dict[str, object]:
    return {
        "partitionPath": partition,
        "policy": metadata.policy,
        "deletePathPatterns": [*deleted, *failed],
        "successDeleteFiles": deleted,
        "failedDeleteFiles": failed,
        "isPartitionDeleted": partition in metadata.deleted_partitions,
    }


def _fields_of(data: bytes, name: str, path: str) -> RecordFields:
    if not data:
        raise CorruptDataError("the metadata of the clean are empty", path=path)
    record = decode_container(data, path=path)
    if record.name != name:
        raise CorruptDataError("the file holds another record than its name says", path=path, record=record.name)
    return RecordFields(record.values, path=path, name=name)


def _text(fields: RecordFields, name: str) -> str:
    text = fields.text(name)
    if text is None:
        raise fields.damage(name)
    return text


def _paths(partition_path: str, files: Iterable[str], path: str) -> tuple[str, ...]:
    folder = f"{check_data_path(partition_path, source=path)}/" if partition_path else ""
    return tuple(folder + check_file_name(_name(file), source=path) for file in files)


def _name(path: str) -> str:
    return path.rpartition("/")[2]
