"""Compaction plans: the bodies of `.compaction.requested` and `.logcompaction.requested`.

Unlike all other records on the timeline, a plan contains file names without folders, so that a copy of the table can
execute it. An executor opens these names and creates files from the file ids, so both are checked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pyhudi.errors import CorruptDataError
from pyhudi.format.avro.container import decode_container, encode_container
from pyhudi.format.file_names import BaseFileName, LogFileName, parse_data_file
from pyhudi.format.metadata.avro_schemas import COMPACTION_PLAN
from pyhudi.format.metadata.record_fields import RecordFields
from pyhudi.format.safe_paths import check_data_path, check_file_name

LOG_COMPACTOR: Final = "org.apache.hudi.table.action.compact.LogCompactionExecutionHelper"
"""The class that JVM Hudi names in the plan of a log compaction, and in no other plan."""

PLAN_VERSION: Final = 2
"""The version of plans with file names. Plans of version 1, before table version 6, had paths."""

_PLAN: Final = "HoodieCompactionPlan"
_STRATEGY_VERSION: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionOperation:
    """One file slice to compact: its base file, if any, and its logs in the order of merging.

    `base_instant_time` is the write of the base file, or that of the first log if there is no base file. `delta_files`
    and `data_file` are names in the folder of `partition_path`. `metrics` are estimates of the planner (`TOTAL_IO_MB`,
    …). `bootstrap_file` is the path of the source file, outside of the table, of a bootstrapped base file.
    """

    file_id: str
    partition_path: str
    base_instant_time: str
    delta_files: tuple[str, ...]
    data_file: str | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    bootstrap_file: str | None = None
    unknown: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionPlan:
    """The plan of a compaction or log compaction.

    `compactor_class` and `compactor_params` are the strategy of the plan in JVM Hudi's sense: how to execute the plan.
    `missing_partitions` are partitions with logs that the plan does not compact; None if the writer did not record
    them. JVM Hudi plans the next compaction from these, and from the partitions written since.
    """

    operations: tuple[CompactionOperation, ...]
    extra: Mapping[str, str] = field(default_factory=dict)
    version: int | None = PLAN_VERSION
    compactor_class: str | None = None
    compactor_params: Mapping[str, str] = field(default_factory=dict)
    preserve_meta: bool = False
    missing_partitions: tuple[str, ...] | None = None
    unknown: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def is_log_compaction(self) -> bool:
        """Whether the result is one log file per slice instead of a base file."""
        return self.compactor_class == LOG_COMPACTOR


def encode_compaction_plan(plan: CompactionPlan) -> bytes:
    """Encode the body of a requested compaction or log compaction, in any table version."""
    strategy = None
    if plan.compactor_class is not None or plan.compactor_params:
        strategy = {
            "compactorClassName": plan.compactor_class,
            "strategyParams": dict(plan.compactor_params),
            "version": _STRATEGY_VERSION,
        }
    missing = plan.missing_partitions
    values = {
        "operations": [_values_of(operation) for operation in plan.operations],
        "extraMetadata": dict(plan.extra),
        "version": plan.version,
        "strategy": strategy,
        "preserveHoodieMetadata": plan.preserve_meta,
        "missingSchedulePartitions": None if missing is None else list(missing),
    }
    return encode_container(COMPACTION_PLAN, values)


def decode_compaction_plan(data: bytes, *, path: str) -> CompactionPlan:
    """Decode the plan of a requested compaction or log compaction.

    Raises:
        CorruptDataError: the body is empty or damaged, or another record; or an operation has no file group, no log, a
            file of another group, or the file group of another operation.
        UnsafePathError: a file name, file id or partition path leads out of its folder, or into the metadata folder.
    """
    record = decode_container(data, path=path)
    if record.name != _PLAN:
        raise CorruptDataError("the record in the file is not that of its file name", path=path, record=record.name)
    fields = RecordFields(record.values, path=path, name=_PLAN)
    operations = tuple(_operation_of(operation, path) for operation in fields.records("operations"))
    groups = {(operation.partition_path, operation.file_id) for operation in operations}
    if len(groups) != len(operations):
        raise CorruptDataError("the plan names a file group twice", path=path)
    strategy, missing = fields.record("strategy"), fields.texts("missingSchedulePartitions")
    return CompactionPlan(
        operations=operations,
        extra=fields.text_map("extraMetadata") or {},
        version=fields.number("version"),
        compactor_class=None if strategy is None else strategy.text("compactorClassName"),
        compactor_params={} if strategy is None else strategy.text_map("strategyParams") or {},
        preserve_meta=fields.flag("preserveHoodieMetadata"),
        missing_partitions=None if missing is None else tuple(check_data_path(name, source=path) for name in missing),
        unknown=fields.unknown,
    )


def _values_of(operation: CompactionOperation) -> dict[str, Any]:
    return {
        "baseInstantTime": operation.base_instant_time,
        "deltaFilePaths": list(operation.delta_files),
        "dataFilePath": operation.data_file,
        "fileId": operation.file_id,
        "partitionPath": operation.partition_path,
        "metrics": dict(operation.metrics),
        "bootstrapFilePath": operation.bootstrap_file,
    }


def _operation_of(fields: RecordFields, path: str) -> CompactionOperation:
    file_id, base_instant_time = fields.text("fileId"), fields.text("baseInstantTime")
    if not file_id:
        raise fields.damage("fileId")
    if base_instant_time is None:
        raise fields.damage("baseInstantTime")
    partition_path, data_file = fields.text("partitionPath") or "", fields.text("dataFilePath")
    delta_files = fields.texts("deltaFilePaths") or ()
    check_data_path(partition_path, source=path)
    check_file_name(file_id, source=path)
    for name in delta_files:
        if not isinstance(_file_of(name, file_id, path), LogFileName):
            raise CorruptDataError("the plan lists a log file whose name is not a log file name", path=path, file=name)
    if data_file is not None and not isinstance(_file_of(data_file, file_id, path), BaseFileName):
        raise CorruptDataError(
            "the plan lists a base file whose name is not a base file name", path=path, file=data_file
        )
    return CompactionOperation(
        file_id=file_id,
        partition_path=partition_path,
        base_instant_time=base_instant_time,
        delta_files=delta_files,
        data_file=data_file,
        metrics=_metrics_of(fields),
        bootstrap_file=fields.text("bootstrapFilePath"),
        unknown=fields.unknown,
    )


def _metrics_of(fields: RecordFields) -> dict[str, float]:
    """A map of doubles, decoded as a record without known fields."""
    metrics = fields.record("metrics")
    values = {} if metrics is None else metrics.unknown
    for name, value in values.items():
        if not isinstance(value, float):
            raise fields.damage(f"metrics.{name}")
    return values


def _file_of(name: str, file_id: str, path: str) -> BaseFileName | LogFileName:
    check_file_name(name, source=path)
    file = parse_data_file(name)
    if file is None or file.file_id != file_id:
        raise CorruptDataError(
            "the plan names a file that does not belong to its file group", path=path, file=name, file_id=file_id
        )
    return file
