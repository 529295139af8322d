"""Planning a clustering: which file slices are rewritten together, and why the others are not. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple

from pyhudi.config.java_patterns import java_pattern
from pyhudi.config.options_clustering import (
    LAYOUT_KEY,
    RUN_PACKAGE,
    ClusteringOptions,
    ClusteringPlanStrategy,
    LayoutStrategy,
    PartitionFilterMode,
)
from pyhudi.format.metadata.clustering import SORT_COLUMNS_KEY, ClusteredSlice, ClusteringGroup, ClusteringPlan
from pyhudi.services.compaction.strategies import estimate_metrics
from pyhudi.table.file_slice import FileGroupId, FileSlice

ELSEWHERE: Final = "its partition is not among those that the options choose"
LATER: Final = "the plan has its maximum number of groups already: the next one takes it"
_ALONE: Final = "it is alone in its group, and nothing is sorted"
_HOURS_OF_DAY: Final = 24


class SliceChoice(NamedTuple):
    """A slice, why it is or is not clustered, in words for the user, and the number of its group if it is."""

    file_slice: FileSlice
    reason: str
    group: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedClustering:
    """A plan with its reasons. Each slice is in exactly one of `chosen` and `skipped`.

    A plan without groups must not be written.
    """

    plan: ClusteringPlan
    chosen: tuple[SliceChoice, ...]
    skipped: tuple[SliceChoice, ...]


def plan_clustering(
    slices: Iterable[FileSlice],
    held: Mapping[FileGroupId, str],
    options: ClusteringOptions,
    *,
    hour: int,
    base_file_bytes_max: int,
) -> PlannedClustering:
    """The clustering that the options plan for the newest slices of a table.

    `held`: file groups that must not be clustered now, and why. `hour`: of the day, in the table's zone.
    `base_file_bytes_max` stands for the size of a slice without a base file. Cost: sorting the slices.
    """
    skipped: list[SliceChoice] = []
    small: dict[str, list[FileSlice]] = {}
    for file_slice in sorted(slices, key=lambda file_slice: (file_slice.partition_path, file_slice.file_id)):
        if (reason := _why_not(file_slice, held, options)) is not None:
            skipped.append(SliceChoice(file_slice, reason, None))
        else:
            small.setdefault(file_slice.partition_path, []).append(file_slice)
    chosen_paths = chosen_partitions(small, options, hour=hour)
    groups: list[list[FileSlice]] = []
    for path in chosen_paths:
        for group in _groups(small.pop(path), options, base_file_bytes_max):
            if _is_pointless(group, options):
                skipped.append(SliceChoice(group[0], _ALONE, None))
            elif len(groups) == options.max_groups:
                skipped += [SliceChoice(file_slice, LATER, None) for file_slice in group]
            else:
                groups.append(group)
    skipped += [SliceChoice(file_slice, ELSEWHERE, None) for rest in small.values() for file_slice in rest]
    plan = ClusteringPlan(
        groups=tuple(_sized_group(group, options, base_file_bytes_max) for group in groups),
        strategy_class=f"{RUN_PACKAGE}{options.run_strategy.value}",
        strategy_params=strategy_params(options),
        keeps_meta=True,
        missing_partitions=_left(skipped, options),
    )
    return PlannedClustering(
        plan=plan,
        chosen=tuple(
            SliceChoice(file_slice, f"one of {len(group)} small files of its group", number)
            for number, group in enumerate(groups)
            for file_slice in group
        ),
        skipped=tuple(skipped),
    )


def strategy_params(options: ClusteringOptions) -> dict[str, str]:
    """What a plan says of the order of rows."""
    if not options.sort_columns:
        return {}
    params = {SORT_COLUMNS_KEY: ",".join(options.sort_columns)}
    return params if options.layout is LayoutStrategy.LINEAR else {**params, LAYOUT_KEY: options.layout.value}


def _why_not(file_slice: FileSlice, held: Mapping[FileGroupId, str], options: ClusteringOptions) -> str | None:
    if file_slice.group in held:
        return held[file_slice.group]
    size = file_slice.base.size if file_slice.base else 0
    if size >= options.small_file_limit:
        return f"its base file has {size} bytes, not less than {options.small_file_limit}"
    return None


def _size_of(file_slice: FileSlice, base_file_bytes_max: int) -> int:
    return file_slice.base.size if file_slice.base else base_file_bytes_max


def _groups(slices: list[FileSlice], options: ClusteringOptions, base_file_bytes_max: int) -> Iterator[list[FileSlice]]:
    """The slices of a partition, large ones first, put together up to the maximum size, as in JVM Hudi."""
    if options.plan_strategy is ClusteringPlanStrategy.SINGLE_FILE:
        yield from ([file_slice] for file_slice in slices)
        return
    group: list[FileSlice] = []
    size = 0
    for file_slice in sorted(slices, key=lambda file_slice: -_size_of(file_slice, base_file_bytes_max)):
        bytes_of_slice = _size_of(file_slice, base_file_bytes_max)
        if group and size + bytes_of_slice > options.max_group_bytes:
            yield group
            group, size = [], 0
        group.append(file_slice)
        size += bytes_of_slice
    if group:
        yield group


def _is_pointless(group: list[FileSlice], options: ClusteringOptions) -> bool:
    """Whether a group of one slice is left alone. JVM Hudi rewrites one that it does not sort again and again."""
    if len(group) > 1 or options.plan_strategy is ClusteringPlanStrategy.SINGLE_FILE:
        return False
    return not options.single_groups or (not options.sort_columns and not group[0].logs)


def _sized_group(group: list[FileSlice], options: ClusteringOptions, base_file_bytes_max: int) -> ClusteringGroup:
    size = sum(_size_of(file_slice, base_file_bytes_max) for file_slice in group)
    return group_of(group, base_file_bytes_max, output_files=max(1, -(-size // options.target_file_bytes)))


def group_of(
    group: Sequence[FileSlice],
    base_file_bytes_max: int,
    *,
    output_files: int,
    extra: Mapping[str, str] = MappingProxyType({}),
) -> ClusteringGroup:
    """A group of a plan."""
    metrics: Counter[str] = Counter()
    for file_slice in group:
        metrics.update(estimate_metrics(file_slice, base_file_bytes_max))
    return ClusteringGroup(
        slices=tuple(
            ClusteredSlice(
                partition_path=file_slice.partition_path,
                file_id=file_slice.file_id,
                data_file=str(file_slice.base.name) if file_slice.base else None,
                bootstrap_file=file_slice.base.source.uri if file_slice.base and file_slice.base.source else None,
                # Newest first, as in JVM Hudi.
                delta_files=tuple(str(log.name) for log in reversed(file_slice.logs)),
            )
            for file_slice in group
        ),
        output_files=output_files,
        extra=extra,
        metrics={name: float(value) for name, value in metrics.items()},
    )


def _left(skipped: Iterable[SliceChoice], options: ClusteringOptions) -> tuple[str, ...]:
    """The partitions that keep small files, from which JVM Hudi plans its next clustering, besides those of writes."""
    small = (choice.file_slice for choice in skipped if choice.reason != _ALONE)
    return tuple(
        sorted(
            {
                file_slice.partition_path
                for file_slice in small
                if file_slice.base is None or file_slice.base.size < options.small_file_limit
            }
        )
    )


def chosen_partitions(partitions: Iterable[str], options: ClusteringOptions, *, hour: int) -> tuple[str, ...]:
    """The partitions that are clustered, in order. `hour` is that of the day, in the table's zone."""
    named = sorted(set(partitions))
    if options.partitions is not None:
        named = [path for path in named if path in options.partitions]
    elif options.partition_regex is not None:
        pattern = java_pattern(options.partition_regex)
        named = [path for path in named if pattern.fullmatch(path)]
    return tuple(_filtered(named, options, hour))


def _filtered(partitions: list[str], options: ClusteringOptions, hour: int) -> list[str]:
    match options.effective_filter:
        case PartitionFilterMode.NONE:
            return partitions
        case PartitionFilterMode.RECENT_DAYS:
            newest = partitions[::-1][options.skipped_partitions :]
            return newest[: options.lookback_partitions] if options.lookback_partitions else newest
        case PartitionFilterMode.SELECTED_PARTITIONS:
            begin, end = options.begin_partition or "", options.end_partition or ""
            return [path for path in partitions if begin <= path <= end]
        case PartitionFilterMode.DAY_ROLLING:
            return partitions[hour::_HOURS_OF_DAY]
