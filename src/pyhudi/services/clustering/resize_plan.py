"""The resizes that are planned for a table with a consistent bucket index, and what its options may not say."""

from __future__ import annotations

from collections.abc import Mapping

from pyhudi.config.enums import BucketEngine
from pyhudi.config.options_buckets import BucketOptions
from pyhudi.config.options_clustering import ClusteringOptions, ClusteringPlanStrategy, ClusteringRunStrategy
from pyhudi.errors import ConfigError
from pyhudi.services.clustering.plan import PlannedClustering
from pyhudi.services.clustering.resizes import ResizeLimits, plan_resizes
from pyhudi.services.frame.service import ServiceCall
from pyhudi.table.features import bucket_engine_of
from pyhudi.table.file_slice import FileGroupId
from pyhudi.table.file_system_view import FileSystemView
from pyhudi.table.hash_rings import load_ring
from pyhudi.table.pending_clusterings import clustered_groups, is_clustering_plan
from pyhudi.table.state import TableState

_RESIZED = "a resize of its partition is pending"
_WRITTEN = "a write is running, which does not know that its buckets are about to change"


def has_rings(table: TableState, options: ClusteringOptions) -> bool:
    """Whether a clustering of the table resizes buckets. Cost: what `bucket_engine_of` costs.

    Raises `ConfigError` for strategies that do not go with the table.
    """
    is_consistent = bucket_engine_of(table) is BucketEngine.CONSISTENT_HASHING
    plan, run = options.plan_strategy, options.run_strategy
    plans, runs = plan is ClusteringPlanStrategy.CONSISTENT_BUCKETS, run.is_of_buckets
    if not is_consistent and (plans or runs):
        raise ConfigError(
            f"{plan.value if plans else run.value} is for tables with a consistent bucket index, which this one has "
            "not: leave it out",
            path=table.config.path,
        )
    # What is not given is the default.
    other = () if plans or plan is ClusteringPlanStrategy.SIZE_BASED else (plan.value,)
    other += () if runs or run is ClusteringRunStrategy.SORT_AND_SIZE else (run.value,)
    if is_consistent and other:
        raise ConfigError(
            f"{' and '.join(other)} would not know the buckets of this table: leave it out", path=table.config.path
        )
    return is_consistent


def planned_resizes(
    call: ServiceCall, view: FileSystemView, held: Mapping[FileGroupId, str], *, hour: int
) -> PlannedClustering:
    """The resizes that the options would plan now. Cost: a listing and a read for each partition."""
    table, size = call.table, call.config.files.max_file_size
    slices = [each for group in view.latest.values() for each in group]
    resized = {group.partition_path for group in clustered_groups(table.storage, table.timeline)}
    held = {**dict.fromkeys((each.group for each in slices if each.partition_path in resized), _RESIZED), **held}
    if any(not is_clustering_plan(table.storage, table.version, write) for write in table.timeline.pending_writes):
        held = dict.fromkeys((each.group for each in slices), _WRITTEN)
    paths = {each.partition_path for each in slices if each.group not in held}
    rings = {path: load_ring(table.storage, table.timeline, path)[0] for path in sorted(paths)}
    return plan_resizes(
        slices,
        {path: ring for path, ring in rings.items() if ring is not None},
        held,
        call.config.clustering,
        limits_of(call.config.buckets, size),
        hour=hour,
        new_id=call.environment.ids.uuid,
        base_file_bytes_max=size,
    )


def limits_of(options: BucketOptions, base_file_bytes_max: int) -> ResizeLimits:
    """The limits in bytes, as JVM Hudi computes them."""
    return ResizeLimits(
        split_bytes=int(base_file_bytes_max * options.split_threshold),
        merge_bytes=int(base_file_bytes_max * options.merge_threshold),
        least=options.min_number,
        most=options.max_number,
    )
