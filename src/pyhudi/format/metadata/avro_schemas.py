"""Avro schemas of the records on the timeline, with the field order and defaults of Hudi 1.2.

Order and defaults are part of the format: JVM Hudi resolves records against its own copies of the schemas, including
the order of unions. Tests compare these schemas with those that JVM Hudi embeds.

https://github.com/apache/hudi/tree/master/hudi-common/src/main/avro
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_NAMESPACE: Final = "org.apache.hudi.avro.model"

_Schema = str | dict[str, Any] | list[Any]

_TEXT: Final[_Schema] = {"type": "string", "avro.java.string": "String"}


def _array(items: _Schema) -> _Schema:
    return {"type": "array", "items": items}


def _map(values: _Schema) -> _Schema:
    return {"type": "map", "values": values, "avro.java.string": "String"}


def _record(name: str, *fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields)}


def _root(name: str, *fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": name, "namespace": _NAMESPACE, "fields": list(fields)}


def _required(name: str, schema: _Schema) -> dict[str, Any]:
    return {"name": name, "type": schema}


def _optional(name: str, schema: _Schema) -> dict[str, Any]:
    return {"name": name, "type": ["null", schema], "default": None}


def _list_of(name: str, items: _Schema) -> dict[str, Any]:
    return {"name": name, "type": _array(items), "default": []}


def _count(name: str) -> dict[str, Any]:
    """A number whose default is not null, so that null is the second branch of its union."""
    return {"name": name, "type": ["int", "null"], "default": 1}


_RUNTIME_STATS: Final = _record(
    "HoodieRuntimeStats",
    _optional("totalScanTime", "long"),
    _optional("totalCreateTime", "long"),
    _optional("totalUpsertTime", "long"),
)

_WRITE_STAT: Final = _record(
    "HoodieWriteStat",
    _optional("fileId", _TEXT),
    _optional("path", _TEXT),
    _optional("prevCommit", _TEXT),
    _optional("numWrites", "long"),
    _optional("numDeletes", "long"),
    _optional("numUpdateWrites", "long"),
    _optional("totalWriteBytes", "long"),
    _optional("totalWriteErrors", "long"),
    _optional("partitionPath", _TEXT),
    _optional("totalLogRecords", "long"),
    _optional("totalLogFiles", "long"),
    _optional("totalUpdatedRecordsCompacted", "long"),
    _optional("numInserts", "long"),
    _optional("totalLogBlocks", "long"),
    _optional("totalCorruptLogBlock", "long"),
    _optional("totalRollbackBlocks", "long"),
    _optional("fileSizeInBytes", "long"),
    _optional("logVersion", "int"),
    _optional("logOffset", "long"),
    _optional("baseFile", _TEXT),
    _optional("logFiles", _array(_TEXT)),
    _optional("cdcStats", _map("long")),
    _optional("prevBaseFile", _TEXT),
    _optional("minEventTime", "long"),
    _optional("maxEventTime", "long"),
    _optional("runtimeStats", _RUNTIME_STATS),
    _optional("totalLogFilesCompacted", "long"),
    _optional("totalLogReadTimeMs", "long"),
    _optional("totalLogSizeCompacted", "long"),
    _optional("tempPath", _TEXT),
    _optional("numUpdates", "long"),
)

_COMMIT_FIELDS: Final = (
    _optional("partitionToWriteStats", _map(_array(_WRITE_STAT))),
    _optional("compacted", "boolean"),
    _optional("extraMetadata", _map(_TEXT)),
    _count("version"),
    _optional("operationType", _TEXT),
)

COMMIT_METADATA: Final = _root("HoodieCommitMetadata", *_COMMIT_FIELDS)

REPLACE_COMMIT_METADATA: Final = _root(
    "HoodieReplaceCommitMetadata",
    *_COMMIT_FIELDS,
    _optional("partitionToReplaceFileIds", _map(_array(_TEXT))),
)

_SLICE_INFO: Final = _record(
    "HoodieSliceInfo",
    _optional("dataFilePath", _TEXT),
    _optional("deltaFilePaths", _array(_TEXT)),
    _required("fileId", ["null", _TEXT]),
    _optional("partitionPath", _TEXT),
    _optional("bootstrapFilePath", _TEXT),
    _count("version"),
)

_CLUSTERING_GROUP: Final = _record(
    "HoodieClusteringGroup",
    _optional("slices", _array(_SLICE_INFO)),
    _optional("metrics", _map("double")),
    _count("numOutputFileGroups"),
    _optional("extraMetadata", _map(_TEXT)),
    _count("version"),
)

_CLUSTERING_STRATEGY: Final = _record(
    "HoodieClusteringStrategy",
    _optional("strategyClassName", _TEXT),
    _optional("strategyParams", _map(_TEXT)),
    _count("version"),
)

_CLUSTERING_PLAN: Final = _record(
    "HoodieClusteringPlan",
    _optional("inputGroups", _array(_CLUSTERING_GROUP)),
    _optional("strategy", _CLUSTERING_STRATEGY),
    _optional("extraMetadata", _map(_TEXT)),
    _count("version"),
    _optional("preserveHoodieMetadata", "boolean"),
    _optional("missingSchedulePartitions", _array(_TEXT)),
)

REQUESTED_REPLACE_METADATA: Final = _root(
    "HoodieRequestedReplaceMetadata",
    _optional("operationType", _TEXT),
    _optional("clusteringPlan", _CLUSTERING_PLAN),
    _optional("extraMetadata", _map(_TEXT)),
    _count("version"),
)

_INSTANT_INFO: Final = _record("HoodieInstantInfo", _required("commitTime", _TEXT), _required("action", _TEXT))

_ROLLBACK_REQUEST: Final = _record(
    "HoodieRollbackRequest",
    _required("partitionPath", _TEXT),
    _optional("fileId", _TEXT),
    _optional("latestBaseInstant", _TEXT),
    _list_of("filesToBeDeleted", _TEXT),
    _optional("logBlocksToBeDeleted", _map("long")),
)

ROLLBACK_PLAN: Final = _root(
    "HoodieRollbackPlan",
    _optional("instantToRollback", _INSTANT_INFO),
    _optional("RollbackRequests", _array(_ROLLBACK_REQUEST)),
    _count("version"),
)

_ROLLBACK_PARTITION: Final = _record(
    "HoodieRollbackPartitionMetadata",
    _required("partitionPath", _TEXT),
    _required("successDeleteFiles", _array(_TEXT)),
    _required("failedDeleteFiles", _array(_TEXT)),
    _optional("rollbackLogFiles", _map("long")),
    _optional("logFilesFromFailedCommit", _map("long")),
)

ROLLBACK_METADATA: Final = _root(
    "HoodieRollbackMetadata",
    _required("startRollbackTime", _TEXT),
    _required("timeTakenInMillis", "long"),
    _required("totalFilesDeleted", "int"),
    _required("commitsRollback", _array(_TEXT)),
    _required("partitionMetadata", _map(_ROLLBACK_PARTITION)),
    _count("version"),
    _list_of("instantsRollback", _INSTANT_INFO),
)

_COMPACTION_OPERATION: Final = _record(
    "HoodieCompactionOperation",
    _required("baseInstantTime", ["null", _TEXT]),
    _optional("deltaFilePaths", _array(_TEXT)),
    _optional("dataFilePath", _TEXT),
    _required("fileId", ["null", _TEXT]),
    _optional("partitionPath", _TEXT),
    _optional("metrics", _map("double")),
    _optional("bootstrapFilePath", _TEXT),
)

_COMPACTION_STRATEGY: Final = _record(
    "HoodieCompactionStrategy",
    _optional("compactorClassName", _TEXT),
    _optional("strategyParams", _map(_TEXT)),
    _count("version"),
)

COMPACTION_PLAN: Final = _root(
    "HoodieCompactionPlan",
    _optional("operations", _array(_COMPACTION_OPERATION)),
    _optional("extraMetadata", _map(_TEXT)),
    _count("version"),
    _optional("strategy", _COMPACTION_STRATEGY),
    # Null is the second branch here, too.
    {"name": "preserveHoodieMetadata", "type": ["boolean", "null"], "default": False},
    _optional("missingSchedulePartitions", _array(_TEXT)),
)

_ACTION_INSTANT: Final = _record(
    "HoodieActionInstant", _required("timestamp", _TEXT), _required("action", _TEXT), _required("state", _TEXT)
)

_CLEAN_FILE: Final = _record(
    "HoodieCleanFileInfo", _optional("filePath", _TEXT), _optional("isBootstrapBaseFile", "boolean")
)

MERGE_ARCHIVE_PLAN: Final = _root(
    "HoodieMergeArchiveFilePlan",
    _count("version"),
    _optional("candidate", _array(_TEXT)),
    _optional("mergedArchiveFileName", _TEXT),
)

CLEAN_PLAN: Final = _root(
    "HoodieCleanerPlan",
    _optional("earliestInstantToRetain", _ACTION_INSTANT),
    {"name": "lastCompletedCommitTimestamp", "type": _TEXT, "default": ""},
    _required("policy", _TEXT),
    _optional("filesToBeDeletedPerPartition", _map(_array(_TEXT))),
    _count("version"),
    _optional("filePathsToBeDeletedPerPartition", _map(_array(_CLEAN_FILE))),
    _optional("partitionsToBeDeleted", _array(_TEXT)),
    _optional("extraMetadata", _map(_TEXT)),
)

_CLEAN_PARTITION: Final = _record(
    "HoodieCleanPartitionMetadata",
    _required("partitionPath", _TEXT),
    _required("policy", _TEXT),
    _required("deletePathPatterns", _array(_TEXT)),
    _required("successDeleteFiles", _array(_TEXT)),
    _required("failedDeleteFiles", _array(_TEXT)),
    _optional("isPartitionDeleted", "boolean"),
)

CLEAN_METADATA: Final = _root(
    "HoodieCleanMetadata",
    _required("startCleanTime", _TEXT),
    _required("timeTakenInMillis", "long"),
    _required("totalFilesDeleted", "int"),
    _required("earliestCommitToRetain", _TEXT),
    {"name": "lastCompletedCommitTimestamp", "type": _TEXT, "default": ""},
    _required("partitionMetadata", _map(_CLEAN_PARTITION)),
    _count("version"),
    # A record that was defined above is named here, as Avro wants it.
    _optional("bootstrapPartitionMetadata", _map(f"{_NAMESPACE}.HoodieCleanPartitionMetadata")),
    _optional("extraMetadata", _map(_TEXT)),
)

_SAVEPOINT_PARTITION: Final = _record(
    "HoodieSavepointPartitionMetadata",
    _required("partitionPath", _TEXT),
    _required("savepointDataFile", _array(_TEXT)),
)

SAVEPOINT_METADATA: Final = _root(
    "HoodieSavepointMetadata",
    _required("savepointedBy", _TEXT),
    _required("savepointedAt", "long"),
    _required("comments", _TEXT),
    _required("partitionMetadata", _map(_SAVEPOINT_PARTITION)),
    _count("version"),
)


def _named(record: Mapping[str, Any]) -> dict[str, Any]:
    """The record as a part of another one of the same namespace."""
    return {name: value for name, value in record.items() if name != "namespace"}


_INDEX_PARTITION: Final = _record(
    "HoodieIndexPartitionInfo",
    _count("version"),
    _optional("metadataPartitionPath", _TEXT),
    _optional("indexUptoInstant", _TEXT),
    _optional("extraMetadata", _map(_TEXT)),
)

INDEX_COMMIT_METADATA: Final = _root(
    "HoodieIndexCommitMetadata",
    _count("version"),
    _optional("operationType", _TEXT),
    _optional("indexPartitionInfos", _array(_INDEX_PARTITION)),
)

INDEX_PLAN: Final = _root(
    "HoodieIndexPlan",
    _count("version"),
    _optional("indexPartitionInfos", _array(_INDEX_PARTITION)),
)

# A record that was defined before is named here, as Avro wants it.
_REPLACE_FIELDS: Final = (
    _optional("partitionToWriteStats", _map(_array("HoodieWriteStat"))),
    *_COMMIT_FIELDS[1:],
    _optional("partitionToReplaceFileIds", _map(_array(_TEXT))),
)

ARCHIVED_INSTANT: Final = _root(
    "HoodieArchivedMetaEntry",
    _optional("hoodieCommitMetadata", _named(COMMIT_METADATA)),
    _optional("hoodieCleanMetadata", _named(CLEAN_METADATA)),
    _optional("hoodieRollbackMetadata", _named(ROLLBACK_METADATA)),
    _optional("hoodieSavePointMetadata", _named(SAVEPOINT_METADATA)),
    _optional("commitTime", _TEXT),
    _optional("actionType", _TEXT),
    _count("version"),
    _optional("hoodieCompactionPlan", _named(COMPACTION_PLAN)),
    _optional("hoodieCleanerPlan", _named(CLEAN_PLAN)),
    _optional("actionState", _TEXT),
    _optional("hoodieReplaceCommitMetadata", _record("HoodieReplaceCommitMetadata", *_REPLACE_FIELDS)),
    _optional("hoodieRequestedReplaceMetadata", _named(REQUESTED_REPLACE_METADATA)),
    _optional("HoodieInflightReplaceMetadata", "HoodieCommitMetadata"),
    _optional("hoodieIndexCommitMetadata", _named(INDEX_COMMIT_METADATA)),
    _optional("stateTransitionTime", _TEXT),
)
"""One state of an instant in an archive of table version 6. It has the members that JVM Hudi fills since Hudi 0.10."""

RESTORE_PLAN: Final = _root(
    "HoodieRestorePlan",
    {"name": "instantsToRollback", "type": _array(_INSTANT_INFO), "default": []},
    {"name": "version", "type": ["int", "null"], "default": 2},
    _optional("savepointToRestoreTimestamp", _TEXT),
)

RESTORE_METADATA: Final = _root(
    "HoodieRestoreMetadata",
    _required("startRestoreTime", _TEXT),
    _required("timeTakenInMillis", "long"),
    _required("instantsToRollback", _array(_TEXT)),
    _required(
        "hoodieRestoreMetadata",
        _map(_array(["null", _named(ROLLBACK_METADATA)])),
    ),
    _count("version"),
    # A record that was defined above is named here, as Avro wants it.
    _list_of("restoreInstantInfo", "HoodieInstantInfo"),
)

_PATH: Final = _record("HoodiePath", _count("version"), _optional("uri", _TEXT))

_FILE_STATUS: Final = _record(
    "HoodieFileStatus",
    _count("version"),
    _optional("path", _PATH),
    _optional("length", "long"),
    _optional("isDir", "boolean"),
    _optional("blockReplication", "int"),
    _optional("blockSize", "long"),
    _optional("modificationTime", "long"),
    _optional("accessTime", "long"),
    _optional(
        "permission",
        _record(
            "HoodieFSPermission",
            _count("version"),
            _optional("userAction", _TEXT),
            _optional("groupAction", _TEXT),
            _optional("otherAction", _TEXT),
            _optional("stickyBit", "boolean"),
        ),
    ),
    _optional("owner", _TEXT),
    _optional("group", _TEXT),
    _optional("symlink", "HoodiePath"),
)

BOOTSTRAP_PARTITION: Final = _root(
    "HoodieBootstrapPartitionMetadata",
    _count("version"),
    _optional("bootstrapPartitionPath", _TEXT),
    _optional("partitionPath", _TEXT),
    _optional("fileIdToBootstrapFile", _map(_FILE_STATUS)),
)

BOOTSTRAP_FILE: Final = _root(
    "HoodieBootstrapFilePartitionInfo",
    _count("version"),
    _optional("bootstrapPartitionPath", _TEXT),
    _optional("bootstrapFileStatus", _FILE_STATUS),
    _optional("partitionPath", _TEXT),
)

BOOTSTRAP_INDEX_INFO: Final = _root(
    "HoodieBootstrapIndexInfo",
    _count("version"),
    _optional("bootstrapBasePath", _TEXT),
    _optional("createdTimestamp", "long"),
    _optional("numKeys", "int"),
)
