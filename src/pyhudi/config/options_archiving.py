"""Options of archiving: when completed instants leave the active timeline for the archived one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pyhudi.config.option import option, read_group
from pyhudi.config.parsers import boolean, integer


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivingOptions:
    """Moving completed instants out of the active timeline, which every read and write lists."""

    automatic: bool = option(
        "hoodie.archive.automatic",
        parse=boolean(),
        default=True,
        doc="Whether a write archives after its commit, when the active timeline is long enough.",
    )
    in_background: bool = option(
        "hoodie.archive.async",
        parse=boolean(),
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
        parse=boolean(),
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
        parse=boolean(),
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


def archiving_of(given: Mapping[str, str]) -> ArchivingOptions:
    """The options of archiving, from texts by main key. A default never contradicts what is given."""
    options = read_group(ArchivingOptions, given)
    if "hoodie.keep.min.commits" in given:
        return options
    return replace(options, min_commits=min(options.min_commits, options.max_commits - 1))
