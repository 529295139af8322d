"""Planning resizes of a consistent bucket index: buckets that are split, merged, or sorted anew, and why not. Pure.

Like `BaseConsistentHashingBucketClusteringPlanStrategy` of Hudi 1.2.0: large buckets are split in two while their
partition has fewer than its maximum, and small neighbours are merged while it has more than its minimum. JVM Hudi also
rewrites all other buckets each time; here they stay as they are, unless their rows are to be sorted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from pyhudi.config.enums import BucketEngine
from pyhudi.config.options_buckets import BucketOptions
from pyhudi.config.options_clustering import (
    RUN_PACKAGE,
    ClusteringOptions,
    ClusteringPlanStrategy,
    ClusteringRunStrategy,
)
from pyhudi.errors import ConfigError
from pyhudi.format.buckets import HashNode, HashRing
from pyhudi.format.metadata.clustering import ClusteringGroup, ClusteringPlan
from pyhudi.format.metadata.hashing import resize_of_group
from pyhudi.services.clustering.plan import (
    ELSEWHERE,
    LATER,
    PlannedClustering,
    SliceChoice,
    chosen_partitions,
    group_of,
    strategy_params,
)
from pyhudi.services.frame.service import ServiceCall
from pyhudi.table.features import bucket_engine_of
from pyhudi.table.file_slice import FileGroupId, FileSlice
from pyhudi.table.file_system_view import FileSystemView
from pyhudi.table.hash_rings import load_ring
from pyhudi.table.pending_clusterings import clustered_groups, is_clustering_plan
from pyhudi.table.state import TableState

_NO_BUCKET: Final = "it is no bucket of its partition"
_SORTED: Final = "its rows are sorted"
_RESIZED = "a resize of its partition is pending"
_WRITTEN = "a write is running, which does not know that its buckets are about to change"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResizeLimits:
    """Bytes above which a bucket is split, and up to which neighbours are merged; how many buckets a partition has.

    `least` and `most`: None, as many as it began with.
    """

    split_bytes: int
    merge_bytes: int
    least: int | None = None
    most: int | None = None


class _Resize(NamedTuple):
    """A group of a plan: buckets, the nodes that they become, and the reason in words."""

    slices: tuple[FileSlice, ...]
    nodes: tuple[HashNode, ...]
    reason: str


def plan_resizes(
    slices: Iterable[FileSlice],
    rings: Mapping[str, HashRing],
    held: Mapping[FileGroupId, str],
    options: ClusteringOptions,
    limits: ResizeLimits,
    *,
    hour: int,
    new_id: Callable[[], str],
    base_file_bytes_max: int,
) -> PlannedClustering:
    """The resizes that the options plan for the newest slices of a table.

    `rings`: of all partitions with slices that are not in `held`. `new_id` gives UUIDs. Otherwise as `plan_clustering`.
    """
    skipped: list[SliceChoice] = []
    free: dict[str, dict[int, FileSlice]] = {}
    numbers = {path: {node.file_id: n for n, node in enumerate(ring.nodes)} for path, ring in rings.items()}
    for file_slice in sorted(slices, key=lambda file_slice: (file_slice.partition_path, file_slice.file_id)):
        number = numbers.get(file_slice.partition_path, {}).get(file_slice.file_id)
        if file_slice.group in held or number is None:
            skipped.append(SliceChoice(file_slice, held.get(file_slice.group, _NO_BUCKET), None))
        else:
            free.setdefault(file_slice.partition_path, {})[number] = file_slice
    resizes: list[_Resize] = []
    paths = chosen_partitions(free, options, hour=hour)
    for path in paths:
        planned = _of_partition(rings[path], free[path], options, limits, new_id, skipped)
        later = planned[options.max_groups - len(resizes) :]
        skipped += [SliceChoice(file_slice, LATER, None) for resize in later for file_slice in resize.slices]
        resizes += planned[: options.max_groups - len(resizes)]
    skipped += [
        SliceChoice(file_slice, ELSEWHERE, None)
        for path in free.keys() - set(paths)
        for file_slice in free[path].values()
    ]
    plan = ClusteringPlan(
        groups=tuple(_group(resize, rings, base_file_bytes_max) for resize in resizes),
        strategy_class=f"{RUN_PACKAGE}{ClusteringRunStrategy.CONSISTENT_BUCKETS.value}",
        strategy_params=strategy_params(options),
        keeps_meta=True,
        # JVM Hudi looks at all partitions again each time.
        missing_partitions=tuple(sorted(free)),
    )
    chosen = [
        SliceChoice(file_slice, resize.reason, number)
        for number, resize in enumerate(resizes)
        for file_slice in resize.slices
    ]
    return PlannedClustering(plan=plan, chosen=tuple(chosen), skipped=tuple(skipped))


def _of_partition(
    ring: HashRing,
    buckets: Mapping[int, FileSlice],
    options: ClusteringOptions,
    limits: ResizeLimits,
    new_id: Callable[[], str],
    skipped: list[SliceChoice],
) -> list[_Resize]:
    """The resizes of a partition, from its slices by the number of their node; adds others to `skipped`."""
    most = ring.initial_buckets if limits.most is None else limits.most
    least = ring.initial_buckets if limits.least is None else limits.least
    why_not: dict[int, str] = {}
    resizes: list[_Resize] = []
    sizes = {number: bucket.size for number, bucket in buckets.items()}
    # JVM Hudi takes them as they come. If there is not room for all, the largest count.
    for number in sorted(sizes, key=lambda bucket: (-sizes[bucket], bucket)):
        if sizes[number] <= limits.split_bytes:
            break
        large = f"its files have {sizes[number]} bytes, more than {limits.split_bytes}"
        if len(ring.nodes) + len(resizes) >= most:
            why_not[number] = f"{large}, and its partition may not have more than {most} buckets"
        elif (halves := ring.halves_of(number, new_id(), new_id())) is None:
            why_not[number] = f"{large}, and it has a single hash"
        else:
            resizes.append(_Resize((buckets[number],), halves, f"{large}: it is split"))
            del sizes[number]
    surplus = len(ring.nodes) + len(resizes) - least
    for group in _neighbours(len(ring.nodes), sizes, limits.merge_bytes, surplus):
        small = f"its files have not more than {limits.merge_bytes} bytes, as those of its neighbours: it is merged"
        resizes.append(_Resize(tuple(buckets[n] for n in group), ring.joined(group, new_id()), small))
        for number in group:
            del sizes[number]
    for number in sorted(sizes):
        if options.sort_columns:
            resizes.append(_Resize((buckets[number],), (ring.renewed(number, new_id()),), _SORTED))
        else:
            reason = why_not.get(number) or _left_alone(sizes[number], limits, surplus, least)
            skipped.append(SliceChoice(buckets[number], reason, None))
    return resizes


def _left_alone(size: int, limits: ResizeLimits, surplus: int, least: int) -> str:
    if size > limits.merge_bytes:
        return f"its files have {size} bytes, more than {limits.merge_bytes} and not more than {limits.split_bytes}"
    small = f"its files have {size} bytes, not more than {limits.merge_bytes}"
    if surplus <= 0:
        return f"{small}, and its partition may not have fewer than {least} buckets"
    return f"{small}, and no small neighbour is left to merge it with"


def _neighbours(buckets: int, sizes: Mapping[int, int], limit: int, surplus: int) -> list[list[int]]:
    """Runs of small buckets that follow each other on a ring of so many, at most `surplus` joints in all.

    From each small one in order first backwards and then forwards, while the run before it has at most `limit` bytes.
    """
    groups: list[list[int]] = []
    taken: set[int] = set()
    for number in sorted(sizes):
        if number in taken or sizes[number] > limit:
            continue
        run, total = deque([number]), sizes[number]
        for is_forward in (False, True):
            while surplus > 0 and total <= limit:
                near = (run[-1] + 1 if is_forward else run[0] - 1) % buckets
                if near in run or near in taken or sizes.get(near, limit + 1) > limit:
                    break
                (run.append if is_forward else run.appendleft)(near)
                total += sizes[near]
                surplus -= 1
        if len(run) > 1:
            taken.update(run)
            groups.append(list(run))
    return groups


def _group(resize: _Resize, rings: Mapping[str, HashRing], base_file_bytes_max: int) -> ClusteringGroup:
    path = resize.slices[0].partition_path
    return group_of(
        resize.slices,
        base_file_bytes_max,
        output_files=2 if len(resize.nodes) > len(resize.slices) else 1,
        extra=resize_of_group(path, resize.nodes, rings[path].sequence),
    )


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
    slices = [file_slice for group in view.latest.values() for file_slice in group]
    resized = {group.partition_path for group in clustered_groups(table.storage, table.timeline)}
    held = {
        **dict.fromkeys((file_slice.group for file_slice in slices if file_slice.partition_path in resized), _RESIZED),
        **held,
    }
    if any(not is_clustering_plan(table.storage, table.version, write) for write in table.timeline.pending_writes):
        held = dict.fromkeys((file_slice.group for file_slice in slices), _WRITTEN)
    paths = {file_slice.partition_path for file_slice in slices if file_slice.group not in held}
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
