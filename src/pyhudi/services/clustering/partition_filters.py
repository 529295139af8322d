"""Partitions that a clustering plans, by Hudi's filter modes. Pure.

Like `org.apache.hudi.table.action.cluster.ClusteringPlanPartitionFilter` and the strategies of Hudi 1.2.0: partitions
that are selected by name, or else match a pattern, and of them those that the filter mode keeps.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pyhudi.config.java_patterns import java_pattern
from pyhudi.config.options_clustering import ClusteringOptions, PartitionFilterMode

_HOURS_OF_DAY: Final = 24


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
