"""Options of clustering: which file groups are rewritten into sorted files of a good size, when, and beside writes."""

# ruff: noqa: RUF009 - option() declares a field, as dataclasses.field does
from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from pyhudi.config.option import option
from pyhudi.config.parsers import (
    NOT_BUILT,
    Parser,
    column_names,
    integer,
    partition_paths,
    regular_expression,
    text,
)
from pyhudi.errors import UnsupportedFeatureError
from pyhudi.format.metadata.clustering import SORT_COLUMNS_KEY

_PLAN_PACKAGE = "org.apache.hudi.client.clustering.plan.strategy."
RUN_PACKAGE = "org.apache.hudi.client.clustering.run.strategy."
_UPDATE_PACKAGE = "org.apache.hudi.client.clustering.update.strategy."
_CONFLICT_PACKAGE = "org.apache.hudi.client.transaction."


class ClusteringPlanStrategy(enum.Enum):
    """How file slices are put together into groups. Values are class names of JVM Hudi, unqualified."""

    SIZE_BASED = "SparkSizeBasedClusteringPlanStrategy"
    """Small files of a partition together, up to a size."""
    SINGLE_FILE = "SparkSingleFileSortPlanStrategy"
    """Each small file on its own."""
    RECENT_DAYS = "SparkRecentDaysClusteringPlanStrategy"
    """SIZE_BASED with the filter mode RECENT_DAYS."""
    SELECTED_PARTITIONS = "SparkSelectedPartitionsClusteringPlanStrategy"
    """SIZE_BASED with the filter mode SELECTED_PARTITIONS."""
    CONSISTENT_BUCKETS = "SparkConsistentBucketClusteringPlanStrategy"
    """Large buckets of a consistent bucket index are split, and small neighbours merged."""


class ClusteringRunStrategy(enum.Enum):
    """How a group is written. Values are class names of JVM Hudi, unqualified."""

    SORT_AND_SIZE = "SparkSortAndSizeExecutionStrategy"
    """Sorted, into files of the target size."""
    SINGLE_FILE = "SparkSingleFileSortExecutionStrategy"
    """Sorted, into one file, whatever its size."""
    BINARY_COPY = "SparkBinaryCopyClusteringExecutionStrategy"
    """Unsorted: row groups are copied without decoding them."""
    STREAM_COPY = "SparkStreamCopyClusteringExecutionStrategy"
    """Another name of BINARY_COPY."""
    CONSISTENT_BUCKETS = "SparkConsistentBucketClusteringExecutionStrategy"
    """By the hash of their keys, into one file for each bucket that the plan names."""
    CONSISTENT_BUCKETS_AT_ONCE = "SingleSparkJobConsistentHashingExecutionStrategy"
    """Another name of CONSISTENT_BUCKETS."""

    @property
    def copies(self) -> bool:
        """Whether row groups are copied, where nothing is sorted."""
        return self in (ClusteringRunStrategy.BINARY_COPY, ClusteringRunStrategy.STREAM_COPY)

    @property
    def is_of_buckets(self) -> bool:
        """Whether it is for tables with a consistent bucket index."""
        return self in (ClusteringRunStrategy.CONSISTENT_BUCKETS, ClusteringRunStrategy.CONSISTENT_BUCKETS_AT_ONCE)


class PartitionFilterMode(enum.Enum):
    """Which partitions are clustered."""

    NONE = "NONE"
    RECENT_DAYS = "RECENT_DAYS"
    SELECTED_PARTITIONS = "SELECTED_PARTITIONS"
    DAY_ROLLING = "DAY_ROLLING"


class LayoutStrategy(enum.Enum):
    """The order of rows by several sort columns."""

    LINEAR = "LINEAR"
    """By the first column, then by the second, and so on."""
    ZORDER = "ZORDER"
    """Along a curve that interleaves the bits of the columns."""
    HILBERT = "HILBERT"
    """Along a curve that goes from neighbour to neighbour."""


class UpdateStrategy(enum.Enum):
    """What a write does that changes file groups of a planned clustering. Values are class names, unqualified."""

    REJECT = "SparkRejectUpdateStrategy"
    """It fails."""
    ALLOW = "SparkAllowUpdateStrategy"
    """It rolls the plan back, unless that is running, and goes on."""
    BOTH_BUCKETS = "SparkConsistentBucketDuplicateUpdateStrategy"
    """In a consistent bucket index it writes to the old and to the new buckets, which is what it does anyway; in other
    tables it fails."""


class ConflictStrategy(enum.Enum):
    """Which of a write and a clustering gives way. Values are class names of JVM Hudi, unqualified."""

    SIMPLE = "SimpleConcurrentFileWritesConflictResolutionStrategy"
    """The write, if the clustering was planned before the write is completed."""
    PREFER_WRITER = "PreferWriterConflictResolutionStrategy"
    """The clustering."""


E = TypeVar("E", bound=enum.Enum)


def _class_of(choices: type[E], package: str, refused: Mapping[str, str]) -> Parser[E]:
    """A class of JVM Hudi, with or without its package."""
    by_name = {str(member.value): member for member in choices}

    def read(value: str) -> E:
        name = value.removeprefix(package)
        if name in refused:
            raise UnsupportedFeatureError(f"{name} {refused[name]}")
        return by_name[name]

    return Parser(_as_value_error(read), f"one of {', '.join(by_name)}")


def _as_value_error(read: Callable[[str], E]) -> Callable[[str], E]:
    def checked(value: str) -> E:
        try:
            return read(value)
        except KeyError as error:
            raise ValueError(value) from error

    return checked


def _read_conflict_strategy(value: str) -> ConflictStrategy:
    name = value.removeprefix(_CONFLICT_PACKAGE)
    if "." in name:
        raise UnsupportedFeatureError(
            "a class of your own may see conflicts where pyhudi sees none, and pyhudi runs no Java"
        )
    prefers_writer = name == ConflictStrategy.PREFER_WRITER.value
    return ConflictStrategy.PREFER_WRITER if prefers_writer else ConflictStrategy.SIMPLE


LAYOUT_KEY = "hoodie.layout.optimize.strategy"
"""In a plan of pyhudi, the parameter of the strategy that says the layout, so that every process writes the same one.
JVM Hudi goes by the options of the process that executes the plan."""


def read_layout(value: str) -> LayoutStrategy:
    """A layout, also as releases before 0.12 spelled it: `z-order`."""
    try:
        return LayoutStrategy[value.upper().replace("-", "")]
    except KeyError as error:
        raise ValueError(value) from error


_COPY_PLANS = f"{NOT_BUILT}: use SparkSizeBasedClusteringPlanStrategy without sort columns"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusteringOptions:
    """Rewriting file groups into files of a good size, with sorted rows."""

    inline: bool = option(
        "hoodie.clustering.inline",
        aliases=("hoodie.datasource.clustering.inline.enable",),
        default=False,
        doc="Whether a write also runs the clustering that is due after it.",
    )
    schedule_inline: bool = option(
        "hoodie.clustering.schedule.inline",
        default=False,
        doc="Whether a write only schedules the clustering that is due after it, and another process runs it.",
    )
    max_commits: int = option(
        "hoodie.clustering.inline.max.commits",
        parse=integer(minimum=1, unit="commits"),
        default=4,
        doc="After how many completed commits since the last clustering was planned the next one is due.",
    )
    in_background: bool = option(
        "hoodie.clustering.async.enabled",
        aliases=("hoodie.datasource.clustering.async.enable",),
        default=False,
        doc="Whether the clustering that is due after a write runs in a thread of its process, after the write has"
        " returned.",
    )
    max_commits_of_others: int = option(
        "hoodie.clustering.async.max.commits",
        parse=integer(minimum=1, unit="commits"),
        default=4,
        doc="`hoodie.clustering.inline.max.commits` for `hoodie.clustering.async.enabled=true`.",
    )
    plan_strategy: ClusteringPlanStrategy = option(
        "hoodie.clustering.plan.strategy.class",
        parse=_class_of(
            ClusteringPlanStrategy,
            _PLAN_PACKAGE,
            {
                "SparkStreamCopyClusteringPlanStrategy": _COPY_PLANS,
                "SparkCommitBasedClusteringPlanStrategy": _COPY_PLANS,
            },
        ),
        default=ClusteringPlanStrategy.SIZE_BASED,
        doc="How small files are put together: those of a partition up to a size, or each on its own. In tables with a"
        " consistent bucket index buckets are split and merged, with or without this option.",
    )
    run_strategy: ClusteringRunStrategy = option(
        "hoodie.clustering.execution.strategy.class",
        parse=_class_of(ClusteringRunStrategy, RUN_PACKAGE, {}),
        default=ClusteringRunStrategy.SORT_AND_SIZE,
        doc="Whether the rows of a group go into files of the target size, or all into one file. The copying strategies"
        " copy row groups without decoding them, if no columns to sort by are given, no slice has logs, and all files"
        " of a group have the same schema and writer; else they are as SparkSortAndSizeExecutionStrategy.",
    )
    sort_columns: tuple[str, ...] = option(
        SORT_COLUMNS_KEY,
        parse=column_names(may_be_empty=True),
        default=(),
        doc="The columns by which the rows of a group are sorted, nulls first. Without any, rows keep their order.",
    )
    layout: LayoutStrategy = option(
        LAYOUT_KEY,
        parse=Parser(read_layout, "one of LINEAR, ZORDER, HILBERT"),
        default=LayoutStrategy.LINEAR,
        doc="How rows are sorted by several columns: by the first, then by the second, and so on; or along a curve, so"
        " that files are narrow in each of the columns.",
    )
    sample_rows: int = option(
        "hoodie.layout.optimize.build.curve.sample.size",
        parse=integer(minimum=1, unit="rows"),
        default=200_000,
        doc="ZORDER and HILBERT: of so many rows of a group at least, if it has them, the curve is made.",
    )
    small_file_limit: int = option(
        "hoodie.clustering.plan.strategy.small.file.limit",
        parse=integer(minimum=1, unit="bytes"),
        default=314_572_800,
        doc="Base files of this size or more are left as they are.",
    )
    target_file_bytes: int = option(
        "hoodie.clustering.plan.strategy.target.file.max.bytes",
        parse=integer(minimum=1, unit="bytes"),
        default=1 << 30,
        doc="The size of the files that a clustering writes.",
    )
    max_group_bytes: int = option(
        "hoodie.clustering.plan.strategy.max.bytes.per.group",
        parse=integer(minimum=1, unit="bytes"),
        default=2 << 30,
        doc="Base files of a partition are put together up to this size. Rows are sorted within a group, and one task"
        " writes it.",
    )
    max_groups: int = option(
        "hoodie.clustering.plan.strategy.max.num.groups",
        parse=integer(minimum=1, unit="groups"),
        default=30,
        doc="How many groups one clustering has at most; the rest is left to the next one.",
    )
    single_groups: bool = option(
        "hoodie.clustering.plan.strategy.single.group.clustering.enabled",
        default=True,
        doc="Whether a small file that is alone in its group is rewritten.",
    )
    filter_mode: PartitionFilterMode = option(
        "hoodie.clustering.plan.partition.filter.mode",
        default=PartitionFilterMode.NONE,
        doc="Which partitions are clustered: all, those with the largest paths, those between two paths, or every 24th"
        " from the hour of the day on.",
    )
    lookback_partitions: int = option(
        "hoodie.clustering.plan.strategy.daybased.lookback.partitions",
        parse=integer(minimum=0, unit="partitions"),
        default=2,
        doc="RECENT_DAYS: how many partitions are clustered; 0 means all.",
    )
    skipped_partitions: int = option(
        "hoodie.clustering.plan.strategy.daybased.skipfromlatest.partitions",
        parse=integer(minimum=0, unit="partitions"),
        default=0,
        doc="RECENT_DAYS: how many of the partitions with the largest paths are left out.",
    )
    begin_partition: str | None = option(
        "hoodie.clustering.plan.strategy.cluster.begin.partition",
        parse=text("a partition path"),
        default=None,
        doc="SELECTED_PARTITIONS: the smallest partition path.",
    )
    end_partition: str | None = option(
        "hoodie.clustering.plan.strategy.cluster.end.partition",
        parse=text("a partition path"),
        default=None,
        doc="SELECTED_PARTITIONS: the largest partition path.",
    )
    partitions: tuple[str, ...] | None = option(
        "hoodie.clustering.plan.strategy.partition.selected",
        parse=partition_paths(),
        default=None,
        doc="Only these partitions are clustered, and of them those that the filter mode keeps.",
    )
    partition_regex: str | None = option(
        "hoodie.clustering.plan.strategy.partition.regex.pattern",
        parse=regular_expression(),
        default=None,
        doc="Only partitions whose whole path matches are clustered; has no effect if partitions are selected.",
    )
    update_strategy: UpdateStrategy = option(
        "hoodie.clustering.updates.strategy",
        parse=_class_of(UpdateStrategy, _UPDATE_PACKAGE, {}),
        default=UpdateStrategy.REJECT,
        doc="What a write does that changes file groups of a planned clustering: it fails, or it rolls the plan back"
        " and goes on. The latter needs `hoodie.clustering.rollback.pending.replacecommit.on.conflict=true`, and never"
        " rolls back a clustering that is running.",
    )
    rolls_back_on_conflict: bool = option(
        "hoodie.clustering.rollback.pending.replacecommit.on.conflict",
        default=False,
        doc="Whether SparkAllowUpdateStrategy rolls back the planned clustering that is in the way of the write.",
    )
    conflict_strategy: ConflictStrategy = option(
        "hoodie.write.lock.conflict.resolution.strategy",
        parse=Parser(_read_conflict_strategy, "a class of JVM Hudi"),
        default=ConflictStrategy.SIMPLE,
        doc="PreferWriterConflictResolutionStrategy: a write passes over planned clusterings, and a clustering whose"
        " file groups a write has changed gives up. With all other strategies the write gives way.",
    )

    @property
    def is_asked_for(self) -> bool:
        """Whether some process is to cluster the table by itself."""
        return self.inline or self.schedule_inline or self.in_background

    @property
    def commits_between(self) -> int:
        """After how many commits a clustering is due."""
        by_writes = self.inline or self.schedule_inline
        return self.max_commits_of_others if self.in_background and not by_writes else self.max_commits

    @property
    def effective_filter(self) -> PartitionFilterMode:
        """The filter mode that the strategy or the option names."""
        return {
            ClusteringPlanStrategy.RECENT_DAYS: PartitionFilterMode.RECENT_DAYS,
            ClusteringPlanStrategy.SELECTED_PARTITIONS: PartitionFilterMode.SELECTED_PARTITIONS,
        }.get(self.plan_strategy, self.filter_mode)


def clustering_problems(clustering: ClusteringOptions) -> list[str]:
    """The contradictions among the options of clustering."""
    problems = []
    if clustering.inline and clustering.schedule_inline:
        problems.append(
            "hoodie.clustering.inline=true runs the clustering that hoodie.clustering.schedule.inline=true leaves to "
            "others"
        )
    if clustering.run_strategy.copies and clustering.sort_columns:
        problems.append(
            f"{clustering.run_strategy.value} copies rows as they are: leave {SORT_COLUMNS_KEY} out, or use "
            f"{ClusteringRunStrategy.SORT_AND_SIZE.value}"
        )
    bounds = (clustering.begin_partition, clustering.end_partition)
    if clustering.effective_filter is PartitionFilterMode.SELECTED_PARTITIONS and None in bounds:
        problems.append(
            "SELECTED_PARTITIONS needs hoodie.clustering.plan.strategy.cluster.begin.partition and "
            "hoodie.clustering.plan.strategy.cluster.end.partition"
        )
    if clustering.update_strategy is UpdateStrategy.ALLOW and not clustering.rolls_back_on_conflict:
        problems.append(
            "SparkAllowUpdateStrategy without hoodie.clustering.rollback.pending.replacecommit.on.conflict=true would "
            "let the clustering undo the write: set it, or use PreferWriterConflictResolutionStrategy"
        )
    return problems
