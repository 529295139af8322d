"""Options of cleaning and archiving: when old file slices are deleted, and when instants leave the active timeline."""

# ruff: noqa: RUF009 - option() declares a field, as dataclasses.field does
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pyhudi.config.option import option, read_group
from pyhudi.config.parsers import integer, partition_paths, regular_expression
from pyhudi.format.metadata.clean import CleaningPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivingOptions:
    """Moving completed instants out of the active timeline, which every read and write lists."""

    automatic: bool = option(
        "hoodie.archive.automatic",
        default=True,
        doc="Whether a write archives after its commit, when the active timeline is long enough.",
    )
    in_background: bool = option(
        "hoodie.archive.async",
        default=False,
        doc="Whether archiving after a write runs in a thread of its process, after the write has returned.",
    )
    max_commits: int = option(
        "hoodie.keep.max.commits",
        parse=integer(minimum=2, unit="commits"),
        default=30,
        doc="Archiving begins when the active timeline has more completed commits than this.",
    )
    min_commits: int = option(
        "hoodie.keep.min.commits",
        parse=integer(minimum=1, unit="commits"),
        default=20,
        doc="How many completed commits stay on the active timeline. More do where a clean has not passed them yet,"
        " where a write or service is pending, or a savepoint stands. Where this is not given, it stays below"
        " hoodie.keep.max.commits.",
    )
    beyond_savepoint: bool = option(
        "hoodie.archive.beyond.savepoint",
        default=False,
        doc="Whether commits that are newer than a savepoint are archived. The savepoint and its own commit stay.",
    )
    merge_batch: int = option(
        "hoodie.timeline.compaction.batch.size",
        parse=integer(minimum=2, unit="files"),
        default=10,
        doc="How many files of one level of the archived timeline are merged into one of the next level.",
    )
    manifests_retained: int = option(
        "hoodie.timeline.manifest.retained.versions",
        parse=integer(minimum=2, unit="manifests"),
        default=3,
        doc="How many manifests of the archived timeline stay, for readers that opened an older one.",
    )
    merge_logs: bool = option(
        "hoodie.archive.merge.enable",
        default=True,
        doc="In table version 6, whether small files of the archived timeline are merged, so that few are read."
        " JVM Hudi's default is false, and its releases since 1.0 do not merge them.",
    )
    merge_logs_batch: int = option(
        "hoodie.archive.merge.files.batch.size",
        parse=integer(minimum=2, unit="files"),
        default=10,
        doc="In table version 6, how many small files of the archived timeline there must be to be merged.",
    )
    merge_logs_below_bytes: int = option(
        "hoodie.archive.merge.small.file.limit.bytes",
        parse=integer(minimum=1, unit="bytes"),
        default=20 * 1024 * 1024,
        doc="In table version 6, the size up to which a file of the archived timeline counts as small.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningOptions:
    """Deleting file slices that no retained state of the table needs."""

    automatic: bool = option(
        "hoodie.clean.automatic",
        default=True,
        doc="Whether a write cleans the table after its commit.",
    )
    in_background: bool = option(
        "hoodie.clean.async.enabled",
        aliases=("hoodie.clean.async",),
        default=False,
        doc="Whether the clean after a write runs in a thread of its process, after the write has returned.",
    )
    policy: CleaningPolicy = option(
        "hoodie.clean.policy",
        aliases=("hoodie.cleaner.policy",),
        default=CleaningPolicy.KEEP_LATEST_COMMITS,
        doc="What stays readable: the states of the newest commits, those of the last hours, or a number of file slices"
        " of each file group. The newest slice of each group stays in any case, and so does what a savepoint names."
        " Where this is not given, and one of the three numbers is, the policy is that of the number.",
    )
    commits_retained: int = option(
        "hoodie.clean.commits.retained",
        aliases=("hoodie.cleaner.commits.retained",),
        parse=integer(minimum=1, unit="commits"),
        default=10,
        doc="KEEP_LATEST_COMMITS: how many of the newest commits stay readable.",
    )
    hours_retained: int = option(
        "hoodie.clean.hours.retained",
        aliases=("hoodie.cleaner.hours.retained",),
        parse=integer(minimum=0, unit="hours"),
        default=24,
        doc="KEEP_LATEST_BY_HOURS: for how long a state stays readable after a newer one has taken its place.",
    )
    versions_retained: int = option(
        "hoodie.clean.fileversions.retained",
        aliases=("hoodie.cleaner.fileversions.retained",),
        parse=integer(minimum=1, unit="file slices"),
        default=3,
        doc="KEEP_LATEST_FILE_VERSIONS: how many slices of each file group stay.",
    )
    deletes_sources: bool = option(
        "hoodie.clean.delete.bootstrap.base.file",
        aliases=("hoodie.cleaner.delete.bootstrap.base.file",),
        default=False,
        doc="Bootstrapped tables: whether with a skeleton file that is deleted the file of the source goes, too."
        " Nothing else in the source is ever deleted.",
    )
    trigger_commits: int = option(
        "hoodie.clean.trigger.max.commits",
        aliases=("hoodie.clean.max.commits",),
        parse=integer(minimum=1, unit="commits"),
        default=1,
        doc="A write cleans once so many commits have completed since the last clean.",
    )
    incremental: bool = option(
        "hoodie.clean.incremental.enabled",
        aliases=("hoodie.cleaner.incremental.mode",),
        default=True,
        doc="Whether a clean lists only the partitions that commits since the last clean have changed. Without it each"
        " clean lists the whole table.",
    )
    max_commits: int = option(
        "hoodie.clean.max.commits.to.clean",
        parse=integer(minimum=1, unit="commits"),
        default=2**63 - 1,
        doc="By how many commits one clean moves the oldest retained state on at most.",
    )
    partition_regex: str | None = option(
        "hoodie.clean.partition.filter.regex",
        aliases=("hoodie.cleaner.partition.filter.regex",),
        parse=regular_expression(),
        default=None,
        doc="Only partitions whose whole path matches are cleaned.",
    )
    partitions: tuple[str, ...] | None = option(
        "hoodie.clean.partition.filter.selected",
        aliases=("hoodie.cleaner.partition.filter.selected",),
        parse=partition_paths(),
        default=None,
        doc="Only these partitions are cleaned: their paths, separated by commas.",
    )


_POLICIES = {
    "hoodie.clean.commits.retained": CleaningPolicy.KEEP_LATEST_COMMITS,
    "hoodie.clean.hours.retained": CleaningPolicy.KEEP_LATEST_BY_HOURS,
    "hoodie.clean.fileversions.retained": CleaningPolicy.KEEP_LATEST_FILE_VERSIONS,
}
"""The policy that each number is about."""


def cleaning_of(given: Mapping[str, str]) -> CleaningOptions:
    """The options of cleaning, from texts by main key. One number without a policy names its policy, as in JVM Hudi."""
    options = read_group(CleaningOptions, given)
    named = [policy for key, policy in _POLICIES.items() if key in given]
    if "hoodie.clean.policy" in given or len(named) != 1:
        return options
    return replace(options, policy=named[0])


def archiving_of(given: Mapping[str, str]) -> ArchivingOptions:
    """The options of archiving, from texts by main key. A default never contradicts what is given."""
    options = read_group(ArchivingOptions, given)
    if "hoodie.keep.min.commits" in given:
        return options
    return replace(options, min_commits=min(options.min_commits, options.max_commits - 1))
