"""Compaction plans: the bodies of `.compaction.requested` and `.logcompaction.requested`.

Unlike every other record of the timeline a plan names files without their folders (trap 8), so that a copied table can
still execute it. Names become paths that an executor opens, and file ids become names that it creates: none of them is
believed before it was seen to be one.

Source: `format/timeline.md` 1.4, 7.2; traps 7, 8; mission row S1-38.
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
"""The class that real Hudi names in the plan of a log compaction, and in no other plan."""

PLAN_VERSION: Final = 2
"""The version of plans with file names; those of version 1 had paths, before table version 6."""

_PLAN: Final = "HoodieCompactionPlan"
_STRATEGY_VERSION: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionOperation:
    """One file slice to compact: the base file, if it has one, and the logs over it in the order of merging.

    `base_instant_time` is the write that made the base file; of a slice without one, that of its first log.
    `delta_files` and `data_file` are names, in the folder of `partition_path`. `metrics` are the planner's estimates
    (`TOTAL_IO_MB`, …). `bootstrap_file` is the path of the file outside of the table under a bootstrapped base file.
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
    """What a compaction, or a log compaction, is going to do.

    `compactor_class` and `compactor_params` are what real Hudi calls the plan's strategy: how to execute it, not how it
    was chosen. `missing_partitions` names partitions that still hold logs which this plan leaves alone; None where
    the writer kept no account. Real Hudi plans the next compaction from these and from what was written since.
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
        """Whether the outcome is one log file per slice instead of a base file."""
        return self.compactor_class == LOG_COMPACTOR


def encode_compaction_plan(plan: CompactionPlan) -> bytes:
    """The body of a requested compaction or log compaction, in every table version."""
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
    """What a requested compaction or log compaction is going to do.

    Raises:
        CorruptDataError: the body is empty or damaged, another record, or an operation names no file group, no log, the
            file of another group, or a file group a second time.
        UnsafePathError: a file name, file id or partition path would lead out of its folder, or among metadata.
    """
    record = decode_container(data, path=path)
    if record.name != _PLAN:
        raise CorruptDataError("the file holds another record than its name says", path=path, record=record.name)
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
        missing_partitions=None if missing is None else tuple(check_data_path(one, source=path) for one in missing),
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
            raise CorruptDataError("the plan calls a file a log that is none", path=path, file=name)
    if data_file is not None and not isinstance(_file_of(data_file, file_id, path), BaseFileName):
        raise CorruptDataError("the plan calls a file a base file that is none", path=path, file=data_file)
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
    """The map of doubles, read as a record of which no field was taken."""
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
        raise CorruptDataError("the plan names a file that is none of its group", path=path, file=name, file_id=file_id)
    return file
