"""Clustering plans: a part of the bodies of `.replacecommit.requested` and `.clustering.requested`.

JVM Hudi opens the files of a plan by their paths, which are absolute. pyhudi goes by their names, so that a plan also
holds in a copy of the table, and no path of a plan is ever opened.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pyhudi.format.metadata.record_fields import RecordFields
from pyhudi.format.safe_paths import check_data_path, check_file_name

PLAN_VERSION: Final = 1
SORT_COLUMNS_KEY: Final = "hoodie.clustering.plan.strategy.sort.columns"
"""The parameter of a plan's strategy that names the columns to sort by, separated by commas."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusteredSlice:
    """A file slice that a clustering reads: the names of its base file, if it has one, and of its logs."""

    partition_path: str
    file_id: str
    data_file: str | None
    delta_files: tuple[str, ...] = ()
    bootstrap_file: str | None = None
    unknown: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def file_names(self) -> frozenset[str]:
        """The names of all its files."""
        return frozenset((*self.delta_files, *([self.data_file] if self.data_file else [])))


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusteringGroup:
    """Slices of one partition whose rows are sorted and written together. `output_files`: about how many files.

    `extra`: what the resize of a consistent bucket index says of its buckets (`hashing.py`).
    """

    slices: tuple[ClusteredSlice, ...]
    output_files: int
    metrics: Mapping[str, float] = field(default_factory=dict)
    extra: Mapping[str, str] = field(default_factory=dict)
    unknown: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusteringPlan:
    """The plan of a clustering: what is read together, and the class that executes it in JVM Hudi with its parameters.

    `keeps_meta`: rows keep their commit times and sequence numbers; None: JVM Hudi decides, and keeps them.
    """

    groups: tuple[ClusteringGroup, ...]
    strategy_class: str | None = None
    strategy_params: Mapping[str, str] = field(default_factory=dict)
    keeps_meta: bool | None = None
    missing_partitions: tuple[str, ...] | None = None
    unknown: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def slices(self) -> tuple[ClusteredSlice, ...]:
        """All slices of the plan."""
        return tuple(file_slice for group in self.groups for file_slice in group.slices)

    @property
    def sort_columns(self) -> tuple[str, ...]:
        """The columns to sort by."""
        names = self.strategy_params.get(SORT_COLUMNS_KEY, "").split(",")
        return tuple(name.strip() for name in names if name.strip())


def clustering_plan_values(plan: ClusteringPlan, table_uri: str) -> dict[str, Any]:
    """The Avro values of a plan. `table_uri`: the base path of the table, which the paths of files begin with."""
    strategy = None
    if plan.strategy_class is not None:
        strategy = {
            "strategyClassName": plan.strategy_class,
            "strategyParams": dict(plan.strategy_params),
            "version": PLAN_VERSION,
        }
    missing = plan.missing_partitions
    return {
        "inputGroups": [_group_values(group, table_uri.rstrip("/")) for group in plan.groups],
        "strategy": strategy,
        "extraMetadata": {},
        "version": PLAN_VERSION,
        "preserveHoodieMetadata": plan.keeps_meta,
        "missingSchedulePartitions": None if missing is None else list(missing),
    }


def clustering_plan_of(fields: RecordFields, path: str) -> ClusteringPlan:
    """Decode a plan. Raises `CorruptDataError` and `UnsafePathError`, which name `path`."""
    strategy = fields.record("strategy")
    groups = tuple(_group_of(group, path) for group in fields.records("inputGroups"))
    keeps, missing = fields.unknown.pop("preserveHoodieMetadata", None), fields.texts("missingSchedulePartitions")
    if keeps is not None and not isinstance(keeps, bool):
        raise fields.damage("preserveHoodieMetadata")
    fields.text_map("extraMetadata")
    fields.number("version")
    return ClusteringPlan(
        groups=groups,
        strategy_class=None if strategy is None else strategy.text("strategyClassName"),
        strategy_params={} if strategy is None else strategy.text_map("strategyParams") or {},
        keeps_meta=keeps,
        missing_partitions=missing,
        unknown=fields.unknown,
    )


def _group_values(group: ClusteringGroup, root: str) -> dict[str, Any]:
    return {
        "slices": [_slice_values(file_slice, root) for file_slice in group.slices],
        "metrics": dict(group.metrics),
        "numOutputFileGroups": group.output_files,
        "extraMetadata": dict(group.extra) or None,
        "version": PLAN_VERSION,
    }


def _slice_values(file_slice: ClusteredSlice, root: str) -> dict[str, Any]:
    folder = f"{root}/{file_slice.partition_path}" if file_slice.partition_path else root
    return {
        "dataFilePath": f"{folder}/{file_slice.data_file}" if file_slice.data_file else "",
        "deltaFilePaths": [f"{folder}/{name}" for name in file_slice.delta_files],
        "fileId": file_slice.file_id,
        "partitionPath": file_slice.partition_path,
        "bootstrapFilePath": file_slice.bootstrap_file or "",
        "version": PLAN_VERSION,
    }


def _group_of(fields: RecordFields, path: str) -> ClusteringGroup:
    metrics = fields.record("metrics")
    values = {} if metrics is None else metrics.unknown
    for name, value in values.items():
        if not isinstance(value, float):
            raise fields.damage(f"metrics.{name}")
    slices = tuple(_slice_of(record, path) for record in fields.records("slices"))
    extra = fields.text_map("extraMetadata") or {}
    fields.number("version")
    return ClusteringGroup(
        slices=slices,
        output_files=fields.count("numOutputFileGroups"),
        metrics=values,
        extra=extra,
        unknown=fields.unknown,
    )


def _slice_of(fields: RecordFields, path: str) -> ClusteredSlice:
    file_id = fields.text("fileId")
    if file_id is None:
        # Planners must know every claimed file group; one without id could be any.
        raise fields.damage("fileId")
    data_file, bootstrap = fields.text("dataFilePath"), fields.text("bootstrapFilePath")
    fields.number("version")
    return ClusteredSlice(
        partition_path=check_data_path(fields.text("partitionPath") or "", source=path),
        file_id=check_file_name(file_id, source=path),
        data_file=_name(data_file) if data_file else None,
        delta_files=tuple(map(_name, fields.texts("deltaFilePaths") or ())),
        bootstrap_file=bootstrap or None,
        unknown=fields.unknown,
    )


def _name(path: str) -> str:
    return path.rpartition("/")[2]
