"""Expiry of partitions: whole partitions that are past their time are dropped.

The decision is made again when the drop begins, and a write that completes in one of these partitions before the drop
is a conflict: so no row goes that came after the decision.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from pyhudi.config.options_ttl import ExpiryOptions, ExpiryStrategy
from pyhudi.errors import NotFoundError, WriteConflictError
from pyhudi.format.metadata.partition import (
    PARTITION_METADATA_BYTES_MAX,
    PARTITION_METADATA_FILE,
    decode_partition_metadata,
)
from pyhudi.format.metadata.write_operation import WriteOperation
from pyhudi.format.timeline.instant import Action, InstantTime, parse_instant_time
from pyhudi.index.key_value.hbase_publishing import withdraw
from pyhudi.markup import Shown
from pyhudi.services.frame.service import Due, ServiceCall
from pyhudi.services.partition_ttl.drop import drop_partitions
from pyhudi.storage.bounded import at_once, read_decoded
from pyhudi.storage.protocol import Storage
from pyhudi.table.archive.history import archived_drops
from pyhudi.table.commits import load_commit_metadata
from pyhudi.table.features import check_writable
from pyhudi.table.file_slice import FileSlice
from pyhudi.table.instant_times import table_zone
from pyhudi.table.pending_clusterings import clustered_groups
from pyhudi.table.remembered_files import latest_slices
from pyhudi.table.state import TableState
from pyhudi.table.written_files import load_written_files

MS_PER_DAY = 86_400_000
NO_DAYS = "no number of days is set (hoodie.partition.ttl.strategy.days.retain)"
_BEGINNING = {
    ExpiryStrategy.KEEP_BY_TIME: "last changed",
    ExpiryStrategy.KEEP_BY_CREATION_TIME: "created",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Expired(Shown):
    """What an expiry of partitions did: its instant, and the paths of the partitions that it dropped, oldest first."""

    instant: InstantTime
    partitions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PartitionAge:
    """Whether a partition expires, and why.

    `since`: the write from which its age counts; None where it is not known. `age_ms`: None where that write's instant
    is not a time. `file_ids`: its file groups.
    """

    partition_path: str
    expires: bool
    reason: str
    since: str | None
    age_ms: int | None
    file_ids: tuple[str, ...]


def planned_expiry(call: ServiceCall) -> tuple[PartitionAge, ...]:
    """The partitions with rows, the oldest first, and which of them would be dropped now.

    Cost: a listing of the table; by creation time also one read per partition and per replace commit of the active
    timeline, several at once on object stores, and the archive since the oldest of those that would expire.
    """
    table, options = call.table, call.config.expiry
    if not table.config.partition_fields:
        return ()
    latest = latest_slices(table, call.lister)
    by_creation = options.strategy is ExpiryStrategy.KEEP_BY_CREATION_TIME
    now_ms, zone = call.environment.clock.now_ms(), table_zone(table.config)

    def is_old(time: str) -> bool:
        began = parse_instant_time(time, zone)
        return began is not None and _is_past(now_ms - began, options)

    since = _creations(table, tuple(latest), is_old) if by_creation else _last_changes(table, latest)
    clustered = {group.partition_path for group in clustered_groups(table.storage, table.timeline)}
    began_ms = {partition: parse_instant_time(time or "", zone) for partition, time in since.items()}
    found: list[PartitionAge] = []
    for partition in sorted(latest, key=lambda path: (began_ms[path] or 0, path)):
        began = began_ms[partition]
        age_ms = None if began is None else now_ms - began
        stays = _why_it_stays(partition, age_ms, options, is_read=partition in clustered)
        if not stays and sum(age.expires for age in found) == options.max_partitions:
            stays = "left for the next run (hoodie.partition.ttl.strategy.max.delete.partitions)"
        ids = tuple(file_slice.file_id for file_slice in latest[partition])
        reason = stays or f"{_BEGINNING[options.strategy]} more than {options.days_retained} days ago"
        found.append(PartitionAge(partition, not stays, reason, since[partition], age_ms, ids))
    return tuple(found)


def _why_it_stays(partition: str, age_ms: int | None, options: ExpiryOptions, *, is_read: bool) -> str:
    """Empty where the partition expires. `is_read`: whether a pending clustering reads its files."""
    if options.days_retained <= 0:
        return NO_DAYS
    if options.partitions is not None and partition not in options.partitions:
        return "not among the selected partitions"
    beginning = _BEGINNING[options.strategy]
    if age_ms is None:
        return f"{beginning} at a time that is not known"
    if not _is_past(age_ms, options):
        return f"{beginning} not more than {options.days_retained} days ago"
    return "a pending clustering reads its files" if is_read else ""


def _is_past(age_ms: int, options: ExpiryOptions) -> bool:
    return 0 < options.days_retained * MS_PER_DAY < age_ms


def expiry_due(call: ServiceCall) -> Due:
    """Whether to look for partitions that are past their time. Cost: nothing."""
    if not call.table.config.partition_fields:
        return Due(False, "a table without partitions")
    if call.config.expiry.days_retained <= 0:
        return Due(False, NO_DAYS)
    return Due(True, f"partitions older than {call.config.expiry.days_retained} days are looked for")


def expire_partitions(call: ServiceCall) -> Expired | None:
    """Drop the partitions that are past their time, in one replace commit; None where there are none.

    Raises `WriteConflictError`, with nothing dropped, where another writer changed one of them meanwhile, and what a
    commit raises. Cost: twice that of `planned_expiry`, without a second listing where the first is remembered; and
    that of a commit without files.
    """
    call = call.reloaded()
    check_writable(call.table)
    if not any(age.expires for age in planned_expiry(call)):
        return None
    chosen: list[str] = []

    def choose(table: TableState) -> dict[str, tuple[str, ...]]:
        going = {age.partition_path: age.file_ids for age in planned_expiry(replace(call, table=table)) if age.expires}
        if not going:
            raise WriteConflictError(
                "other writers changed or dropped the partitions that had expired; nothing was dropped",
                path=table.storage.uri,
            )
        chosen.extend(going)
        return {path: going[path] for path in sorted(going)}

    done = drop_partitions(call.table, choose, settings=call.settings, environment=call.environment, extra={})
    withdraw(call.config.index, call.source_of(done.base), done.instant, done.metadata)
    return Expired(instant=done.instant, partitions=tuple(chosen))


def _last_changes(table: TableState, latest: Mapping[str, Sequence[FileSlice]]) -> dict[str, str | None]:
    """By partition, the newest write among its files; JVM Hudi looks at base files only, and misses updates in logs."""
    newest = {
        partition: max(
            time
            for file_slice in slices
            for time in (file_slice.instant_time, *(log.instant_time for log in file_slice.logs))
        )
        for partition, slices in latest.items()
    }
    if table.version.has_completion_times:
        return dict(newest)
    # Logs of version 6 do not show their writes. Those that the active timeline does not name are older than it.
    writes = load_written_files(table.storage, table.version, table.timeline.completed_writes)
    for partition, slices in latest.items():
        if any(file_slice.logs for file_slice in slices):
            named = (write.requested_time for write, files in writes.items() if partition in files.written)
            newest[partition] = max(newest[partition], table.timeline.first_time or "", *named)
    return dict(newest)


def _creations(table: TableState, partitions: Sequence[str], wanted: Callable[[str], bool]) -> dict[str, str | None]:
    """By partition, the write that created it, as its folder says; or its newest drop, after which it began anew.

    The folder's file outlives a drop until the clean, and further if new rows came before that. `wanted`: whether a
    partition that was created then would expire: the archive is only asked for drops of such.
    """
    storage = table.storage
    written = at_once(storage, lambda partition: _written_creation(storage, partition), partitions)
    times = dict(zip(partitions, written, strict=True))
    replacements = [write for write in table.timeline.completed_writes if write.action is Action.REPLACE_COMMIT]
    found = at_once(
        storage, lambda replacement: load_commit_metadata(storage, replacement, table.version), replacements
    )
    for instant, metadata in zip(replacements, found, strict=True):
        if metadata.operation is WriteOperation.DELETE_PARTITION:
            for partition in metadata.replaced_file_ids or {}:
                if (previous := times.get(partition)) is not None:
                    times[partition] = max(previous, instant.requested_time)
    old = [time for time in times.values() if time is not None and wanted(time)]
    if old:
        for partition, dropped in archived_drops(storage, table.version, after=min(old)).items():
            if (previous := times.get(partition)) is not None:
                times[partition] = max(previous, dropped)
    return times


def _written_creation(storage: Storage, partition: str) -> str | None:
    path = f"{partition}/{PARTITION_METADATA_FILE}"
    try:
        return read_decoded(storage, path, PARTITION_METADATA_BYTES_MAX, decode_partition_metadata).instant_time
    except NotFoundError:
        return None
