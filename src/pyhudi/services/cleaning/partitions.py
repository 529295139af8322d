"""Selects the partitions that a clean has to look at, by what the clean before it left."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from pyhudi.config.enums import TableType
from pyhudi.config.options_cleaning import CleaningOptions
from pyhudi.format.metadata.clean import CleaningPolicy, CleanMetadata
from pyhudi.format.timeline.instant import Action, Instant
from pyhudi.services.cleaning.policy import Retention, SliceDecision
from pyhudi.table.archive.history import has_archive
from pyhudi.table.file_system_view import FileSystemView
from pyhudi.table.state import TableState
from pyhudi.table.timeline import position_of
from pyhudi.table.written_files import load_written_files

SAVEPOINTS_NOTE = "savepointed_timestamps"
"""Under this key a clean says which savepoints it spared, separated by commas: JVM Hudi's name for it."""
COMPLETE_NOTE = "pyhudi.versions.complete"
"""Under this key a clean by KEEP_LATEST_FILE_VERSIONS says how many slices of each file group it left, if it left no
others: then only later writes make work for the next one."""


def partitions_to_visit(
    table: TableState,
    options: CleaningOptions,
    last: CleanMetadata | None,
    earliest: Instant | None,
    savepoints: Mapping[str, object],
) -> frozenset[str] | None:
    """The partitions in which slices may have lost their last reader since the last clean; None for all of the table.

    A slice loses it when a later slice of its group, or a replacement of the group, falls behind the earliest retained
    write. So the writes between the last clean's earliest and this one's say where, and those that began before and
    were completed since: a clustering may be planned long before it is executed.
    """
    timeline = table.timeline
    if not options.incremental:
        return None
    if earliest is None:
        return _since_complete(table, options, last)
    begin = last.earliest if last is not None else ""
    if last is None and has_archive(table.storage, table.version):
        return None
    if last is not None and (not begin or timeline.starts_after(begin)):
        return None
    spared = set(filter(None, last.extra.get(SAVEPOINTS_NOTE, "").split(","))) if last is not None else set()
    if not spared <= set(savepoints):
        return None
    until = earliest.requested_time
    passed = [
        write for write in timeline.completed_writes if begin <= position_of(write) and write.requested_time < until
    ]
    return frozenset(_changed_partitions(table, passed))


def _since_complete(table: TableState, options: CleaningOptions, last: CleanMetadata | None) -> frozenset[str] | None:
    """The partitions that writes since the last clean have changed, if that one left nothing over; None for all."""
    if last is None or last.extra.get(COMPLETE_NOTE) != str(options.versions_retained):
        return None
    if table.timeline.starts_after(last.last_completed):
        return None
    later = [write for write in table.timeline.completed_writes if write.requested_time > last.last_completed]
    return frozenset(_changed_partitions(table, later))


def is_complete(
    options: CleaningOptions, retention: Retention, view: FileSystemView, decisions: Iterable[SliceDecision]
) -> bool:
    """Whether a clean by KEEP_LATEST_FILE_VERSIONS leaves only the slices that are to stay, all over the table.

    What stays for a reader, a savepoint or a plan goes later, without any write, so it has to be looked for again.
    """
    if options.policy is not CleaningPolicy.KEEP_LATEST_FILE_VERSIONS:
        return False
    if options.partitions is not None or options.partition_regex is not None:
        return False
    if retention.savepointed or retention.planned or retention.reading_since is not None:
        return False
    return all(decision.deletes or decision.file_slice.group not in view.replaced for decision in decisions)


def _changed_partitions(table: TableState, writes: Sequence[Instant]) -> Iterator[str]:
    """The partitions in which one of these writes made a new slice of an older group, or replaced groups."""
    for write, files in load_written_files(table.storage, table.version, writes).items():
        # Compactions, which are commits of merge-on-read tables, do not always say that there were logs before.
        compacts = write.action is Action.COMMIT and table.config.table_type is TableType.MERGE_ON_READ
        yield from (partition for partition, replaced in files.replaced.items() if replaced)
        for partition, written in files.written.items():
            if any(not one.is_log and (compacts or one.has_predecessor) for one in written):
                yield partition
